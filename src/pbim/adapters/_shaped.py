"""What every wrapped environment offers, whatever its framework."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from pbim.adapters._engine import RewardPath
from pbim.adapters._evidence import TrainingReport
from pbim.adapters.batching import Arrays


class Shaped:
    """What every wrapped environment offers, whatever its framework."""

    rewards: RewardPath

    @property
    def training(self) -> bool:
        """Whether steps teach the bonus, enter F-bar and the certificate; set it to False for an evaluation.

        While it is False, F' is computed by a copy of the bonus and with F-bar as they were at the switch, nothing
        learns or counts, and ``state_dict()`` keeps what training left ("obs" and "over" follow the environment).
        Switching abandons a running episode. Set it to False again to take a new copy.
        """
        return self.rewards.training

    @training.setter
    def training(self, training: bool) -> None:
        self.rewards.training = training

    def close(self, **kwargs: Any) -> Any:
        """Close the environments; the bonus is free for others."""
        if "rewards" in vars(self):  # Gymnasium before 1.4 also closes a wrapper whose making was refused
            self.rewards.close()
        return super().close(**kwargs)  # type: ignore[misc]

    def certificate(self) -> TrainingReport:
        """Return whether F' cancelled in every episode of training finished so far."""
        return self.rewards.report()

    def state_dict(self) -> Arrays:
        """Return the wrapper's state (not the environments') as flat arrays: ledger, statistics, certificate, bonus."""
        return self.rewards.state_dict()

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]], /) -> None:
        """Continue from what ``state_dict`` returned, in environments in the state they were in then, or reset them.

        Args:
            arrays: What ``state_dict`` returned, of the same conversion, bonus and num_envs.

        Raises:
            InputError: If the arrays are of another conversion, bonus or num_envs.

        """
        self.rewards.load_state_dict(arrays)
