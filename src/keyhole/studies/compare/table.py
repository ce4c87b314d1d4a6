"""The contest in a terminal: one block a scenario, 80 columns wide."""

import math
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from keyhole.numeric import can_compile
from keyhole.studies.compare.contest import (
    CHANNELS,
    FEWEST,
    RATIO,
    Cell,
    Contest,
    LearnerSummary,
    summarise_late,
)
from keyhole.studies.compare.listing import Listed

_WIDTH = 80
_KEY = (
    "Who keeps the promise comes first (a miss rate above the target by no more than a twentieth of it "
    "and two standard errors, a tenth at most; over all scenarios: on the most of them), then by size. "
    "miss rate ± standard error; worst: in any 1,000 rounds in a row; size: mean of the sets; /fix, "
    "/seg: its ratio to that of the best fixed threshold in hindsight, for the whole scenario or each "
    "segment; regret: pinball loss beyond the best fixed threshold's; full, none: share of sets that "
    "hold every label, or none; us: microseconds a round, {lane}, on this machine. Where a scenario "
    "has features or groups, who takes some is told them, and in place of the regret stands group: the "
    "miss rate's largest distance from the target in any group, or third of a feature, of "
    f"{FEWEST} rounds or more. Over all scenarios: means, /seg geometric; kept: on how many the "
    "promise is kept; farthest: the miss rate's largest distance from the target on any; attacked: the "
    "worst miss rate against an adversary."
)
LATE_KEY = (
    "Sizes are relative to the best threshold for each segment in hindsight, which needs no answers: 1 "
    "is as good as can be. "
    + "; ".join(f"{name}: {about}" for name, (about, _) in CHANNELS.items())
    + "."
)


def _third(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _short(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _time(microseconds: float) -> str:
    """Return a time in at most four characters below 10 ms, so that a blank stands before it."""
    return f"{microseconds:.1f}" if microseconds < 99.95 else f"{microseconds:.0f}"


class FigureColumn(NamedTuple):
    """A figure, and how it is headed and written: on a page, and in a terminal so many letters wide."""

    figure: str
    title: str
    form: str
    head: str
    width: int
    write: Callable[[float], str] = _third


REGRET, GROUP = "pinball_regret", "worst_group"
COLUMNS = (  # of a learner on a scenario
    FigureColumn("miss_rate", "miss rate", ".4f", "miss rate", 14),  # in a terminal with its error
    FigureColumn("worst_window", "worst 1,000", ".3f", "worst", 6),
    FigureColumn("size", "size", ".3g", "size", 6, _short),
    FigureColumn("size_to_best_fixed", "/ best fixed", ".2f", "/fix", 6, _short),
    FigureColumn(RATIO, "/ best per segment", ".2f", "/seg", 6, _short),
    FigureColumn(GROUP, "worst group", ".3f", "group", 7),
    FigureColumn(REGRET, "pinball regret", ".0f", "regret", 7, "{:.0f}".format),
    FigureColumn("full", "full sets", ".2%", "full", 6),
    FigureColumn("empty", "empty sets", ".2%", "none", 6),
    FigureColumn("microseconds", "µs a round", ".2f", "us", 5, _time),
)
SUMMARY = (  # of a learner over all scenarios
    FigureColumn("miss_rate", "mean miss rate", ".4f", "miss rate", 11, "{:.4f}".format),
    FigureColumn("strayed", "farthest from target", ".3f", "farthest", 10),
    FigureColumn("worst_window", "worst 1,000 rounds, mean", ".3f", "worst", 8),
    FigureColumn("worst_group", "worst group, mean", ".3f", "group", 8),
    FigureColumn("ratio", "size / best per segment", ".2f", "/seg", 8, "{:.2f}".format),
    FigureColumn("attacked", "worst against an adversary", ".3f", "attacked", 10),
)


_GATES = (  # of a gate on a scenario
    FigureColumn("accepted", "accepted", ".3f", "accepted", 10),
    FigureColumn("relative", "of best", ".3f", "of best", 9),
    FigureColumn("wrong", "wrong", ".4f", "wrong", 8, "{:.4f}".format),
)


class Line(NamedTuple):
    """A line, and its tone: "head", "kept", "broken", "faint" or none."""

    text: str
    tone: str = ""


def write_key() -> str:
    return _KEY.format(lane="compiled" if can_compile() else "interpreted")


def write_lines(contest: Contest) -> Iterator[Line]:
    if contest.is_of_gates:
        yield from _gates(contest)
        return
    if contest.late:
        yield from _late(contest.late)
        return
    for listed in contest.scenarios:
        yield from _block(contest, listed)
        yield Line("")
    yield from _refusals(contest)
    if len(contest.frontiers) > 1:
        yield from _summary(contest)
        yield Line("")
    yield from (Line(line, "faint") for line in textwrap.wrap(write_key(), _WIDTH))


def _late(late: Mapping[str, Contest]) -> Iterator[Line]:
    """Yield the tables of late answers: sizes, the worst of them, and the miss rates."""
    contests = list(late.values())
    scenarios = ", ".join(listed.name for listed in contests[0].scenarios)
    yield from (
        Line(line) for line in textwrap.wrap(f"Answers late, in batches or lost on {scenarios}")
    )
    columns: list[tuple[str, Callable[[LearnerSummary], str]]] = [
        ("size / best per segment, geometric mean", lambda one: _short(one.ratio)),
        ("the same, on the worst scenario", lambda one: _short(one.largest)),
        ("miss rate, mean", lambda one: f"{one.miss_rate:.3f}"),
        ("its largest distance from the target", lambda one: f"{one.strayed:.3f}"),
    ]
    found = summarise_late(late)
    ranked = sorted(
        found, key=lambda name: math.fsum(math.log(one.ratio) for one in found[name].values())
    )
    for title, show in columns:
        yield Line("")
        yield Line(title)
        yield Line(f"{'learner':<18}" + "".join(f"{name:>7}" for name in late), "head")
        for name in ranked:
            cells = (found[name].get(channel) for channel in late)
            yield Line(
                f"{_fit(name):<18}" + "".join(f"{show(one) if one else '-':>7}" for one in cells)
            )
    yield Line("")
    yield from _refusals(contests[0])
    yield from (Line(line, "faint") for line in textwrap.wrap(LATE_KEY, _WIDTH))


def text(contest: Contest) -> str:
    return "\n".join(line.text for line in write_lines(contest))


def _summary(contest: Contest) -> Iterator[Line]:
    yield Line("over all scenarios but the adversaries")
    yield Line(f"{'learner':<18}{'kept':>7}{_write_heads(SUMMARY)}", "head")
    for one in contest.rank():
        kept = f"{one.kept}/{one.scenarios}"
        figures = "".join(f"{c.write(getattr(one, c.figure)):>{c.width}}" for c in SUMMARY)
        tone = "kept" if one.kept == one.scenarios else "broken"
        yield Line(f"{_fit(one.learner):<18}{kept:>7}{figures}", tone)


def _gates(contest: Contest) -> Iterator[Line]:
    """Yield a line for each cell; the name of a scenario stands before its first one alone."""
    yield Line(f"{'scenario':<17}{'rule':<14}{'audited':>8}{_write_heads(_GATES)}")
    seen, alpha = "", contest.terms.alpha
    for cell in contest.cells:
        name, seen = ("" if cell.scenario == seen else cell.scenario), cell.scenario
        mark = " *" if cell.figures["wrong"].mean > 1.25 * alpha else ""
        figures = _write_figures(cell, _GATES)
        yield Line(f"{name:<17}{cell.learner:<14}{cell.audit:>8g}{figures}{mark}")
    yield Line(f"target: {alpha:g} wrong; * a quarter or more beyond it; of best: the share accepted")
    yield Line("over that of the best fixed threshold in hindsight, - where none accepts 1 %")


def _write_heads(columns: Iterable[FigureColumn]) -> str:
    return "".join(f"{column.head:>{column.width}}" for column in columns)


def _block(contest: Contest, listed: Listed) -> Iterator[Line]:
    title = f"{listed.name}: {listed.about} (size in {listed.unit})"
    yield from (Line(line) for line in textwrap.wrap(title, _WIDTH))
    cells = contest.of_scenario(listed.name)
    grouped = any(not math.isnan(cell.figures[GROUP].mean) for cell in cells)
    columns = [one for one in COLUMNS if one.figure != (REGRET if grouped else GROUP)]
    yield Line(f"{'learner':<18}{_write_heads(columns)}", "head")
    broken = False
    for cell in cells:
        if not broken and not contest.keeps(cell):
            broken = True
            yield Line(f"{'-- more misses than asked for ':-<{_WIDTH}}", "faint")
        yield Line(_write_cell(cell, columns), "broken" if broken else "kept")


def _write_cell(cell: Cell, columns: Sequence[FigureColumn]) -> str:
    rate = cell.figures[columns[0].figure]
    error = "" if math.isnan(rate.error) else f"±{rate.error:.4f}"
    return f"{_fit(cell.learner):<18}{rate.mean:>7.4f}{error:>7}{_write_figures(cell, columns[1:])}"


def _write_figures(cell: Cell, columns: Iterable[FigureColumn]) -> str:
    return "".join(f"{c.write(cell.figures[c.figure].mean):>{c.width}}" for c in columns)


def _fit(name: str) -> str:
    """Return a name of at most 18 characters that still tells what it ends in."""
    return name if len(name) <= 18 else f"{name[:12]}…{name[-5:]}"


def _refusals(contest: Contest) -> Iterator[Line]:
    """Yield why learners were not run, once for each reason; on which scenarios, if not on all."""
    reasons: dict[str, list[Cell]] = defaultdict(list)
    for cell in contest.cells:
        if cell.refusal is not None:
            reasons[cell.refusal.replace(cell.learner, "it", 1)].append(cell)
    for reason, cells in reasons.items():
        names = dict.fromkeys(cell.learner for cell in cells)
        scenarios = dict.fromkeys(cell.scenario for cell in cells)
        where = "" if len(scenarios) == len(contest.scenarios) else f" on {', '.join(scenarios)}"
        line = f"not run{where}: {', '.join(names)}: {reason}"
        yield from (Line(part, "faint") for part in textwrap.wrap(line, _WIDTH, subsequent_indent="  "))
    if reasons:
        yield Line("")
