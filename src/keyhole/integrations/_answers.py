"""What the adapters share: a predictor made of their parameters, and rows of answers."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from keyhole.errors import FeedbackError
from keyhole.integrations._cells import is_missing
from keyhole.integrations._context import name_columns
from keyhole.learners import Learner
from keyhole.predictor.predictor import Predictor
from keyhole.scores import ScaledResiduals, Score


def check_pairs(shown: Iterable[Any], answers: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Return every prediction with its answer, or raise if there are not as many of each."""
    predictions = list(shown)
    given = answers.tolist() if isinstance(answers, np.ndarray) else list(answers)
    if len(predictions) != len(given):
        raise FeedbackError(
            f"{len(given)} answers came for {len(predictions)} predictions; give one for each, and "
            "None where there is none yet"
        )
    return list(zip(predictions, given, strict=True))


def default_residuals() -> ScaledResiduals:
    """Return the score of a real outcome whose unit nobody told: it is found from the first answers."""
    return ScaledResiduals()


def start_predictor(wrapper: Any, kind: Score[Any], *, seed: int | None) -> Predictor[Any]:
    """Return a predictor with a wrapper's parameters, which has seen nothing yet."""
    return Predictor(
        wrapper.learner,
        alpha=None if isinstance(wrapper.learner, Learner) else wrapper.alpha,
        score=kind,
        features=name_columns(wrapper.features),
        groups=name_columns(wrapper.groups),
        feedback=wrapper.feedback,
        seed=seed,
        history=wrapper.history,
    )


def learn_rows(predictor: Predictor[Any], shown: Iterable[Any], answers: Iterable[Any]) -> None:
    """Answer the rounds that have an answer, all or none of them."""
    known = [pair for pair in check_pairs(shown, answers) if not is_missing(pair[1])]
    predictor.learn_batch([one for one, _ in known], [answer for _, answer in known])
