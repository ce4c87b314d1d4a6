"""What is at work, or was played, in a notebook: a few numbers, and its rate beside the target."""

from itertools import islice
from typing import Any

from keyhole.pictures import draw_rate, write_table

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
    bar = draw_rate(predictor.miss_rate, predictor.alpha, called="miss rate; the mark is the target")
    return f"{write_table(rows)}{bar}{notes}"


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
    bar = draw_rate(gate.wrong_share, gate.alpha, called="share wrong; the mark is the target")
    return f"{write_table(rows)}{bar}"


def show_rates(rows: dict[str, str], rate: float, alpha: float) -> str:
    """Return HTML with what is told of many rounds, and a bar of their miss rate, the target marked."""
    told = {**rows, "target miss rate": f"{alpha:g}", "miss rate": f"{rate:.4f}"}
    return write_table(told) + draw_rate(rate, alpha, called="miss rate; the mark is the target")
