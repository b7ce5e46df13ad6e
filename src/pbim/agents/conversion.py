"""The conversion and the certificate inside the loop: where a rollout settles a ledger, and where it forgets one."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from pbim.agents._config import PPO
from pbim.shaping import Ledger, Mixture, Shaping, State
from pbim.truncation import Ends, ends
from pbim.verification import Certificate, CertificateState


def ledger_ends(config: PPO, terminated: Array, truncated: Array) -> Ends[Array]:
    """Return what a step ends for the ledger; it is what it ends for the learner unless ``settlement`` says otherwise.

    With ``settlement="termination"`` a truncation does to the ledger what it would do if the learner bootstrapped.
    """
    return ends("bootstrap" if config.settlement == "termination" else config.truncation, terminated, truncated)


def convert(config: PPO, state: State, bonus: Array, end: Ends[Array]) -> tuple[State, Array]:
    """Return the conversion's state and F' (T, num_envs) for a rollout of scaled bonuses.

    Args:
        config: The run.
        state: The conversion's state before the rollout.
        bonus: The bonus times its scale, (T, num_envs).
        end: What each step ends for the ledger, (T, num_envs) each.

    """
    shaping = config.shaping
    if config.settlement == "rollout" and isinstance(shaping, Ledger | Mixture):  # others owe nothing
        # Every rollout starts with an empty ledger and the bonus less the rollout's own mean: neither is what earlier
        # rollouts paid taken back, nor is the mean known before the step.
        mean = 0 if getattr(shaping, "normalize", False) is False else jnp.mean(bonus)
        fresh: Shaping[Any] = shaping.frozen()
        _, shaped = fresh.rollout(fresh.init(bonus.shape[1], like=bonus), bonus - mean, end.settled)
        return state, shaped
    if not _leaves_open(config):
        return shaping.rollout(state, bonus, end.settled)

    def body(state: State, row: tuple[Array, Array, Array]) -> tuple[State, Array]:
        bonus, settled, left_open = row
        state, shaped = shaping.step(state, bonus, settled)
        return shaping.discard(state, left_open), shaped

    return jax.lax.scan(body, state, (bonus, end.settled, end.left_open))


def ledgers(config: PPO, start: Array, shaped: Array, end: Ends[Array]) -> Array:
    """Return L_t before every step of a rollout and after the last, (T + 1, num_envs).

    Args:
        config: The run.
        start: What is owed when the rollout starts, (num_envs,).
        shaped: The shaping rewards F', (T, num_envs).
        end: What each step ends for the ledger, (T, num_envs) each.

    """

    def body(ledger: Array, row: tuple[Array, Array]) -> tuple[Array, Array]:
        after = jnp.where(row[1], 0, (ledger + row[0]) / config.gamma)
        return after, after

    return jnp.concatenate([start[None], jax.lax.scan(body, start, (shaped, end.settled))[1]])


def certify(config: PPO, state: CertificateState, shaped: Array, end: Ends[Array]) -> CertificateState:
    """Return the certificate after a rollout's F' (T, num_envs); ``worst`` is of this rollout alone.

    Args:
        config: The run.
        state: The certificate's state before the rollout.
        shaped: The shaping rewards F'.
        end: What each step ends for the learner: an episode that it leaves open to its value owes nothing yet.

    """
    certificate = Certificate(gamma=config.bonus_gamma)
    state = state._replace(worst=jnp.zeros(()))
    if config.truncation != "bootstrap":
        return certificate.update(state, shaped, end.settled)

    def body(state: Any, row: tuple[Array, Array, Array]) -> tuple[Any, None]:
        shaped, settled, left_open = row
        return certificate.discard(certificate.update(state, shaped, settled), left_open), None

    return jax.lax.scan(body, state, (shaped, end.settled, end.left_open))[0]


def _leaves_open(config: PPO) -> bool:
    return config.truncation == "bootstrap" or config.settlement == "termination"
