"""The contest as one page that needs nothing else: tables by us, charts by plotly inside it."""

import html
import json
import math
from importlib import resources

from keyhole.errors import MissingExtraError
from keyhole.learners import find
from keyhole.studies.compare import charts, table
from keyhole.studies.compare.contest import Cell, Contest
from keyhole.studies.compare.late import LateContests
from keyhole.studies.compare.standings import LearnerStanding, standings

FOLLOWED = ("logit-tracker", "tracker", "unlock-hedge", "self-scaled", "ocp-unlock+", "sps")
_COLUMNS = {
    "miss_rate": ("miss rate", ".4f"),
    "worst_window": ("worst 1,000", ".3f"),
    "size": ("size", ".3g"),
    "size_to_best_fixed": ("/ best fixed", ".2f"),
    "size_to_best_per_segment": ("/ best per segment", ".2f"),
    "worst_group": ("worst group", ".3f"),
    "pinball_regret": ("pinball regret", ".0f"),
    "full": ("full sets", ".2%"),
    "empty": ("empty sets", ".2%"),
    "microseconds": ("µs a round", ".2f"),
}


def text(contest: Contest, lateness: LateContests | None = None) -> str:
    """Return the page."""
    ranked = standings(contest)
    drawn = _charts(contest, lateness)
    panels = "".join(_panel(contest, listed.name) for listed in contest.scenarios)
    tables = "".join(_table(contest, listed.name) for listed in contest.scenarios)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>Keyhole: learners side by side</title><style>{_asset('page.css')}</style></head>"
        f"<body><main><h1>Learners side by side</h1>{_lead(contest, ranked)}{_chips(ranked)}"
        '<section class="hero"><div class="chart" data-chart="field"></div>'
        f'<div class="chart" data-chart="near"></div></section>{_caption(contest)}'
        f"{_ranking(ranked, contest)}{_late(lateness)}<h2>Over time</h2>"
        f'<div class="panels">{panels}</div><h2>Scenario by scenario</h2>{tables}'
        f'<p class="key">{html.escape(table.write_key())}</p></main>'
        f'<script type="application/json" id="charts">{_embed(drawn)}</script>'
        f"<script>{_plotly()}</script><script>{_asset('page.js')}</script></body></html>"
    )


def _charts(contest: Contest, lateness: LateContests | None) -> dict[str, charts.Chart]:
    drawn = {"field": charts.draw_field(contest), "near": charts.draw_near(contest)}
    for listed in contest.scenarios:
        if contest.of_scenario(listed.name):
            drawn[f"over-time {listed.name}"] = charts.draw_over_time(contest, listed.name)
    if lateness is not None:
        drawn["late"] = charts.draw_late(lateness)
    return drawn


def _embed(drawn: dict[str, charts.Chart]) -> str:
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


def _lead(contest: Contest, ranked: list[LearnerStanding]) -> str:
    terms = contest.terms
    world = "" if terms.channel.is_clear else " Answers come late, get lost or are wrong."
    line = (
        f"{len(ranked)} learners, {len(contest.scenarios)} scenarios, {terms.rounds:,} rounds, "
        f"{terms.runs} {'run' if terms.runs == 1 else 'runs'} each; {terms.feedback.value} feedback; "
        f"target miss rate {terms.alpha:g}.{world}"
    )
    return f'<p class="lead">{html.escape(line)}</p>'


def _chips(ranked: list[LearnerStanding]) -> str:
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


def _ranking(ranked: list[LearnerStanding], contest: Contest) -> str:
    rows = "".join(
        f"<tr{_mark_broken(one.kept < one.scenarios)}>{_write_name(one.learner)}"
        f'<td class="word">{_needs(one.learner)}</td><td>{one.kept} of {one.scenarios}</td>'
        f"<td>{one.miss_rate:.4f}</td><td>{one.strayed:.3f}</td><td>{one.worst_window:.3f}</td>"
        f"<td>{_or_dash(one.worst_group)}</td><td>{one.ratio:.2f}</td>"
        f"<td>{_or_dash(one.attacked)}</td></tr>"
        for one in ranked
    )
    refused = sorted({cell.learner for cell in contest.cells if cell.refusal is not None})
    absent = f'<p class="refused">Not run somewhere: {", ".join(refused)}; see below.</p>'
    heads = (
        "promise kept",
        "mean miss rate",
        "farthest from target",
        "worst 1,000 rounds, mean",
        "worst group, mean",
        "size / best per segment",
        "worst against an adversary",
    )
    return (
        '<h2>Over all scenarios</h2><div class="scroll"><table><thead><tr><th class="word">learner</th>'
        f'<th class="word">feedback it uses</th>{"".join(f"<th>{head}</th>" for head in heads)}'
        f"</tr></thead><tbody>{rows}</tbody></table></div>{absent if refused else ''}"
    )


def _late(lateness: LateContests | None) -> str:
    if lateness is None:
        return ""
    rows = "".join(
        f"<tr>{_write_name(name)}"
        + "".join(
            f"<td>{one.ratio:.2f}<small> {one.miss_rate:.3f}</small></td>" if one else "<td>–</td>"
            for one in map(by_channel.get, lateness.contests)
        )
        + "</tr>"
        for name, by_channel in lateness.standings().items()
    )
    heads = "".join(f"<th>{html.escape(channel)}</th>" for channel in lateness.contests)
    return (
        '<h2>When answers are late</h2><div class="chart late" data-chart="late"></div>'
        f'<p class="caption">{html.escape(table.LATE_KEY)} Small: the mean miss rate.</p>'
        f'<div class="scroll"><table><thead><tr><th class="word">learner</th>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _mark_broken(broken: bool) -> str:  # noqa: FBT001
    return ' class="broken"' if broken else ""


def _write_name(learner: str) -> str:
    name = html.escape(learner)
    return f'<td class="word"><i data-learner="{name}"></i>{name}</td>'


def _or_dash(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def _needs(learner: str) -> str:
    return find(learner).needs.value


def _panel(contest: Contest, name: str) -> str:
    if not contest.of_scenario(name):
        return ""
    listed = next(one for one in contest.scenarios if one.name == name)
    return (
        f"<section><h3>{html.escape(name)}</h3><p>{html.escape(listed.about)}</p>"
        f'<div class="chart" data-chart="over-time {html.escape(name)}"></div></section>'
    )


def _table(contest: Contest, name: str) -> str:
    listed = next(one for one in contest.scenarios if one.name == name)
    rows = "".join(_row(cell, contest) for cell in contest.of_scenario(name))
    heads = "".join(f"<th>{title}</th>" for title, _ in _COLUMNS.values())
    refusals = "".join(
        f"<li>not run: <b>{html.escape(cell.learner)}</b>: {html.escape(cell.refusal or '')}</li>"
        for cell in contest.list_refused(name)
    )
    return (
        f"<details><summary><b>{html.escape(name)}</b>: {html.escape(listed.about)}; size in "
        f'{html.escape(listed.unit)}</summary><div class="scroll"><table><thead><tr>'
        f'<th class="word">learner</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        f"<ul>{refusals}</ul></details>"
    )


def _row(cell: Cell, contest: Contest) -> str:
    values = "".join(_value(cell, name, form) for name, (_, form) in _COLUMNS.items())
    return f"<tr{_mark_broken(not contest.keeps(cell))}>{_write_name(cell.learner)}{values}</tr>"


def _value(cell: Cell, name: str, form: str) -> str:
    figure = cell.figures[name]
    if math.isnan(figure.mean):
        return "<td>–</td>"
    error = "" if math.isnan(figure.error) else f"<small> ±{figure.error:.2g}</small>"
    return f"<td>{figure.mean:{form}}{error}</td>"
