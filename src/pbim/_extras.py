"""Optional packages: which extra brings each, said in one sentence where one is missing."""

from importlib.util import find_spec

from pbim.errors import MissingExtraError

EXTRAS = {
    "gymnasium": "gymnasium",
    "imageio_ffmpeg": "video",
    "jax": "jax",
    "matplotlib": "plot",
    "minari": "minari",
    "minigrid": "envs",
    "optax": "jax",
    "msgspec": "results",
    "polars": "results",
    "ray": "ray",
    "rsl_rl": "rsl-rl",
    "safetensors": "jax",
    "scipy": "report",
    "stable_baselines3": "sb3",
    "torch": "torch",
    "torchrl": "torchrl",
    "tree": "rllib",
}
"""The extra of pbim that brings a package."""
REPORT = ("polars", "msgspec", "scipy", "matplotlib")
"""What the extra ``report`` brings."""
STUDIES = ("jax", "optax", "safetensors", "gymnasium", *REPORT)
"""What the extra ``studies`` brings."""


def require(who: str, *packages: str, extra: str = "") -> None:
    """Raise :class:`pbim.errors.MissingExtraError` for the first of ``packages`` that is not installed.

    Args:
        who: The part of pbim that needs them, as a user writes it, such as ``pbim.RND``.
        packages: Import names, each a key of ``EXTRAS``.
        extra: The extra that brings all of them; without it, that of the first that is missing.

    >>> require("pbim.shaping")

    """
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtraError(
                f"{who} needs {package}, which is not installed: pip install 'pbim[{extra or EXTRAS[package]}]'",
                name=package,
            )
