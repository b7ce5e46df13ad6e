"""The certificate of a wrapped environment: what cancelled, and what could not be checked."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from pbim.adapters.batching import Arrays
from pbim.shaping import load_arrays, state_arrays
from pbim.verification import Certificate, CertificateReport

Mask = NDArray[np.bool_]

_BLOCK = 128


@dataclass(frozen=True, kw_only=True)
class TrainingReport(CertificateReport):
    """A certificate that also counts the episodes it could not check.

    Attributes:
        bootstrapped: Truncated episodes whose open ledger was left to the learner's value.
        abandoned: Episodes cut off by a ``reset``, or by switching ``training``, before they ended.
        changed_by: The wrapper outside that changes rewards after the conversion, such as ``NormalizeReward``; "" if
            there is none. With one, nothing is certified: what the learner gets does not cancel.

    """

    bootstrapped: int = 0
    abandoned: int = 0
    changed_by: str = ""

    @property
    def ok(self) -> bool:
        """Tell whether there is evidence, and all of it says that F' cancelled in what the learner gets."""
        return super().ok and not self.changed_by

    def __str__(self) -> str:
        unchecked = {"truncated, left to the learner's bootstrap": self.bootstrapped, "abandoned": self.abandoned}
        notes = "".join(f"; {count} {name}" for name, count in unchecked.items() if count)
        inside = CertificateReport(**{part.name: getattr(self, part.name) for part in fields(CertificateReport)})
        if not self.changed_by:
            return f"{inside}{notes}"
        return (
            f"DOES NOT CANCEL for the learner: {self.changed_by} outside the wrapper changes rewards after the "
            f"conversion (before it: {inside}{notes})"
        )


class EpisodeRecord:
    """A certificate's state, with the latest steps waiting in a block: checking many at once costs less."""

    def __init__(self, certificate: Certificate, num_envs: int, like: NDArray[np.floating]) -> None:
        self.bootstrapped = self.abandoned = 0
        self.changed_by = ""
        self._certificate, self._like = certificate, like
        self._state = certificate.init(num_envs, like=like)
        self._shaped = np.zeros((_BLOCK, num_envs), like.dtype)
        self._ended, self._valid = np.zeros_like(self._shaped, np.bool_), np.ones_like(self._shaped, np.bool_)
        self._waiting = 0

    def add(self, shaped: NDArray[np.floating], ended: Mask | None, valid: Mask | None) -> None:
        """Take note of one step, all of shape (num_envs,); it ends nothing if ``ended`` is None."""
        row = self._waiting
        self._shaped[row] = shaped
        if ended is not None:
            self._ended[row] = ended
        if valid is not None:
            self._valid[row] = valid
        self._waiting = row + 1
        if self._waiting == _BLOCK:
            self._check()

    def discard(self, where: Mask) -> None:
        """Forget the running episodes where true."""
        self._check()
        self._state = self._certificate.discard(self._state, where)

    def report(self) -> TrainingReport:
        """Return the verdict over every episode finished so far."""
        self._check()
        verdict = self._certificate.report(self._state, like=self._like)
        counts = {"bootstrapped": self.bootstrapped, "abandoned": self.abandoned}
        return TrainingReport(**vars(verdict), **counts, changed_by=self.changed_by)

    def arrays(self) -> Arrays:
        """Return the state as flat arrays."""
        self._check()
        counts = {"bootstrapped": self.bootstrapped, "abandoned": self.abandoned}
        return {
            **{f"certificate.{name}": array for name, array in state_arrays(self._state).items()},
            **{f"episodes.{name}": np.array(count) for name, count in counts.items()},
        }

    def load(self, certificate: Arrays, episodes: Arrays) -> None:
        """Continue from the two parts of what ``arrays`` returned."""
        self._waiting, self._ended[:], self._valid[:] = 0, False, True
        self._state = load_arrays(self._state, certificate)
        self.bootstrapped, self.abandoned = int(episodes["bootstrapped"]), int(episodes["abandoned"])

    def _check(self) -> None:
        n, self._waiting = self._waiting, 0
        if n:
            self._state = self._certificate.update(
                self._state, self._shaped[:n], self._ended[:n], valid=self._valid[:n]
            )
            self._ended[:n], self._valid[:n] = False, True
