"""Bonus: how far the next observation is from the nearest of those before, in a random network's eyes."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jax import Array

from pbim.intrinsic._checks import network_sizes, widths
from pbim.intrinsic._core import LearnedBonus
from pbim.intrinsic._neighbours import Ring, empty, nearest, neighbours, write_shared
from pbim.intrinsic._networks import MLP, Init, mlp, mlp_init
from pbim.intrinsic.array_counts import valid_rows
from pbim.intrinsic.encodings import Encode, flatten, width
from pbim.intrinsic.protocol import Spec, Transition


class RE3State(NamedTuple):
    """The fixed random encoder, and the features of the last arrivals of all environments."""

    encoder: MLP
    memory: Ring


@dataclass(frozen=True, kw_only=True)
class RE3(LearnedBonus):
    """Pay ``log(1 + ||y - y_k||)``, y the random features of the next observation, y_k their k-th nearest neighbour.

    The log distance estimates the entropy of the visited states, which the bonus so maximises. The encoder never
    learns. Memory: bounded, capacity x features floats, for all environments together.

    **Past-only.** Neighbours are sought among the last ``capacity`` arrivals of earlier steps, of all environments. The
    paper and RLeXplore seek them in a batch or buffer that also holds later steps (and the state itself, so that their
    k-th neighbour is the k+1-st), which breaks Assumption 1. With fewer than k arrivals the farthest of them counts;
    before the first the bonus is 0.

    Seo et al. 2021 (arXiv 2102.09430), Eq. 4. Shapes: transition (num_envs, ...) -> (num_envs,).

    Args:
        k: Which neighbour.
        capacity: How many arrivals are remembered; the oldest are forgotten first.
        hidden: Widths of the hidden layers.
        features: Width of y.
        init_scheme: How weights are drawn: ``"orthogonal"`` with gain sqrt 2 and no biases, or as in PyTorch,
            ``"torch"``: weights and biases uniform in +-1 / sqrt(inputs), which makes distances far smaller.
        encode: Turns observations into vectors: ``flatten``, ``concatenate``, ``one_hot(n)``, any pure function.
        seed: Decides all draws at the NumPy edge; compiled loops pass a key instead.

    Raises:
        InputError: If a setting is outside its range.

    >>> import numpy as np
    >>> bonus, no = RE3(k=1), np.array([False])
    >>> here, far = (Transition(np.zeros((1, 3)), np.array([0]), np.full((1, 3), x), no, no, {}) for x in (0.0, 9.0))
    >>> bonus.update(here)
    >>> float(bonus.reward(here)[0]), bool(bonus.reward(far)[0] > 1)
    (0.0, True)

    """

    k: int = 3
    capacity: int = 1024
    hidden: tuple[int, ...] = (256,)
    features: int = 64
    init_scheme: Init = "orthogonal"
    encode: Encode = flatten

    kind: ClassVar[str] = "re3"
    stepwise: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ("next_obs",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", widths("RE3", self.hidden))
        network_sizes("RE3", self.features, None)
        neighbours("RE3", self.k, self.capacity)
        super().__post_init__()

    def init(self, key: Array, spec: Spec) -> RE3State:
        """Return a random encoder and an empty memory."""
        sizes = (width("RE3", self.encode, spec.example.next_obs), *self.hidden, self.features)
        return RE3State(mlp_init(key, sizes, self.init_scheme), empty(self.capacity, self.features))

    def reward_fn(self, state: RE3State, transition: Transition) -> Array:
        """Return the bonus of this step, (num_envs,); pure, for jit, scan and vmap."""
        squared = nearest(state.memory, mlp(state.encoder, self.encode(transition.next_obs)), self.k)
        farthest = jnp.max(jnp.where(squared == jnp.inf, 0.0, squared), axis=1)
        return jnp.log1p(jnp.sqrt(farthest))  # Eq. 4

    def update_fn(self, state: RE3State, transition: Transition) -> RE3State:
        """Return the state with these arrivals in the memory; pure, for jit, scan and vmap."""
        features = mlp(state.encoder, self.encode(transition.next_obs))
        return state._replace(memory=write_shared(state.memory, features, valid_rows(transition)))
