"""A learner by name, with as much of a horizon and a grid as its rule has a use for."""

from typing import Any

from keyhole import make
from keyhole.learners import Learner, find, takes


def make_fitting(
    name: str, *, alpha: float = 0.1, horizon: int | None = None, arms: int | None = None
) -> Learner:
    """Return the learner; ``make`` would refuse what its rule does not take."""
    known = takes(find(name))
    given: dict[str, Any] = {"horizon": horizon, "arms": arms}
    return make(name, alpha=alpha, **{key: value for key, value in given.items() if key in known})
