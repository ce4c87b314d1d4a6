import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from keyhole.feedback import Answer, Needs
from keyhole.learners import Learner


def _lived(learner: Learner, scores: Iterable[float]) -> tuple[list[float], Any]:
    state, played = learner.start(), []
    for score in scores:
        threshold, memo = learner.choose(state, 0.5)
        missed = score < threshold
        shown = learner.needs == Needs.LABEL_ALWAYS or (
            learner.needs == Needs.LABEL_IF_HIT and not missed
        )
        learner.observe(state, memo, Answer(float(missed), score if shown else math.nan))
        played.append(float(threshold))
    return played, state


@pytest.fixture
def lived() -> Callable[..., tuple[list[float], Any]]:
    """Returns the thresholds that a learner played against scores, and its state at the end."""
    return _lived
