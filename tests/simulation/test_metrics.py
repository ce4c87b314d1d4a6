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


def test_coverage_gap_is_what_the_hits_per_miss_lack() -> None:
    """20 misses in 50 rounds: (4 - 30/20) / (1/10) = 25."""
    assert metrics.coverage_gap(np.array([0.4]), loss=LOSS) == pytest.approx(25.0)


def test_slack_is_as_the_paper_defines_it_by_the_gap() -> None:
    """C_mc = a(0) - mean a_t + alpha MC C_gap o(T)^-1, whose last term comes to MC - alpha."""
    rng = np.random.default_rng(1)
    thresholds, misses = rng.random(50), np.arange(50) < 20
    gap = metrics.coverage_gap(metrics.miss_rate(misses), loss=LOSS)
    sizes = -0.8 - LOSS.size_cost(thresholds, missed=misses).mean()
    slack = metrics.coverage_slack(thresholds, misses, loss=LOSS)
    assert slack == pytest.approx(sizes + 0.2 * 0.4 * gap * 0.1)
    assert slack == pytest.approx(sizes + 0.4 - 0.2)


def test_regret_by_hand() -> None:
    """Scores .7 and .3; played 1/2 twice: a hit (-.69) and a miss (.0852830).

    Always 0 costs -.44 twice; always 1/2 the same as played; always 1 two misses (.1257143).
    """
    regret = metrics.regret(
        np.array([0.5, 0.5]), np.array([0.7, 0.3]), loss=LOSS, grid=np.array([0.0, 0.5, 1.0])
    )
    assert regret == pytest.approx(-0.69 + 0.0852830 + 0.88, abs=1e-6)
