import numpy as np
import pytest

from keyhole.learners.loss import Loss
from keyhole.simulation import metrics

LOSS = Loss(alpha=0.2, horizon=10_000, cost=40.0)  # v = 0.8


def test_miss_rates_over_time_by_hand() -> None:
    misses = np.array([[True, False, False, True]])
    assert metrics.miss_rate(misses).tolist() == [0.5]
    assert metrics.miss_rate_so_far(misses)[0] == pytest.approx([1.0, 1 / 2, 1 / 3, 1 / 2])


def test_coverage_slack_by_hand() -> None:
    """a is -.8 (1 + .25/.8) = -1.05 on the hit and -.8/1.06 = -.7547170 on the miss."""
    slack = metrics.coverage_slack(np.array([0.5, 0.5]), np.array([False, True]), loss=LOSS)
    assert slack == pytest.approx(-0.8 + (1.05 + 0.7547170) / 2 + 0.5 - 0.2, abs=1e-6)


def test_regret_by_hand() -> None:
    """Scores .7 and .3; played 1/2 twice: a hit (-.69) and a miss (.0852830).

    Always 0 costs -.44 twice; always 1/2 the same as played; always 1 two misses (.1257143).
    """
    regret = metrics.regret(
        np.array([0.5, 0.5]), np.array([0.7, 0.3]), loss=LOSS, grid=np.array([0.0, 0.5, 1.0])
    )
    assert regret == pytest.approx(-0.69 + 0.0852830 + 0.88, abs=1e-6)
