"""The marker ``reward_term`` for pytest, which finds this by itself where pbim is installed.

    @pytest.mark.reward_term(term=lambda t: t.info["dense"], gamma=0.99)
    def test_the_dense_term_is_safe(env): ...

audits the fixture ``env`` (``env="name"`` for another one) before the test runs, as
:func:`pbim.testing.check_reward_term` does with the other arguments, and fails with the witness.
"""

from collections.abc import Generator
from typing import Any

import pytest

MARKER = "reward_term"
HELP = f"{MARKER}(term, gamma, env='env', **options): fail unless the fixture's reward term is safe (pbim)"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", HELP)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Check the term of a marked test before it runs."""
    marker = pyfuncitem.get_closest_marker(MARKER)
    if marker is not None:
        from pbim.testing import check_reward_term  # heavy, and most test runs have no such marker

        options = dict(marker.kwargs)
        fixture = options.pop("env", "env")
        if fixture not in pyfuncitem.funcargs:
            pytest.fail(f"{MARKER} needs a fixture named {fixture!r}: add it to the test's arguments", pytrace=False)
        failure = None
        try:
            check_reward_term(pyfuncitem.funcargs[fixture], **options)
        except AssertionError as error:
            failure = str(error)
        if failure is not None:  # out here, so that pytest does not print both
            pytest.fail(failure, pytrace=False)
    return (yield)
