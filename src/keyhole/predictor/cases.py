"""A case as bytes: the scores or the centre, and its labels where the score kind does not fix them."""

import json
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from keyhole.errors import ScoreError
from keyhole.predictor.rounds import Recalled, Round
from keyhole.scores import BestScore, Case, CustomScores, Probabilities, Region, Score
from keyhole.scores.best import BestCase
from keyhole.scores.checks import FEW
from keyhole.scores.intervals import Band
from keyhole.scores.labels import Candidates, pack_label, unpack_label
from keyhole.scores.residuals import Centred

_LABELLED = (Probabilities, CustomScores)
_new: Any = tuple.__new__  # makes a named tuple in half the time that its class takes


def fixed_labels(score: Score[Region]) -> Sequence[Any] | None:
    """Return the names of the places of an array of scores, if they are fixed."""
    return score.labels if isinstance(score, _LABELLED) else None


def pack_case(score: Score[Region], case: Case[Region]) -> tuple[bytes, str | None]:
    """Return a case as bytes, and its labels as JSON if the score kind does not fix them."""
    if isinstance(case, Centred | Band):
        return array("d", case.numbers).tobytes(), None
    if isinstance(case, BestCase):
        named = None if case.candidate is None else json.dumps([pack_label(case.candidate)])
        return array("d", [case.best]).tobytes(), named
    if not isinstance(case, Candidates):
        raise ScoreError(
            "only label scores, centres and bands can be kept; give the score kind as one of them"
        )
    scores, labels = case.scores, case.labels
    content = array("d", scores).tobytes() if isinstance(scores, list) else scores.tobytes()
    if isinstance(labels, range) or tuple(labels) == fixed_labels(score):
        return content, None
    return content, json.dumps([k if type(k) is str else pack_label(k) for k in labels])


def unpack_case(score: Score[Region], output: bytes, labels: str | None) -> Case[Region]:
    """Return the case that ``pack_case`` wrote."""
    numbers = array("d")
    numbers.frombytes(output)
    kind: Any = score
    if isinstance(score, BestScore):
        (name,) = [None] if labels is None else json.loads(labels)
        return kind.restore({"best": numbers[0], "candidate": name})
    if not isinstance(score, _LABELLED):
        return kind.read_numbers(numbers.tolist())
    scores = numbers.tolist() if len(numbers) <= FEW else np.array(numbers)
    # Labels may have been added since, behind those that there were.
    names = (fixed_labels(score) or range(len(numbers)))[: len(numbers)]
    if labels is not None:
        names = [unpack_label(k) for k in json.loads(labels)]
    return (
        Candidates(names, scores) if isinstance(score, CustomScores) else score.make_case(names, scores)
    )


def recall_round(score: Score[Region], kept: Any, *, memo: Any) -> Round[Any]:
    """Return an open round again, to be answered, from what is kept of it: a row, or the like."""
    case = unpack_case(score, kept.output, kept.labels)
    # Without limits on its size, the set holds just the labels whose score reaches the threshold.
    if isinstance(case, Candidates) and case.at_most is None and not case.at_least:
        shown = _new(Recalled, (kept.number, kept.threshold, kept.size, case))
    else:
        shown = case.region(kept.number, kept.threshold)
    return _new(Round, (shown, case, memo, kept.then, ()))
