"""The contest as JSON: every figure with its standard error, and why a pair was not run."""

import json
import math
from typing import Any

from keyhole.compare.contest import Cell, Contest
from keyhole.grid import Array


def text(contest: Contest) -> str:
    """Return the contest as JSON; NaN is written as null."""
    terms = contest.terms
    record = {
        "alpha": terms.alpha,
        "regime": terms.regime.value,
        "rounds": terms.rounds,
        "runs": terms.runs,
        "seed": terms.seed,
        "arms": terms.arms,
        "channel": {
            "delay": terms.channel.delay,
            "geometric": terms.channel.geometric,
            "lost": terms.channel.lost,
            "wrong": terms.channel.wrong,
        },
        "streams": [
            {"name": listed.name, "about": listed.about, "unit": listed.unit}
            for listed in contest.streams
        ],
        "cells": [_cell(cell) for cell in contest.cells],
    }
    return json.dumps(record, indent=1, allow_nan=False)


def _cell(cell: Cell) -> dict[str, Any]:
    if cell.refusal is not None:
        return {"learner": cell.learner, "stream": cell.stream, "refused": cell.refusal}
    figures = {
        name: {"mean": _number(figure.mean), "standard_error": _number(figure.error)}
        for name, figure in cell.figures.items()
    }
    curve = cell.curve._asdict() if cell.curve else {}
    return {
        "learner": cell.learner,
        "stream": cell.stream,
        "figures": figures,
        "over_time": {name: _numbers(values) for name, values in curve.items()},
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _numbers(values: Array) -> list[float | None]:
    return [_number(round(value, 6)) for value in values.tolist()]
