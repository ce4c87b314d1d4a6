"""The contest as JSON: every figure with its standard error, and why a pair was not run."""

import json
import math
from dataclasses import asdict
from typing import Any

from keyhole.numeric import Array
from keyhole.studies.compare.contest import Cell, Contest
from keyhole.studies.compare.late import LateContests


def text(contest: Contest, lateness: LateContests | None = None) -> str:
    """Return the contest as JSON, and with it those in which answers are late; NaN is null."""
    record = _contest(contest)
    if lateness is not None:
        record["late"] = {name: _contest(one) for name, one in lateness.contests.items()}
    return json.dumps(record, indent=1, allow_nan=False)


def _contest(contest: Contest) -> dict[str, Any]:
    terms = contest.terms
    return {
        "alpha": terms.alpha,
        "feedback": terms.feedback.value,
        "rounds": terms.rounds,
        "runs": terms.runs,
        "seed": terms.seed,
        "arms": terms.arms,
        "channel": asdict(terms.channel),
        "scenarios": [
            {"name": listed.name, "about": listed.about, "unit": listed.unit}
            for listed in contest.scenarios
        ],
        "cells": [_cell(cell, contest) for cell in contest.cells],
    }


def _cell(cell: Cell, contest: Contest) -> dict[str, Any]:
    if cell.refusal is not None:
        return {"learner": cell.learner, "scenario": cell.scenario, "refused": cell.refusal}
    figures = {
        name: {"mean": _number(figure.mean), "standard_error": _number(figure.error)}
        for name, figure in cell.figures.items()
    }
    curve = cell.curve._asdict() if cell.curve else {}
    return {
        "learner": cell.learner,
        "scenario": cell.scenario,
        "figures": figures,
        "keeps_promise": contest.keeps(cell),
        "over_time": {name: _numbers(values) for name, values in curve.items()},
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _numbers(values: Array) -> list[float | None]:
    return [_number(round(value, 6)) for value in values.tolist()]
