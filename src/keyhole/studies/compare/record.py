"""The contest as JSON: every figure with its standard error, and why a pair was not run."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from keyhole.studies.compare.contest import Cell, Contest


def write_record(contest: Contest, path: Path, *, late: Mapping[str, Contest] | None = None) -> Path:
    """Write the contest, and with it those in which answers are late; NaN is null."""
    record = make_record(contest)
    if late is not None:
        record["late"] = {name: make_record(one) for name, one in late.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, allow_nan=False), encoding="utf-8")
    return path


def make_record(contest: Contest) -> dict[str, Any]:
    terms = contest.terms
    of_sets = {
        "feedback": terms.feedback.value,
        "arms": terms.arms,
        "channel": asdict(terms.channel),
    }
    return {
        "alpha": terms.alpha,
        "rounds": terms.rounds,
        "runs": terms.runs,
        "seed": terms.seed,
        **({} if contest.of_gates else of_sets),
        "scenarios": [
            {"name": listed.name, "about": listed.about, "unit": listed.unit}
            for listed in contest.scenarios
        ],
        "cells": [_record_cell(cell, contest) for cell in contest.cells],
    }


def _record_cell(cell: Cell, contest: Contest) -> dict[str, Any]:
    named: dict[str, Any] = {"learner": cell.learner, "scenario": cell.scenario}
    if cell.audit is not None:
        named["audit"] = cell.audit
    if cell.refusal is not None:
        return {**named, "refused": cell.refusal}
    figures = {
        name: {"mean": _number(figure.mean), "standard_error": _number(figure.error)}
        for name, figure in cell.figures.items()
    }
    curve = cell.curve._asdict() if cell.curve else {}
    return {
        **named,
        "figures": figures,
        "keeps_promise": contest.keeps(cell),
        "over_time": {
            name: [_number(round(value, 6)) for value in values.tolist()]
            for name, values in curve.items()
        },
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
