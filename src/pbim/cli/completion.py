"""``pbim completion``: a script that lets a shell complete commands and options."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union

import tyro

from pbim.cli import components
from pbim.errors import MissingExtraError


@dataclass(frozen=True, kw_only=True)
class Completion:
    """Print a script that lets your shell complete commands and options with the Tab key.

    bash: add this line to ~/.bashrc

    eval "$(pbim completion bash)"

    zsh: pbim completion zsh > ~/.zfunc/_pbim (a folder in your fpath)

    fish: pbim completion fish > ~/.config/fish/completions/pbim.fish

    Example: pbim completion bash
    """

    shell: Annotated[Literal["bash", "zsh", "fish"], tyro.conf.Positional, tyro.conf.arg(metavar="SHELL")]
    """bash, zsh or fish."""

    def run(self) -> int:
        """Print the script and return the exit code."""
        words = ["--tyro-print-completion", self.shell]
        with components.registry():
            try:
                tyro.cli(_everything(), prog="pbim", args=words, config=components.STYLE[:1] + components.STYLE[2:])
            except SystemExit as stop:  # tyro leaves when the script is printed
                return int(stop.code or 0)
        return 0


def _everything() -> Any:
    """Return all commands as one type; those that name components with the options of the default ones."""
    from pbim.cli.commands import COMMANDS

    found = []
    for name, cls in COMMANDS.items():
        given = {}
        try:
            if hasattr(cls, "parse"):
                given["default"] = cls.parse(["--intrinsic", "count"])
        except MissingExtraError:  # without jax there is no learner: complete the command's own options
            pass
        found.append(Annotated[cls, tyro.conf.subcommand(name, **given)])
    return Union[tuple(found)]  # noqa: UP007 - made at run time
