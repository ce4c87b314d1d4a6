"""A log of scores and outcomes, and what thresholds and a gate would have made of it."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keyhole.errors import InvalidError
from keyhole.learners import make
from keyhole.scenarios.log import fold_name
from keyhole.simulation.gates import GateRun, best_fixed, check_cases, simulate_gate
from keyhole.studies.gates.scenarios import GateCases

_SCORE = ("score", "confidence", "probability")
# A column, and what a 1 in it means; the last is what a service writes of its gates.
_OUTCOMES = {"right": 0.0, "correct": 0.0, "wrong": 1.0, "missed": 1.0}
_YES, _NO = {"1", "1.0", "true", "yes", "y"}, {"0", "0.0", "false", "no", "n"}


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
    """Return the cases in a CSV file, in their order.

    It has a column ``score`` (or ``confidence``, ``probability``), and a column ``right`` (or
    ``correct``) or ``wrong``, which says so by 1 or 0, true or false, yes or no; their names in any
    case. Other columns are left alone, and so are rows without an outcome. What ``keyhole export``
    writes of a gate is such a file.
    """
    if not path.is_file():
        raise InvalidError(f"there is no file {path}")
    try:
        read, outcome = _read_rows(path)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidError(f"{path} is not a CSV file in UTF-8 ({error}); write it so") from None
    if not read:
        raise InvalidError(f"{path} has no row with an outcome")
    scores, told = np.array(read).T
    wrong = told if _OUTCOMES[outcome] == 1.0 else 1.0 - told
    return GateCases(*check_cases(scores, wrong))


def _read_rows(path: Path) -> tuple[list[tuple[float, float]], str]:
    """Return score and outcome of every row that has one, and the outcome's column."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        names = {fold_name(name): name for name in rows.fieldnames or ()}
        score = next((names[name] for name in _SCORE if name in names), None)
        outcome = next((name for name in _OUTCOMES if name in names), None)
        if score is None or outcome is None:
            there = f"the columns {', '.join(names)}" if names else "no columns"
            raise InvalidError(f"{path} has {there}; it needs score, and right or wrong")
        read = [
            (_read_score(row[score], number, path), _read_outcome(row[names[outcome]], number, path))
            for number, row in enumerate(rows, start=2)
            if (row[names[outcome]] or "").strip()
        ]
    return read, outcome


def _read_score(text: str | None, line: int, path: Path) -> float:
    try:
        score = float(text or "")
    except ValueError:
        score = float("nan")
    if not 0.0 <= score <= 1.0:
        raise InvalidError(f"{path}, line {line}: score {text!r} is not a number in [0, 1]")
    return score


def _read_outcome(text: str, line: int, path: Path) -> float:
    said = text.strip().lower()
    if said not in _YES | _NO:
        raise InvalidError(f"{path}, line {line}: outcome {text!r} is neither 1 nor 0, true nor false")
    return float(said in _YES)
