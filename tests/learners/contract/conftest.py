from collections.abc import Callable

import numpy as np
import pytest

from keyhole import LEARNERS
from keyhole.feedback import Feedback, is_enough
from keyhole.learners import Learner, make_suited
from keyhole.numeric import Array


def feedback_of(learner: Learner) -> Feedback:
    """The weakest feedback that the learner works in."""
    return next(feedback for feedback in Feedback if is_enough(learner.needs, feedback))


@pytest.fixture(params=sorted(LEARNERS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def learner(name: str) -> Learner:
    return make_suited(name, alpha=0.1, horizon=20_000, arms=20)


@pytest.fixture
def feedback(learner: Learner) -> Feedback:
    return feedback_of(learner)


@pytest.fixture
def drifting() -> Callable[[int], Array]:
    """Scores whose distribution moves down halfway."""

    def scores(rounds: int) -> Array:
        rng = np.random.default_rng(11)
        half = rounds // 2
        return np.concatenate((rng.beta(6, 2, half), rng.beta(3, 3, rounds - half)))

    return scores
