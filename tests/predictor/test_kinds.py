"""The kinds of prediction: what is read of an output, of what is known of a case, and of an answer."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from keyhole import Predictor
from keyhole.errors import FeedbackError, InvalidError, LabelError, ScoreError
from keyhole.predictor.context import Known, read_context, show_context, unpack_context
from keyhole.predictor.setup import make_setup
from keyhole.scores import (
    BestScore,
    BoundedResiduals,
    Interval,
    Probabilities,
    QuantileBands,
    ScaledResiduals,
)

GROUPS = ("new", "old", "rare")
CASES = [(), ("new",), ("old",), ("rare",), ("new", "rare"), ("old", "rare"), GROUPS]


@pytest.mark.parametrize(
    ("score", "output", "fault"),
    [
        (Probabilities(), 3.0, "takes scores, not a centre"),
        (Probabilities(), (1.0, 2.0), "takes scores, not lower and upper"),
        (ScaledResiduals(), [0.5], "takes a centre, not scores"),
        (BoundedResiduals(bound=1.0), [0.5], "takes a centre, not scores"),
        (QuantileBands(), 3.0, "takes lower and upper, not a centre"),
    ],
)
def test_an_output_of_another_kind_is_named(score: Any, output: Any, fault: str) -> None:
    setup = make_setup(alpha=0.1, score=score)
    with pytest.raises(ScoreError, match=fault):
        setup.kind.read(setup, setup.kind.start(setup), output)


def test_a_label_that_the_stream_does_not_have_is_named() -> None:
    setup = make_setup(alpha=0.1, score=Probabilities(labels=["a", "b"]))
    progress = setup.kind.start(setup)
    with pytest.raises(LabelError, match="label 'c' is not one of the stream's 2 labels"):
        setup.kind.read(setup, progress, {"a": 0.5, "c": 0.5})
    assert setup.kind.read(setup, progress, {"b": 0.5}).score("b") == 0.5


def test_groups_of_a_gate_go_through_bytes_and_others_are_refused() -> None:
    best: Any = BestScore()
    setup = make_setup(alpha=0.1, score=best, groups=GROUPS, seed=7)
    for groups in CASES:
        context = unpack_context(setup, read_context(setup, None, groups).tobytes())
        assert show_context(setup, context) == Known(None, groups)
    assert show_context(setup, unpack_context(setup, None)) == Known(None, ())
    assert unpack_context(setup, None).tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(InvalidError, match="no group 'young'"):
        read_context(setup, None, ["young"])
    with pytest.raises(InvalidError, match=r"16 bytes are not .* the stream takes 24"):
        unpack_context(setup, bytes(16))


def test_a_round_is_recalled_as_the_kind_of_set_it_was_and_with_its_memo() -> None:
    setup = make_setup(alpha=0.1, score=BoundedResiduals(bound=1.0))
    output, labels = setup.kind.read(setup, setup.kind.start(setup), 3.0).pack()
    row = SimpleNamespace(number=4, threshold=0.5, size=1.0, output=output, labels=labels, context=b"")
    memo = setup.learner.pack_memo(np.array([0.25]))
    waiting = setup.kind.recall(setup, row, then=2, memo=memo)
    assert isinstance(waiting.prediction, Interval)
    assert (waiting.prediction.id, waiting.then, list(waiting.memo)) == (4, 2, [0.25])
    assert list(setup.kind.recall(setup, row).memo) == []


def test_bandit_feedback_needs_a_scale_that_is_given() -> None:
    with pytest.raises(FeedbackError, match=r"bandit feedback never tells; .*ScaledResiduals\(scale="):
        Predictor(alpha=0.1, score=ScaledResiduals(), feedback="bandit")
    Predictor(alpha=0.1, score=ScaledResiduals(scale=5.0), feedback="bandit")
    Predictor(alpha=0.1, score=ScaledResiduals(), feedback="semi-bandit")
    Predictor(alpha=0.1, feedback="bandit")


def test_a_bare_hit_tells_of_another_set_of_the_case_if_both_are_alike_or_it_is_the_larger() -> None:
    """Of equally large sets of a case, or of one threshold, what is said of one holds of both."""
    setup = make_setup("logit-tracker", alpha=0.1)
    shown = SimpleNamespace(threshold=0.5, size=2)
    told = {
        (threshold, size): setup.kind.translate(
            setup, SimpleNamespace(threshold=threshold, size=size), shown, {"hit": True}
        )
        for threshold, size in [(0.6, 2), (0.4, 2), (0.5, 2), (0.4, 3), (0.6, 1)]
    }
    kept = [own for own, answer in told.items() if answer == {"hit": True}]
    assert kept == [(0.6, 2), (0.4, 2), (0.5, 2), (0.4, 3)]
    assert told[0.6, 1] is None


def test_ten_thousand_rounds_may_be_open_unless_another_number_is_given() -> None:
    assert make_setup("logit-tracker", alpha=0.1).open_limit == 10_000
