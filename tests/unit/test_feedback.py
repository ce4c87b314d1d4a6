import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyhole import HIT, MISS, Needs, Regime, Revealed
from keyhole.errors import FeedbackError, ScoreError
from keyhole.feedback import UNSEEN, checked_regime, is_enough, outcomes, usable
from keyhole.grid import uniform

GRID = uniform(5)
unit = st.floats(0.0, 1.0)


def test_hit_with_label_tells_of_every_threshold() -> None:
    told = outcomes(Revealed(0.5), threshold=0.25, thresholds=GRID)
    assert told.tolist() == [0, 0, 0, 1, 1]


def test_miss_tells_of_the_thresholds_at_or_above() -> None:
    assert outcomes(MISS, threshold=0.5, thresholds=GRID).tolist() == [-1, -1, 1, 1, 1]
    assert outcomes(MISS, threshold=0.6, thresholds=GRID).tolist() == [-1, -1, -1, 1, 1]


def test_bare_hit_tells_of_the_thresholds_at_or_below() -> None:
    assert outcomes(HIT, threshold=0.5, thresholds=GRID).tolist() == [0, 0, 0, -1, -1]


@given(unit, unit, st.integers(2, 40))
def test_nothing_told_is_ever_wrong(score: float, threshold: float, arms: int) -> None:
    grid = uniform(arms)
    truth = (score < grid).astype(int)
    missed = score < threshold
    for answer in (Revealed(score), MISS if missed else HIT):
        told = outcomes(answer, threshold=threshold, thresholds=grid)
        seen = told != UNSEEN
        assert (told[seen] == truth[seen]).all()
    assert (outcomes(Revealed(score), threshold=threshold, thresholds=grid) == truth).all()


@given(unit, unit)
def test_bare_answer_tells_all_that_monotonicity_allows(score: float, threshold: float) -> None:
    answer = MISS if score < threshold else HIT
    seen = outcomes(answer, threshold=threshold, thresholds=GRID) != UNSEEN
    allowed = threshold <= GRID if score < threshold else threshold >= GRID
    assert (seen == allowed).all()


def test_regimes_tell_ever_more() -> None:
    assert [regime.tells for regime in Regime] == list(Needs)
    assert [is_enough(Needs.LABEL_IF_HIT, regime) for regime in Regime] == [False, True, True]


def test_learner_gets_no_more_than_it_needs() -> None:
    assert np.isnan(usable("x", Needs.HIT_OR_MISS, missed=False, score=0.7))
    assert usable("x", Needs.LABEL_IF_HIT, missed=False, score=0.7) == 0.7
    assert np.isnan(usable("x", Needs.LABEL_IF_HIT, missed=True, score=0.3))
    assert usable("x", Needs.LABEL_ALWAYS, missed=True, score=0.3) == 0.3


@pytest.mark.parametrize("missed", [False, True])
def test_less_than_needed_is_refused(*, missed: bool) -> None:
    with pytest.raises(FeedbackError, match="without the true label"):
        usable("dtaci", Needs.LABEL_ALWAYS, missed=missed, score=None)


def test_revealed_score_must_be_in_the_unit_interval() -> None:
    with pytest.raises(ScoreError, match=r"score 1.5"):
        Revealed(1.5)


def test_unknown_regime_is_named() -> None:
    with pytest.raises(FeedbackError, match="no regime 'some'"):
        checked_regime("some")
