"""Advantages against numbers computed by hand."""

import jax.numpy as jnp
import numpy as np

from pbim.agents._gae import gae, next_values
from pbim.truncation import ends


def column(*numbers):
    return jnp.asarray(numbers, jnp.float32)[:, None]


def after(value, last, ended, truncation, final=None):
    """The values after each step of one critic, where every end is a truncation."""
    end = ends(truncation, jnp.zeros_like(ended), ended)
    return next_values(value[None], jnp.asarray([last]), end, None if final is None else final[None])[0]


def test_by_hand():
    """gamma = 0.5, lambda = 0.5; the second step ends an episode without bootstrap, the third runs on to 8.

    delta = 1 + 0.5 * 4 - 2, 3 + 0 - 4, 5 + 0.5 * 8 - 6 = 1, -1, 3; advantages 1 + 0.25 * -1, -1, 3.
    """
    value, ended = column(2, 4, 6), column(0, 1, 0) > 0
    following = after(value, [8.0], ended, "settle")
    np.testing.assert_allclose(following[:, 0], [4, 0, 8])
    got = gae(column(1, 3, 5), value, following, ended, gamma=0.5, lam=0.5)
    np.testing.assert_allclose(got[:, 0], [0.75, -1.0, 3.0])


def test_a_bootstrapped_end_adds_the_final_value_and_still_cuts_the_sum():
    """As above, with 10 expected after the cut: delta_1 = 3 + 0.5 * 10 - 4 = 4."""
    value, ended = column(2, 4, 6), column(0, 1, 0) > 0
    following = after(value, [8.0], ended, "bootstrap", column(0, 10, 0))
    got = gae(column(1, 3, 5), value, following, ended, gamma=0.5, lam=0.5)
    np.testing.assert_allclose(got[:, 0], [1 + 0.25 * 4, 4.0, 3.0])


def test_lambda_one_gives_the_return_minus_the_value():
    reward, value = column(1, 2, 3), column(7, 8, 9)
    ended = column(0, 0, 1) > 0
    got = gae(reward, value, after(value, [0.0], ended, "settle"), ended, gamma=0.9, lam=1.0)
    returns = np.array([1 + 0.9 * (2 + 0.9 * 3), 2 + 0.9 * 3, 3])
    np.testing.assert_allclose(got[:, 0], returns - [7, 8, 9], rtol=1e-5)


def test_an_end_that_is_not_one_is_stepped_over():
    value, ended = column(2, 4, 6), column(0, 1, 0) > 0
    np.testing.assert_allclose(after(value, [8.0], ended, "continue")[:, 0], [4, 6, 8])
