"""One run of one setting: all that its numbers depend on is imported here, and is the cache's key."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.simulation.metrics import coverage_slack, running_mean
from keyhole.simulation.simulate import play_clear
from keyhole.studies.paper.settings import learner_of
from keyhole.studies.paper.sources import Pair

POINTS = 500


class Unit(NamedTuple):
    """One run of one setting: the least that an engine is given."""

    pair: Pair
    seed: int


class RunOutcome(NamedTuple):
    """What is kept of one run; the curves hold the means up to evenly spaced rounds."""

    miss_rate: float
    mean_size: float
    slack: float
    miss_rates: NDArray[np.float32]
    mean_sizes: NDArray[np.float32]


def play_run(unit: Unit) -> RunOutcome:
    """Play one run and keep of it the metrics and thinned curves alone."""
    setting = unit.pair.setting
    scenario = unit.pair.source.scenario(setting, seed=unit.seed)
    thresholds = np.empty(setting.horizon)
    misses = np.empty(setting.horizon, dtype=np.bool_)
    play_clear(learner_of(setting), scenario.scores, unit.seed, thresholds, misses)
    sizes = scenario.sizes(thresholds)
    kept = rounds_kept(setting.horizon) - 1
    return RunOutcome(
        miss_rate=float(misses.mean()),
        mean_size=float(sizes.mean()),
        slack=float(coverage_slack(thresholds, misses, loss=setting.loss)),
        miss_rates=running_mean(misses.astype(np.float64))[kept].astype(np.float32),
        mean_sizes=running_mean(sizes)[kept].astype(np.float32),
    )


def rounds_kept(horizon: int) -> NDArray[np.int64]:
    """Return the rounds at which the curves are kept, evenly spaced, the last one included."""
    points = min(POINTS, horizon)
    return np.arange(1, points + 1) * horizon // points
