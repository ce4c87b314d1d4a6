"""The contest as one self-contained page."""

import html
import math
from importlib import resources

from keyhole.compare import pictures, table
from keyhole.compare.contest import Cell, Contest
from keyhole.compare.standings import Standing, standings
from keyhole.learners import LEARNERS

_COLUMNS = {
    "miss_rate": ("miss rate", ".4f"),
    "worst_window": ("worst 1,000", ".3f"),
    "size": ("size", ".3g"),
    "size_to_best_fixed": ("/ best fixed", ".2f"),
    "size_to_best_per_segment": ("/ best per segment", ".2f"),
    "pinball_regret": ("pinball regret", ".0f"),
    "full": ("full sets", ".2%"),
    "empty": ("empty sets", ".2%"),
    "microseconds": ("µs a round", ".2f"),
}


def text(contest: Contest) -> str:
    """Return the page."""
    ranked = standings(contest)
    panels = "".join(_panels(contest, listed.name) for listed in contest.streams)
    tables = "".join(_table(contest, listed.name) for listed in contest.streams)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Keyhole: learners side by side</title><style>{_asset('page.css')}</style></head>"
        f"<body><main><h1>Learners side by side</h1>{_lead(contest, ranked)}"
        f'<section class="hero"><figure>{pictures.field(contest)}</figure>'
        f"<figure>{pictures.near_target(contest)}</figure></section>{_caption(contest)}"
        f"{_ranking(ranked, contest)}<h2>Over time</h2>{_legend(ranked)}"
        f"<div class='panels'>{panels}</div><h2>Stream by stream</h2>{tables}"
        f"<p class='key'>{html.escape(table.KEY)}</p></main>"
        f"<script>{_asset('page.js')}</script></body></html>"
    )


def _asset(name: str) -> str:
    return (resources.files("keyhole.compare") / name).read_text(encoding="utf-8")


def _lead(contest: Contest, ranked: list[Standing]) -> str:
    terms = contest.terms
    world = "" if terms.channel.is_clear else " Answers come late, get lost or are wrong."
    line = (
        f"{len(ranked)} learners, {len(contest.streams)} streams, {terms.rounds:,} rounds, "
        f"{terms.runs} runs each; {terms.regime.value} feedback; target miss rate "
        f"{terms.alpha:g}.{world}"
    )
    return f"<p class='lead'>{html.escape(line)}</p>"


def _caption(contest: Contest) -> str:
    return (
        "<p class='caption'>A dot is one learner on one stream, adversaries aside; a ring is its mean "
        f"over them. On the dashed line exactly {contest.terms.alpha:g} of the sets miss; lower is "
        "smaller. The shaded edge is what fixed thresholds, one a segment and chosen in hindsight, "
        "could do. Left: everything. Right: near the target. Point at a learner to follow it.</p>"
    )


def _ranking(ranked: list[Standing], contest: Contest) -> str:
    rows = "".join(
        f"<tr class='{pictures.slug(one.learner)}' data-learner='{html.escape(one.learner)}'>"
        f"<td class='word'><i></i>{html.escape(one.learner)}</td><td class='word'>"
        f"{_needs(one.learner)}</td><td>{one.miss_rate:.4f}</td><td>{one.strayed:.3f}</td>"
        f"<td>{one.worst_window:.3f}</td><td>{one.ratio:.2f}</td><td>{_or_dash(one.attacked)}</td></tr>"
        for one in ranked
    )
    refused = sorted({cell.learner for cell in contest.cells if cell.refusal is not None})
    absent = f"<p class='refused'>Not run somewhere: {', '.join(refused)}; see below.</p>"
    return (
        "<h2>Over all streams</h2><table><thead><tr><th class='word'>learner</th>"
        "<th class='word'>feedback it uses</th><th>mean miss rate</th><th>farthest from target</th>"
        "<th>worst 1,000 rounds, mean</th><th>size / best per segment</th>"
        "<th>worst against an adversary</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
        f"{absent if refused else ''}"
    )


def _or_dash(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def _needs(learner: str) -> str:
    rule = LEARNERS.get(learner.removesuffix("+valve"))
    return rule.needs.value if rule else ""


def _legend(ranked: list[Standing]) -> str:
    shown = [one.learner for one in ranked if one.learner in pictures.FOCUS]
    items = "".join(
        f"<span class='{pictures.slug(name)}' data-learner='{html.escape(name)}'><i></i>"
        f"{html.escape(name)}</span>"
        for name in shown
    )
    return f"<p class='legend'>{items}<span class='others'><i></i>all others</span></p>"


def _panels(contest: Contest, name: str) -> str:
    if not contest.of_stream(name):
        return ""
    listed = next(one for one in contest.streams if one.name == name)
    return (
        f"<section><h3>{html.escape(name)}</h3><p>{html.escape(listed.about)}</p>"
        f"{pictures.over_time(contest, name)}</section>"
    )


def _table(contest: Contest, name: str) -> str:
    listed = next(one for one in contest.streams if one.name == name)
    rows = "".join(_row(cell) for cell in contest.of_stream(name))
    heads = "".join(f"<th>{title}</th>" for title, _ in _COLUMNS.values())
    refusals = "".join(
        f"<li>not run: <b>{html.escape(cell.learner)}</b>: {html.escape(cell.refusal or '')}</li>"
        for cell in contest.refused(name)
    )
    return (
        f"<details><summary><b>{html.escape(name)}</b>: {html.escape(listed.about)}; size in "
        f"{html.escape(listed.unit)}</summary><table><thead><tr><th class='word'>learner</th>{heads}"
        f"</tr></thead><tbody>{rows}</tbody></table><ul>{refusals}</ul></details>"
    )


def _row(cell: Cell) -> str:
    values = "".join(_value(cell, name, form) for name, (_, form) in _COLUMNS.items())
    return (
        f"<tr class='{pictures.slug(cell.learner)}' data-learner='{html.escape(cell.learner)}'>"
        f"<td class='word'><i></i>{html.escape(cell.learner)}</td>{values}</tr>"
    )


def _value(cell: Cell, name: str, form: str) -> str:
    figure = cell.figures[name]
    if math.isnan(figure.mean):
        return "<td>–</td>"
    error = "" if math.isnan(figure.error) else f"<small> ±{figure.error:.2g}</small>"
    return f"<td>{figure.mean:{form}}{error}</td>"
