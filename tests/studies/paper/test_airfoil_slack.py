"""A small check against the paper's Table 6; the whole of it is in ``keyhole paper``."""

import numpy as np
import pytest

from keyhole import make, simulate
from keyhole.learners import bounds
from keyhole.scenarios.airfoil import airfoil
from keyhole.simulation import metrics

PUBLISHED = {0.1: 0.002, 0.2: 0.099, 0.3: 0.248, 0.4: 0.438}
RUNS = 6
ROUNDS = 50_000


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    return np.array([airfoil(ROUNDS, seed=run).scores for run in range(RUNS)])


@pytest.mark.parametrize("alpha", PUBLISHED)
def test_slack_on_airfoil_is_that_of_the_paper(alpha: float, scores: np.ndarray) -> None:
    learner = make("ocp-unlock+", alpha=alpha, horizon=ROUNDS, arms=20)
    run = simulate(learner, scores, seed=100)
    slack = metrics.coverage_slack(run.thresholds, run.misses, loss=bounds.loss_of(learner))
    assert slack.std(ddof=1) / np.sqrt(RUNS) < 0.002
    assert slack.mean() == pytest.approx(PUBLISHED[alpha], abs=0.008)
