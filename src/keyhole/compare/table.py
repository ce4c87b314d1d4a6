"""The contest in a terminal: one block a stream, 80 columns wide."""

import math
import textwrap
from collections import defaultdict

from keyhole.compare.contest import Cell, Contest, Figure
from keyhole.compare.standings import standings

_WIDTH = 80
_HEAD = (
    f"{'learner':<17}{'miss rate':>14}{'worst':>6}{'size':>7}{'/fix':>6}{'/seg':>6}"
    f"{'regret':>7}{'full':>6}{'none':>6}{'us':>5}"
)
KEY = (
    "miss rate ± standard error; worst: in any 1,000 rounds in a row; size: mean of the sets; /fix, "
    "/seg: its ratio to that of the best fixed threshold in hindsight, for the whole stream or each "
    "segment; regret: pinball loss beyond the best fixed threshold's; full, none: share of sets that "
    "hold every label, or none; us: microseconds a round, compiled, on this machine. Over all "
    "streams: means, /seg a geometric one; farthest: the miss rate's largest distance from the target "
    "on any stream; attacked: the worst miss rate against an adversary."
)


def text(contest: Contest) -> str:
    """Return the tables of all streams."""
    blocks = [_block(contest, listed.name) for listed in contest.streams]
    if len(contest.frontiers) > 1:
        blocks.append(_summary(contest))
    return "\n\n".join(blocks)


def _summary(contest: Contest) -> str:
    lines = [
        "over all streams but the adversaries, by size",
        f"{'learner':<17}{'miss rate':>10}{'farthest':>10}{'worst':>8}{'/seg':>8}{'attacked':>10}",
    ]
    lines += [
        f"{one.learner:<17.17}{one.miss_rate:>10.4f}{one.strayed:>10.3f}{one.worst_window:>8.3f}"
        f"{one.ratio:>8.2f}{'-' if math.isnan(one.attacked) else f'{one.attacked:.3f}':>10}"
        for one in standings(contest)
    ]
    return "\n".join(lines)


def _block(contest: Contest, stream: str) -> str:
    about = next(listed for listed in contest.streams if listed.name == stream)
    title = f"{stream}: {about.about} (size in {about.unit})"
    lines = [*textwrap.wrap(title, _WIDTH), _HEAD]
    lines += [_line(cell) for cell in contest.of_stream(stream)]
    return "\n".join([*lines, *_refusals(contest.refused(stream))])


def _line(cell: Cell) -> str:
    means = {name: figure.mean for name, figure in cell.figures.items()}
    return (
        f"{cell.learner:<17.17}{means['miss_rate']:>7.4f}{_error(cell.figures['miss_rate']):>7}"
        f"{means['worst_window']:>6.3f}{_short(means['size']):>7}"
        f"{_short(means['size_to_best_fixed']):>6}{_short(means['size_to_best_per_segment']):>6}"
        f"{means['pinball_regret']:>7.0f}{means['full']:>6.3f}{means['empty']:>6.3f}"
        f"{means['microseconds']:>5.1f}"
    )


def _error(figure: Figure) -> str:
    return "" if math.isnan(figure.error) else f"±{figure.error:.4f}"


def _short(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _refusals(cells: list[Cell]) -> list[str]:
    """Return why the others were not run, once for each reason."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for cell in cells:
        reasons[(cell.refusal or "").replace(cell.learner, "it", 1)].append(cell.learner)
    lines = [f"not run: {', '.join(names)}: {reason}" for reason, names in reasons.items()]
    return [part for line in lines for part in textwrap.wrap(line, _WIDTH, subsequent_indent="  ")]
