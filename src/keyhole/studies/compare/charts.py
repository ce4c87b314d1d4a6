"""The page's charts as plotly reads them: what is drawn is here, its colours are the page's."""

import math
from typing import Any

import numpy as np

from keyhole.studies.compare.contest import Cell, Contest
from keyhole.studies.compare.late import CHANNELS, LateContests
from keyhole.studies.compare.standings import RATIO, LearnerStanding, standings

Chart = dict[str, Any]
_LARGEST = 100.0
_SMALLEST = 0.7


def draw_field(contest: Contest) -> Chart:
    """Return all learners on all scenarios: miss rate against size."""
    alpha = contest.terms.alpha
    ranked = standings(contest)
    dots = [_dots(contest, one.learner, 3.0 * alpha) for one in ranked]
    far = [one for one in ranked if not _is_near(one, alpha)]
    low, high = math.log10(_SMALLEST), math.log10(_LARGEST)
    plane = _plane(
        alpha,
        x={"range": [0.0, 3.0 * alpha], "title": {"text": "miss rate"}},
        y={
            "range": [low, high],
            "tickvals": [1, 1.5, 2, 3, 5, 10, 20, 50, 100],
            "title": {"text": "set size / best in hindsight"},
        },
    )
    plane["annotations"] += _names(far, at=2.2 * alpha, low=low, high=high)
    return {"data": [*_frontier(contest), *dots, *_means(ranked)], "layout": plane}


def draw_near(contest: Contest) -> Chart:
    """Return the same near the target, where the good ones crowd, means alone."""
    alpha = contest.terms.alpha
    near = [one for one in standings(contest) if _is_near(one, alpha)]
    low, high = math.log10(0.93), math.log10(1.5)
    plane = _plane(
        alpha,
        x={"range": [0.88 * alpha, 1.3 * alpha], "title": {"text": "mean miss rate"}},
        y={"range": [low, high], "tickvals": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], "title": {"text": ""}},
    )
    plane["annotations"] += _names(near, at=1.14 * alpha, low=low, high=high)
    return {"data": [*_frontier(contest), *_means(near)], "layout": plane}


def _names(shown: list[LearnerStanding], *, at: float, low: float, high: float) -> list[dict[str, Any]]:
    """Return the names in a column, in the order of size, each with a line to its ring."""
    gap = min(1.0 / max(1, len(shown)), 0.068) * (high - low)
    ranked = sorted(shown, key=lambda one: (one.ratio, one.learner))
    middle = sum(math.log10(one.ratio) for one in ranked) / max(1, len(ranked))
    start = min(max(low + gap / 2, middle - gap * len(ranked) / 2), high - gap * len(ranked))
    return [
        {
            "x": one.miss_rate,
            "y": math.log10(one.ratio),
            "ax": at,
            "ay": start + gap * place,
            "axref": "x",
            "ayref": "y",
            "xanchor": "left",
            "text": one.learner,
            "showarrow": True,
            "arrowhead": 0,
            "arrowwidth": 1,
            "standoff": 6,
            "name": one.learner,
        }
        for place, one in enumerate(ranked)
    ]


def draw_over_time(contest: Contest, scenario: str) -> Chart:
    """Return miss rates over time, and below them sizes."""
    cells = [cell for cell in contest.of_scenario(scenario) if cell.curve is not None]
    alpha = contest.terms.alpha
    return {
        "data": [
            _curve(cell, name, axis)
            for cell in cells
            for name, axis in (("miss_rates", "y"), ("sizes", "y2"))
        ],
        "layout": {
            "margin": {"l": 44, "r": 8, "t": 8, "b": 26},
            "xaxis": {"anchor": "y2", "nticks": 5},
            "yaxis": {
                "domain": [0.56, 1.0],
                "range": [0.0, 4.0 * alpha],
                "tickvals": [0.0, alpha, 2 * alpha, 4 * alpha],
                "title": {"text": "misses", "standoff": 4},
            },
            "yaxis2": {
                "domain": [0.0, 0.46],
                "title": {"text": "size", "standoff": 4},
                "nticks": 4,
                **_sizes_axis(cells),
            },
            "shapes": [_target("y", "x domain", alpha)],
        },
    }


def draw_late(lateness: LateContests) -> Chart:
    """Return what each channel costs each learner in size."""
    found = lateness.standings()
    channels = list(lateness.contests)
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": channels,
                "y": [
                    round(by_channel[channel].ratio, 4) if channel in by_channel else None
                    for channel in channels
                ],
                "text": [
                    f"{name}, {CHANNELS[channel].about}: size {by_channel[channel].ratio:.2f} x best, "
                    f"misses {by_channel[channel].miss_rate:.3f}"
                    if channel in by_channel
                    else ""
                    for channel in channels
                ],
                "hoverinfo": "text",
                "name": name,
                "meta": {"learner": name, "kind": "curve"},
            }
            for name, by_channel in found.items()
        ],
        "layout": {
            "margin": {"l": 52, "r": 12, "t": 8, "b": 40},
            "xaxis": {"type": "category"},
            "yaxis": {"type": "log", "dtick": 1, "title": {"text": "size / best per segment"}},
        },
    }


def _is_near(one: LearnerStanding, alpha: float) -> bool:
    return 0.88 * alpha <= one.miss_rate <= 1.16 * alpha and 0.93 <= one.ratio <= 1.5


def _plane(alpha: float, *, x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    return {
        "margin": {"l": 56, "r": 12, "t": 26, "b": 48},
        "xaxis": x,
        "yaxis": {"type": "log", **y},
        "shapes": [_target("x", "y domain", alpha)],
        "annotations": [
            {
                "x": alpha,
                "y": 1.0,
                "xref": "x",
                "yref": "y domain",
                "yanchor": "bottom",
                "text": f"target {alpha:g}",
                "showarrow": False,
                "name": "target",
            }
        ],
    }


def _target(along: str, across: str, alpha: float) -> dict[str, Any]:
    """Return a line at alpha; ``along`` is the axis that alpha is a place on."""
    other = "y" if along == "x" else "x"
    return {
        "type": "line",
        "name": "target",
        f"{along}ref": along,
        f"{other}ref": across,
        f"{along}0": alpha,
        f"{along}1": alpha,
        f"{other}0": 0.0,
        f"{other}1": 1.0,
    }


def _frontier(contest: Contest) -> list[Chart]:
    """Return what fixed thresholds per segment could do in hindsight, on the mean scenario."""
    curves = [f.sizes for f in contest.frontiers.values() if np.isfinite(f.sizes).all()]
    if not curves:
        return []
    rates = next(iter(contest.frontiers.values())).miss_rates
    sizes = np.exp(np.log(np.maximum(curves, 1e-3)).mean(axis=0))
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "x": np.round(rates, 5).tolist(),
            "y": np.round(sizes, 4).tolist(),
            "hoverinfo": "skip",
            "name": "best in hindsight",
            "meta": {"kind": "frontier"},
        }
    ]


def _dots(contest: Contest, learner: str, most: float) -> Chart:
    cells = [
        cell
        for cell in contest.cells
        if cell.learner == learner and cell.scenario in contest.frontiers and cell.refusal is None
    ]
    rates = [cell.figures["miss_rate"].mean for cell in cells]
    ratios = [cell.figures[RATIO].mean for cell in cells]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [round(min(rate, most), 5) for rate in rates],
        "y": [round(min(max(ratio, _SMALLEST), _LARGEST), 4) for ratio in ratios],
        "text": [
            f"{learner} on {cell.scenario}: misses {rate:.3f}, size {ratio:.2f} x best"
            for cell, rate, ratio in zip(cells, rates, ratios, strict=True)
        ],
        "hoverinfo": "text",
        "name": learner,
        "meta": {"learner": learner, "kind": "dot"},
    }


def _means(shown: list[LearnerStanding]) -> list[Chart]:
    """Return a ring for each learner's mean."""
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [round(one.miss_rate, 5)],
            "y": [round(one.ratio, 4)],
            "hovertext": [
                f"{one.learner}: misses {one.miss_rate:.4f}, size {one.ratio:.2f} x best, promise kept "
                f"on {one.kept} of {one.scenarios}"
            ],
            "hoverinfo": "text",
            "name": one.learner,
            "meta": {"learner": one.learner, "kind": "mean"},
        }
        for one in shown
    ]


def _curve(cell: Cell, name: str, axis: str) -> Chart:
    values = getattr(cell.curve, name)
    return {
        "type": "scatter",
        "mode": "lines",
        "x": cell.curve.rounds.astype(int).tolist() if cell.curve else [],
        "y": [float(f"{value:.4g}") if math.isfinite(value) else None for value in values.tolist()],
        "yaxis": axis,
        "name": cell.learner,
        "meta": {"learner": cell.learner, "kind": "curve"},
        "hovertemplate": f"{cell.learner}: %{{y}} by round %{{x}}<extra></extra>",
    }


def _sizes_axis(cells: list[Cell]) -> dict[str, Any]:
    """Return a logarithmic axis where sizes differ by more than an eye can follow."""
    known = np.concatenate([cell.curve.sizes for cell in cells if cell.curve is not None])
    high, low = float(np.nanmax(known)), float(np.nanquantile(known, 0.02))
    if high > 12.0 * max(low, 1e-9):
        return {"type": "log", "dtick": 1}
    return {"rangemode": "tozero"}
