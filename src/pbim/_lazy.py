"""Packages whose public names load on first use: one list, ``__init__.pyi``, which type checkers read too."""

from collections.abc import Callable
from typing import Any

import lazy_loader  # type: ignore[import-untyped]

from pbim._extras import EXTRAS, require


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, made from the stub beside ``file``.

    Args:
        package: The package's ``__name__``.
        file: Its ``__file__``.

    """
    load, names, public = lazy_loader.attach_stub(package, file)

    def load_or_say(name: str) -> Any:
        try:
            return load(name)
        except ModuleNotFoundError as error:
            missing = (error.name or "").split(".")[0]
            if missing in EXTRAS:
                require(f"{package}.{name}", missing)
            raise

    return load_or_say, names, public
