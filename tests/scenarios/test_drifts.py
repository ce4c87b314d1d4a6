import numpy as np
import pytest

from keyhole.errors import InvalidError
from keyhole.scenarios.drifts import DRIFTS

EASY_MEAN, HARD_MEAN = 0.8, 0.5


@pytest.mark.parametrize("name", sorted(DRIFTS))
def test_scenarios_are_seeded_scores_with_changes_in_order(name: str) -> None:
    scenario = DRIFTS[name](2_000, seed=4)
    assert (scenario.scores == DRIFTS[name](2_000, seed=4).scores).all()
    assert not (scenario.scores == DRIFTS[name](2_000, seed=5).scores).all()
    assert ((scenario.scores >= 0.0) & (scenario.scores <= 1.0)).all()
    assert scenario.changes[0] == 0
    assert (np.diff((*scenario.changes, 2_000)) > 0).all()


def means(name: str, pieces: int) -> list[float]:
    scores = DRIFTS[name](20_000, seed=1).scores
    return [float(part.mean()) for part in np.array_split(scores, pieces)]


def test_abrupt_drifts_change_halfway() -> None:
    error = 4 * 0.2 / np.sqrt(10_000)
    assert means("fall", 2) == pytest.approx([EASY_MEAN, HARD_MEAN], abs=error)
    assert means("rise", 2) == pytest.approx([HARD_MEAN, EASY_MEAN], abs=error)


def test_slope_falls_all_the_time() -> None:
    assert (np.diff(means("slope", 5)) < 0.0).all()


def test_seasons_take_turns_and_waves_come_back() -> None:
    error = 4 * 0.2 / np.sqrt(2_000)
    assert means("seasons", 10) == pytest.approx([EASY_MEAN, HARD_MEAN] * 5, abs=error)
    crests = means("waves", 20)[::4]
    assert crests == pytest.approx([np.mean(crests)] * 5, abs=2 * error)


def test_lumps_hold_a_third_of_ties() -> None:
    scores = DRIFTS["lumps"](20_000, seed=1).scores
    assert (scores == 0.5).mean() == pytest.approx(0.3, abs=0.02)
    assert np.unique(scores).size <= 21


def test_sizes_are_what_is_left_above_the_threshold() -> None:
    scenario = DRIFTS["steady"](4, seed=1)
    assert scenario.sizes(np.array([-1.0, 0.25, 1.0, 2.0])).tolist() == [1.0, 0.75, 0.0, 0.0]


def test_too_few_rounds_are_refused() -> None:
    with pytest.raises(InvalidError, match="5 rounds are too few"):
        DRIFTS["seasons"](5, seed=1)
