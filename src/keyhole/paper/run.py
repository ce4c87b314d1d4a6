"""Runs of the experiments, spread over an engine and kept as they are finished."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keyhole.engine import Engine
from keyhole.metrics import coverage_slack, running_mean
from keyhole.paper.plan import Pair
from keyhole.paper.settings import learner_of
from keyhole.paper.shelf import Outcome, Shelf
from keyhole.progress import Bar
from keyhole.simulate import play

POINTS = 500
_SECONDS_BETWEEN_SAVES = 5.0

Outcomes = dict[int, Outcome]


class Unit(NamedTuple):
    """One run of one setting: the least that an engine is given."""

    pair: Pair
    seed: int


def played(unit: Unit) -> Outcome:
    """Play one run and keep of it the metrics and thinned curves alone."""
    setting = unit.pair.setting
    stream = unit.pair.source.stream(setting.horizon, seed=unit.seed, shift=setting.shift)
    thresholds = np.empty(setting.horizon)
    misses = np.empty(setting.horizon, dtype=np.bool_)
    play(learner_of(setting), stream.scores, unit.seed, thresholds, misses)
    sizes = stream.sizes(thresholds)
    kept = rounds_kept(setting.horizon) - 1
    return Outcome(
        miss_rate=float(misses.mean()),
        mean_size=float(sizes.mean()),
        slack=float(coverage_slack(thresholds, misses, loss=setting.loss)),
        miss_rates=running_mean(misses.astype(np.float64))[kept].astype(np.float32),
        mean_sizes=running_mean(sizes)[kept].astype(np.float32),
    )


def rounds_kept(horizon: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the rounds at which the curves are kept, evenly spaced, the last one included."""
    points = min(POINTS, horizon)
    return np.arange(1, points + 1) * horizon // points


def run(
    pairs: Iterable[Pair], folder: Path, *, runs: int, seed: int, engine: Engine
) -> Mapping[Pair, Outcomes]:
    """Return the outcomes of every pair; what the folder holds already is not run again.

    Finished runs are saved every few seconds and when the work is interrupted.
    """
    shelf = Shelf(folder, seed)
    finished = {pair: shelf.load(pair) for pair in pairs}
    missing = [
        (pair, number) for pair in finished for number in range(runs) if number not in finished[pair]
    ]
    bar = Bar("paper", sum(pair.setting.cost for pair, _ in missing))
    changed: set[Pair] = set()
    saved_at = time.monotonic()
    try:
        units = [Unit(pair, seed + number) for pair, number in missing]
        for place, outcome in engine.map(played, units):
            pair, number = missing[place]
            finished[pair][number] = outcome
            changed.add(pair)
            bar.advance(pair.setting.cost, title=_title(pair))
            if time.monotonic() - saved_at > _SECONDS_BETWEEN_SAVES:
                _save(shelf, finished, changed)
                saved_at = time.monotonic()
    finally:
        _save(shelf, finished, changed)
    return {pair: {n: outcomes[n] for n in range(runs)} for pair, outcomes in finished.items()}


def _title(pair: Pair) -> str:
    return f"{pair.setting.data} {pair.setting.scenario} {pair.setting.learner}"


def _save(shelf: Shelf, finished: Mapping[Pair, Outcomes], changed: set[Pair]) -> None:
    while changed:
        pair = changed.pop()
        shelf.save(pair, finished[pair])
