"""The contest as one page that needs nothing else: tables by us, charts by plotly inside it."""

import html
import json
import math
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from keyhole.errors import MissingExtraError
from keyhole.learners import find
from keyhole.numeric import Array
from keyhole.studies.compare import table
from keyhole.studies.compare.contest import (
    CHANNELS,
    RATIO,
    Contest,
    Estimate,
    LearnerSummary,
    summarise_late,
)
from keyhole.studies.compare.listing import Listed

Chart = dict[str, Any]  # a part of what plotly draws

FOLLOWED = (
    "informed-tracker", "logit-tracker", "tracker", "unlock-hedge", "self-scaled", "ocp-unlock+", "sps",
)  # fmt: skip
_LARGEST, _SMALLEST = 100.0, 0.7  # ratios of size that are drawn


def write_page(contest: Contest, path: Path) -> None:
    text = make_page(contest)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def make_page(contest: Contest) -> str:
    ranked = contest.rank()
    drawn = _charts(contest)
    panels = "".join(_panel(contest, listed) for listed in contest.scenarios)
    tables = "".join(_table(contest, listed) for listed in contest.scenarios)
    return make_html(
        "Keyhole: learners side by side",
        _asset("page.css"),
        f"<main><h1>Learners side by side</h1>{_lead(contest, ranked)}{_chips(ranked)}"
        '<section class="hero"><div class="chart" data-chart="field"></div>'
        f'<div class="chart" data-chart="near"></div></section>{_caption(contest)}'
        f"{_ranking(ranked, contest)}{_late(contest.late)}<h2>Over time</h2>"
        f'<div class="panels">{panels}</div><h2>Scenario by scenario</h2>{tables}'
        f'<p class="key">{html.escape(table.write_key())}</p></main>'
        f'<script type="application/json" id="charts">{_embed(drawn)}</script>'
        f"<script>{_plotly()}</script><script>{_asset('page.js')}</script>",
    )


def make_html(title: str, style: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{title}</title><style>{style}</style></head><body>{body}</body></html>"
    )


def _charts(contest: Contest) -> dict[str, Chart]:
    drawn = {"field": draw_field(contest), "near": draw_near(contest)}
    for listed in contest.scenarios:
        if contest.of_scenario(listed.name):
            drawn[f"over-time {listed.name}"] = draw_over_time(contest, listed.name)
    if contest.late:
        drawn["late"] = draw_late(contest.late)
    return drawn


def _embed(drawn: dict[str, Chart]) -> str:
    """Return JSON that cannot end the element it stands in."""
    return json.dumps(drawn, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _plotly() -> str:
    try:
        script = resources.files("plotly") / "package_data" / "plotly.min.js"
    except ModuleNotFoundError:
        raise MissingExtraError(
            "the page needs plotly; pip install 'keyhole-conformal[plot]'"
        ) from None
    return script.read_text(encoding="utf-8")


def _asset(name: str) -> str:
    return (resources.files("keyhole.studies.compare") / name).read_text(encoding="utf-8")


def _lead(contest: Contest, ranked: list[LearnerSummary]) -> str:
    terms = contest.terms
    world = "" if terms.channel.is_clear else " Answers come late, get lost or are wrong."
    line = (
        f"{len(ranked)} learners, {len(contest.scenarios)} scenarios, {terms.rounds:,} rounds, "
        f"{terms.runs} {'run' if terms.runs == 1 else 'runs'} each; {terms.feedback} feedback; "
        f"target miss rate {terms.alpha:g}.{world}"
    )
    return f'<p class="lead">{html.escape(line)}</p>'


def _chips(ranked: list[LearnerSummary]) -> str:
    """Return a button for each learner, which has it followed through all charts."""
    chips = "".join(
        f'<button type="button" data-learner="{html.escape(one.learner)}" aria-pressed="'
        f'{str(one.learner in FOLLOWED).lower()}"><i></i>{html.escape(one.learner)}</button>'
        for one in ranked
    )
    return f'<p class="chips" aria-label="learners to follow">{chips}</p>'


def _caption(contest: Contest) -> str:
    return (
        '<p class="caption">A dot is one learner on one scenario, adversaries aside; a ring is its '
        f"mean over them. On the dashed line exactly {contest.terms.alpha:g} of the sets miss; lower "
        "is smaller. The grey line is what fixed thresholds, one a segment and chosen in hindsight, "
        "could do. First everything, then near the target. The names above choose whom to follow.</p>"
    )


def _ranking(ranked: list[LearnerSummary], contest: Contest) -> str:
    rows = "".join(
        f"<tr{_mark_broken(one.kept < one.scenarios)}>{_write_name(one.learner)}"
        f'<td class="word">{find(one.learner).needs.value}</td><td>{one.kept} of {one.scenarios}</td>'
        f"{''.join(_write_value(getattr(one, c.figure), c.form) for c in table.SUMMARY)}</tr>"
        for one in ranked
    )
    refused = sorted({cell.learner for cell in contest.cells if cell.refusal is not None})
    absent = f'<p class="refused">Not run somewhere: {", ".join(refused)}; see below.</p>'
    heads = _write_heads(["promise kept", *(column.title for column in table.SUMMARY)])
    heads = f'<th class="word">feedback it uses</th>{heads}'
    return f"<h2>Over all scenarios</h2>{_write_table(heads, rows)}{absent if refused else ''}"


def _write_heads(names: Iterable[str]) -> str:
    return "".join(f"<th>{html.escape(name)}</th>" for name in names)


def _write_table(heads: str, rows: str) -> str:
    return (
        f'<div class="scroll"><table><thead><tr><th class="word">learner</th>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _late(late: Mapping[str, Contest]) -> str:
    if not late:
        return ""
    rows = "".join(
        f"<tr>{_write_name(name)}"
        + "".join(
            f"<td>{one.ratio:.2f}<small> {one.miss_rate:.3f}</small></td>" if one else "<td>–</td>"
            for one in map(by_channel.get, late)
        )
        + "</tr>"
        for name, by_channel in summarise_late(late).items()
    )
    return (
        '<h2>When answers are late</h2><div class="chart late" data-chart="late"></div>'
        f'<p class="caption">{html.escape(table.LATE_KEY)} Small: the mean miss rate.</p>'
        f"{_write_table(_write_heads(late), rows)}"
    )


def _mark_broken(broken: bool) -> str:  # noqa: FBT001
    return ' class="broken"' if broken else ""


def _write_name(learner: str) -> str:
    name = html.escape(learner)
    return f'<td class="word"><i data-learner="{name}"></i>{name}</td>'


def _panel(contest: Contest, listed: Listed) -> str:
    if not contest.of_scenario(listed.name):
        return ""
    name = html.escape(listed.name)
    return (
        f"<section><h3>{name}</h3><p>{html.escape(listed.about)}</p>"
        f'<div class="chart" data-chart="over-time {name}"></div></section>'
    )


def _table(contest: Contest, listed: Listed) -> str:
    rows = "".join(
        f"<tr{_mark_broken(not contest.keeps(cell))}>{_write_name(cell.learner)}"
        f"{''.join(_write_figure(cell.figures[c.figure], c.form) for c in table.COLUMNS)}</tr>"
        for cell in contest.of_scenario(listed.name)
    )
    heads = _write_heads(column.title for column in table.COLUMNS)
    refusals = "".join(
        f"<li>not run: <b>{html.escape(cell.learner)}</b>: {html.escape(cell.refusal or '')}</li>"
        for cell in contest.list_refused(listed.name)
    )
    return (
        f"<details><summary><b>{html.escape(listed.name)}</b>: {html.escape(listed.about)}; size in "
        f"{html.escape(listed.unit)}</summary>{_write_table(heads, rows)}<ul>{refusals}</ul></details>"
    )


def _write_figure(figure: Estimate, form: str) -> str:
    error = "" if math.isnan(figure.error) else f"<small> ±{figure.error:.2g}</small>"
    return _write_value(figure.mean, form, error=error)


def _write_value(value: float, form: str, *, error: str = "") -> str:
    return "<td>–</td>" if math.isnan(value) else f"<td>{value:{form}}{error}</td>"


def draw_field(contest: Contest) -> Chart:
    alpha = contest.terms.alpha
    ranked = contest.rank()
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
    near = [one for one in contest.rank() if _is_near(one, alpha)]
    low, high = math.log10(0.93), math.log10(1.5)
    plane = _plane(
        alpha,
        x={"range": [0.88 * alpha, 1.3 * alpha], "title": {"text": "mean miss rate"}},
        y={"range": [low, high], "tickvals": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], "title": {"text": ""}},
    )
    plane["annotations"] += _names(near, at=1.14 * alpha, low=low, high=high)
    return {"data": [*_frontier(contest), *_means(near)], "layout": plane}


def _names(shown: list[LearnerSummary], *, at: float, low: float, high: float) -> list[Chart]:
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
    cells = contest.of_scenario(scenario)
    curves = {cell.learner: cell.curve for cell in cells if cell.curve is not None}
    alpha = contest.terms.alpha
    return {
        "data": [
            _curve(name, curve.rounds, values, axis)
            for name, curve in curves.items()
            for values, axis in ((curve.miss_rates, "y"), (curve.sizes, "y2"))
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
                **_sizes_axis(np.concatenate([curve.sizes for curve in curves.values()])),
            },
            "shapes": [_target("y", "x domain", alpha)],
        },
    }


def draw_late(late: Mapping[str, Contest]) -> Chart:
    found = summarise_late(late)
    channels = list(late)
    return {
        "data": [
            _scatter(
                name,
                "curve",
                "lines+markers",
                x=channels,
                y=[round(one.ratio, 4) if one else None for one in map(by_channel.get, channels)],
                text=[
                    f"{name}, {CHANNELS[channel][0]}: size {by_channel[channel].ratio:.2f} x best, "
                    f"misses {by_channel[channel].miss_rate:.3f}"
                    if channel in by_channel
                    else ""
                    for channel in channels
                ],
                hoverinfo="text",
            )
            for name, by_channel in found.items()
        ],
        "layout": {
            "margin": {"l": 52, "r": 12, "t": 8, "b": 40},
            "xaxis": {"type": "category"},
            "yaxis": {"type": "log", "dtick": 1, "title": {"text": "size / best per segment"}},
        },
    }


def _is_near(one: LearnerSummary, alpha: float) -> bool:
    return 0.88 * alpha <= one.miss_rate <= 1.16 * alpha and 0.93 <= one.ratio <= 1.5


def _plane(alpha: float, *, x: Chart, y: Chart) -> Chart:
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


def _target(along: str, across: str, alpha: float) -> Chart:
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
    return _scatter(
        learner,
        "dot",
        "markers",
        x=[round(min(rate, most), 5) for rate in rates],
        y=[round(min(max(ratio, _SMALLEST), _LARGEST), 4) for ratio in ratios],
        text=[
            f"{learner} on {cell.scenario}: misses {rate:.3f}, size {ratio:.2f} x best"
            for cell, rate, ratio in zip(cells, rates, ratios, strict=True)
        ],
        hoverinfo="text",
    )


def _means(shown: list[LearnerSummary]) -> list[Chart]:
    return [
        _scatter(
            one.learner,
            "mean",
            "markers",
            x=[round(one.miss_rate, 5)],
            y=[round(one.ratio, 4)],
            hovertext=[
                f"{one.learner}: misses {one.miss_rate:.4f}, size {one.ratio:.2f} x best, promise kept "
                f"on {one.kept} of {one.scenarios}"
            ],
            hoverinfo="text",
        )
        for one in shown
    ]


def _curve(learner: str, rounds: Array, values: Array, axis: str) -> Chart:
    return _scatter(
        learner,
        "curve",
        "lines",
        x=rounds.astype(int).tolist(),
        y=[float(f"{value:.4g}") if math.isfinite(value) else None for value in values.tolist()],
        yaxis=axis,
        hovertemplate=f"{learner}: %{{y}} by round %{{x}}<extra></extra>",
    )


def _scatter(learner: str, kind: str, mode: str, **fields: object) -> Chart:
    """Return a trace of plotly's that the page's script colours as the learner's."""
    return {
        "type": "scatter",
        "mode": mode,
        **fields,
        "name": learner,
        "meta": {"learner": learner, "kind": kind},
    }


def _sizes_axis(known: Array) -> Chart:
    """Return a logarithmic axis where sizes differ by more than an eye can follow."""
    high, low = float(np.nanmax(known)), float(np.nanquantile(known, 0.02))
    if high > 12.0 * max(low, 1e-9):
        return {"type": "log", "dtick": 1}
    return {"rangemode": "tozero"}
