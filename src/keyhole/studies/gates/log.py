"""A log of scores and outcomes, and what thresholds and a gate would have made of it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keyhole.errors import InvalidError
from keyhole.learners import make
from keyhole.scenarios.tables import open_table
from keyhole.simulation.gates import GateRun, best_fixed, check_cases, simulate_gate
from keyhole.studies.gates.scenarios import GateCases

_SCORE = ("score", "confidence", "probability")
# A column, and what a 1 in it means; the last is what a service writes of its gates.
_OUTCOMES = {"right": 0.0, "correct": 0.0, "wrong": 1.0, "missed": 1.0}


@dataclass(frozen=True)
class LogReplay:
    """What a log shows: the threshold one would have needed, and the gate's run."""

    cases: GateCases
    threshold: float
    best: float
    run: GateRun


def replay_log(cases: GateCases, *, alpha: float) -> LogReplay:
    """Return the best fixed threshold of a log in hindsight, and what the gate would have done."""
    threshold, best = best_fixed(*cases, alpha=alpha)
    return LogReplay(cases, threshold, best, simulate_gate(make("gate-tracker", alpha=alpha), *cases))


def read_log(path: Path) -> GateCases:
    """Return the cases in a .csv or .parquet file, in their order.

    It has a column ``score`` (or ``confidence``, ``probability``), and a column ``right`` (or
    ``correct``) or ``wrong``, which says so by 1 or 0, true or false, yes or no; their names in any
    case. Other columns are left alone, and so are rows without an outcome. What ``keyhole export``
    writes of a gate is such a file.
    """
    with open_table(path, known=(*_SCORE, *_OUTCOMES)) as table:
        score, outcome = table.find(_SCORE), table.find(_OUTCOMES)
        if score is None or outcome is None:
            there = f"the columns {', '.join(table.columns)}" if table.columns else "no columns"
            raise InvalidError(f"{path} has {there}; it needs score, and right or wrong")
        at, said = table.columns.index(score), table.columns.index(outcome)
        read = [
            (
                table.score(line, score, "" if row[at] is None else row[at]),
                table.truth(line, outcome, row[said]),
            )
            for line, row in table.rows
            if row[said] is not None
        ]
    if not read:
        raise InvalidError(f"{path} has no row with an outcome")
    scores, outcomes = np.array(read).T
    wrong = outcomes if _OUTCOMES[outcome] == 1.0 else 1.0 - outcomes
    return GateCases(*check_cases(scores, wrong))
