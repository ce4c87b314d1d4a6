"""A predictor or a gate in a notebook: a few numbers, and its rate beside the target."""

import math
from itertools import islice
from typing import Any

_WIDTH, _HEIGHT = 240, 14
_MOST_GROUPS = 12  # that are shown; predictor.groups has all


def describe(holder: Any, told: str) -> str:
    """Return a line on a predictor or a gate: its rule, its rounds, and what is told of those."""
    kind, rounds, waiting = type(holder).__name__, holder.rounds, holder.open_rounds
    fared = told if rounds else ""
    still = f", {waiting:,} open" if waiting else ""
    return f"<{kind} {holder.learner.name}, alpha {holder.alpha:g}: {rounds:,} rounds{fared}{still}>"


def show_predictor(predictor: Any) -> str:
    """Return HTML with the predictor's numbers and a bar of its miss rate, the target marked."""
    import html

    rows = {
        "learner": predictor.learner.name,
        "target miss rate": f"{predictor.alpha:g}",
        "rounds": f"{predictor.rounds:,}",
        "miss rate": f"{predictor.miss_rate:.4f}",
        **{
            f"miss rate, {html.escape(str(name))}": f"{group.miss_rate:.4f}"
            for name, group in islice(predictor.groups.items(), _MOST_GROUPS)
        },
        "mean size": f"{predictor.mean_size:.4g}",
        "open": f"{predictor.open_rounds:,}",
    }
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in predictor.notes)
    bar = _draw_bar(predictor.miss_rate, predictor.alpha, called="miss rate; the mark is the target")
    return f"{_write_table(rows)}{bar}{notes}"


def show_gate(gate: Any) -> str:
    """Return HTML with the gate's numbers and a bar of its share wrong, the target marked."""
    rows = {
        "rule": gate.learner.name,
        "target share wrong": f"{gate.alpha:g}",
        "rounds": f"{gate.rounds:,}",
        "accepted": f"{gate.accepted_share:.4f}",
        "wrong among the accepted": f"{gate.wrong_share:.4f}",
        "open": f"{gate.open_rounds:,}",
    }
    bar = _draw_bar(gate.wrong_share, gate.alpha, called="share wrong; the mark is the target")
    return f"{_write_table(rows)}{bar}"


def _write_table(rows: dict[str, str]) -> str:
    known = {name: "-" if value == "nan" else value for name, value in rows.items()}
    cells = "".join(f"<tr><td>{name}</td><td>{value}</td></tr>" for name, value in known.items())
    return f"<table>{cells}</table>"


def _draw_bar(rate: float, alpha: float, *, called: str) -> str:
    if math.isnan(rate):
        return ""
    full = max(2.0 * alpha, rate)
    length, mark = _WIDTH * rate / full, _WIDTH * alpha / full
    colour = "#2a7" if rate <= 1.25 * alpha else "#c63"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{called}">'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#8883"/>'
        f'<rect width="{length:.1f}" height="{_HEIGHT}" fill="{colour}"/>'
        f'<line x1="{mark:.1f}" x2="{mark:.1f}" y2="{_HEIGHT}" stroke="currentColor" stroke-width="2"/>'
        f"</svg><br><small>{called}</small>"
    )
