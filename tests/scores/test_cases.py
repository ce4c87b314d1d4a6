"""A case as bytes, and a round that is read again from them."""

from types import SimpleNamespace
from typing import Any

import pytest

from keyhole import Probabilities, QuantileBands, ScaledResiduals
from keyhole.predictor.kinds import recall_shown
from keyhole.scores import BestScore, BoundedResiduals, CustomScores

NAMED = ["ant", "bee", "cat"]
SCORES = [0.2, 0.7, 0.1]
MANY = [k / 100 for k in range(100)]

CASES: list[tuple[Any, Any]] = [
    (Probabilities(), SCORES),
    (Probabilities(power=1 / 3), SCORES),
    (Probabilities(), MANY),
    (Probabilities(), dict(zip(NAMED, SCORES, strict=True))),
    (Probabilities(), {("a", 1): 0.5, 7: 0.25, None: 0.125}),
    (Probabilities(labels=NAMED), SCORES),
    (Probabilities(labels=NAMED), {"dog": 0.5}),
    (Probabilities(at_least=1, at_most=2), SCORES),
    (CustomScores(lambda output, label: output / len(label), ["a", "ab"]), 0.5),
    (BoundedResiduals(bound=10.0), 3.0),
    (ScaledResiduals(scale=2.0), 3.0),
    (QuantileBands(), (1.0, 4.0)),
    (BestScore(), 0.75),
    (BestScore(), {"invoice": 0.75, "letter": 0.25}),
    (BestScore(), {("a", 1): 0.75}),
]


@pytest.mark.parametrize("place", range(len(CASES)))
def test_a_case_shows_from_its_bytes_what_it_showed(place: int) -> None:
    score, output = CASES[place]
    case = score.read(output)
    again: Any = score.unpack(*case.pack())
    assert again.output == case.output
    for threshold in (0.0, 0.15, 0.5, 0.9, 1.5):
        assert again.region(4, threshold) == case.region(4, threshold)


@pytest.mark.parametrize(
    ("score", "output", "labels"),
    [
        (Probabilities(), SCORES, None),
        (Probabilities(labels=NAMED), SCORES, None),
        (Probabilities(), {"dog": 0.5, ("a", 1): 0.25}, '["dog", {"tuple": ["a", 1]}]'),
        (Probabilities(labels=NAMED), {"dog": 0.5}, '["dog"]'),
        (BestScore(), 0.5, None),
        (BestScore(), {"dog": 0.5}, '["dog"]'),
    ],
)
def test_labels_are_written_only_where_the_score_kind_does_not_fix_them(
    score: Any, output: Any, labels: str | None
) -> None:
    assert score.read(output).pack()[1] == labels


def test_labels_that_were_added_since_do_not_belong_to_an_older_round() -> None:
    content, labels = Probabilities(labels=NAMED).read(SCORES).pack()
    longer = Probabilities(labels=[*NAMED, "dog"])
    shown: Any = longer.unpack(content, labels).region(0, 0.0)
    assert shown.labels == ("bee", "ant", "cat")


@pytest.mark.parametrize(
    "score", [Probabilities(), Probabilities(at_least=1), Probabilities(at_most=1)], ids=repr
)
@pytest.mark.parametrize("threshold", [0.15, 0.2, 0.9])
def test_a_round_is_judged_from_memory_as_it_was_shown(score: Probabilities, threshold: float) -> None:
    case = score.read(dict(zip(NAMED, SCORES, strict=True)))
    shown = case.region(3, threshold)
    output, labels = case.pack()
    row = SimpleNamespace(number=3, threshold=threshold, size=shown.size, output=output, labels=labels)
    again, kept = recall_shown(score, row)
    assert (again.id, again.size) == (3, shown.size)
    for label in (*NAMED, "dog"):
        assert kept.score(label) == case.score(label)
        assert (label in again) == (label in shown)
    assert kept.region(5, 0.0) == case.region(5, 0.0)
