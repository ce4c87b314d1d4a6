"""All runs of all settings: what is there already is read, what is missing is played and kept."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from keyhole.studies.engine import Engine
from keyhole.studies.live_line import LiveLine
from keyhole.studies.paper.finished import FinishedRuns
from keyhole.studies.paper.play import RunOutcome, Unit, play_run
from keyhole.studies.paper.sources import Pair

_SECONDS_BETWEEN_SAVES = 5.0

Outcomes = dict[int, RunOutcome]


def run(
    pairs: Iterable[Pair], folder: Path, *, runs: int, seed: int, engine: Engine
) -> Mapping[Pair, Outcomes]:
    """Return the outcomes of every pair; what the folder holds already is not run again.

    Finished runs are saved every few seconds and when the work is interrupted.
    """
    kept = FinishedRuns(folder, seed)
    finished = {pair: kept.load(pair) for pair in pairs}
    missing = [
        (pair, number) for pair in finished for number in range(runs) if number not in finished[pair]
    ]
    changed: set[Pair] = set()
    saved_at = time.monotonic()
    units = [Unit(pair, seed + number) for pair, number in missing]
    cost = sum(pair.setting.cost for pair, _ in missing)
    try:
        with LiveLine("paper", cost) as line:
            for place, outcome in engine.map(play_run, units):
                pair, number = missing[place]
                finished[pair][number] = outcome
                changed.add(pair)
                line.advance(pair.setting.cost, title=_title(pair))
                if time.monotonic() - saved_at > _SECONDS_BETWEEN_SAVES:
                    _save(kept, finished, changed)
                    saved_at = time.monotonic()
    finally:
        _save(kept, finished, changed)
    return {pair: {n: outcomes[n] for n in range(runs)} for pair, outcomes in finished.items()}


def _title(pair: Pair) -> str:
    return f"{pair.setting.data} {pair.setting.scenario} {pair.setting.learner}"


def _save(kept: FinishedRuns, finished: Mapping[Pair, Outcomes], changed: set[Pair]) -> None:
    while changed:
        pair = changed.pop()
        kept.save(pair, finished[pair])
