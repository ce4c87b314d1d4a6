"""The pictures of the page: coverage against size, and every stream over time."""

import math
from collections.abc import Sequence

import numpy as np

from keyhole.compare.contest import Cell, Contest, Curve
from keyhole.compare.standings import RATIO, Standing, standings
from keyhole.compare.svg import Plot, Scale
from keyhole.grid import Array

FOCUS = ("logit-tracker", "tracker", "unlock-hedge", "self-scaled", "ocp-unlock+", "sps")
_LARGEST = 100.0
_LETTER = 7.3  # the width of a letter of a label, in pixels


def slug(learner: str) -> str:
    """Return the learner's name as a class of the style sheet."""
    return "l-" + learner.replace("+", "-plus")


def field(contest: Contest) -> str:
    """Return the picture of all learners on all streams."""
    alpha = contest.terms.alpha
    x = Scale(0.0, 3.0 * alpha, 62, 700)
    y = Scale(0.7, _LARGEST, 440, 26, logarithmic=True)
    plot = Plot(720, 490, x, y)
    plot.ticks([alpha * n / 2 for n in range(7)], [0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100])
    _target(plot, alpha)
    _frontier(plot, contest)
    _dots(plot, contest)
    _means(plot, standings(contest), crowded=(alpha * 0.85, alpha * 1.2, 1.5))
    _axes(plot, "miss rate", "set size, times the best threshold per segment in hindsight")
    return plot.text(title="miss rate and set size of every learner on every stream")


def near_target(contest: Contest) -> str:
    """Return the same picture near the target, where the good ones crowd."""
    alpha = contest.terms.alpha
    x = Scale(0.85 * alpha, 1.2 * alpha, 62, 440)
    y = Scale(0.9, 1.5, 440, 26, logarithmic=True)
    plot = Plot(460, 490, x, y)
    plot.ticks([alpha * n for n in (0.9, 1.0, 1.1, 1.2)], [0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5])
    _target(plot, alpha)
    _frontier(plot, contest)
    _means(plot, [s for s in standings(contest) if x.holds(s.miss_rate) and y.holds(s.ratio)])
    _axes(plot, "miss rate, mean over streams", "")
    return plot.text(title="the learners near the target")


def _target(plot: Plot, alpha: float) -> None:
    plot.line([(alpha, plot.y.low), (alpha, plot.y.high)], "target")
    plot.words(plot.x(alpha) + 6, plot.y.end + 12, f"target {alpha:g}", "target-word")


def _axes(plot: Plot, across: str, up: str) -> None:
    plot.words((plot.x.start + plot.x.end) / 2, plot.y.start + 38, across, "axis", anchor="middle")
    plot.words(plot.x.start - 44, plot.y.end - 10, up, "axis")


def _frontier(plot: Plot, contest: Contest) -> None:
    """Draw what fixed thresholds per segment could do in hindsight, on the mean stream."""
    curves = [f.sizes for f in contest.frontiers.values() if np.isfinite(f.sizes).all()]
    if not curves:
        return
    rates = next(iter(contest.frontiers.values())).miss_rates
    sizes = np.exp(np.log(np.maximum(curves, 1e-3)).mean(axis=0))
    points = [(x, y) for x, y in zip(rates, sizes, strict=True) if plot.x.holds(x) and plot.y.holds(y)]
    if len(points) < 2:
        return
    floor = [(points[-1][0], plot.y.low), (points[0][0], plot.y.low)]
    plot.area([*points, *floor], "beyond")
    plot.line(points, "frontier")
    plot.words(plot.x(points[0][0]) + 4, plot.y(plot.y.low) - 8, "only in hindsight", "beyond-word")


def _dots(plot: Plot, contest: Contest) -> None:
    for cell in contest.cells:
        if cell.stream not in contest.frontiers or cell.refusal is not None:
            continue
        rate, ratio = cell.figures["miss_rate"].mean, cell.figures[RATIO].mean
        words = f"{cell.learner} on {cell.stream}: misses {rate:.3f}, size {ratio:.2f} x best"
        plot.dot(rate, ratio, f"dot {slug(cell.learner)}", size=3.2, title=words, tag=cell.learner)


def _means(
    plot: Plot, shown: Sequence[Standing], *, crowded: tuple[float, float, float] | None = None
) -> None:
    """Draw a ring for each learner's mean, with its name where there is room.

    ``crowded`` (from, to, below) is a region whose names another picture shows.
    """
    taken = [(plot.x(one.miss_rate) - 8.0, plot.y(one.ratio), 16.0) for one in shown]
    for one in shown:
        x, y = plot.x(one.miss_rate), plot.y(one.ratio)
        words = f"{one.learner}: misses {one.miss_rate:.4f}, {one.ratio:.2f} x best, mean of all"
        kind = slug(one.learner)
        plot.dot(one.miss_rate, one.ratio, f"mean {kind}", size=6.5, title=words, tag=one.learner)
        if crowded and crowded[0] < one.miss_rate < crowded[1] and one.ratio < crowded[2]:
            continue
        place = _room(x, y, len(one.learner) * _LETTER, taken, plot.x.end)
        if place is not None:
            taken.append((place[0], place[1], len(one.learner) * _LETTER))
            plot.words(place[0], place[1] + 4, one.learner, f"name {kind}", tag=one.learner)


def _room(
    x: float, y: float, width: float, taken: list[tuple[float, float, float]], end: float
) -> tuple[float, float] | None:
    """Return a place beside a dot that no other name takes."""
    for shift in (0, -13, 13, -26, 26, -39, 39, 52, -52, 65):
        for left in (x + 11, x - 11 - width):
            fits = left > 62 and left + width < end + 16
            free = all(abs(y + shift - b) > 12 or left + width < a or a + w < left for a, b, w in taken)
            if fits and free:
                return left, y + shift
    return None


def over_time(contest: Contest, stream: str) -> str:
    """Return the miss rates of a stream over time, and below them the sizes."""
    cells = [cell for cell in contest.of_stream(stream) if cell.curve is not None]
    return _panel(contest, cells, "miss_rates") + _panel(contest, cells, "sizes")


def _panel(contest: Contest, cells: list[Cell], name: str) -> str:
    alpha = contest.terms.alpha
    curves = {cell.learner: cell.curve for cell in cells if cell.curve is not None}
    values = [getattr(curve, name) for curve in curves.values()]
    y = _rates(alpha) if name == "miss_rates" else _sizes(values)
    last = max(curve.rounds[-1] for curve in curves.values())
    plot = Plot(380, 132, Scale(0.0, last, 40, 374), y)
    plot.ticks([], _few_ticks(y, alpha if name == "miss_rates" else None), form="g")
    if name == "miss_rates":
        plot.line([(0.0, alpha), (last, alpha)], "target")
    for learner in sorted(curves, key=lambda one: one in FOCUS):
        kind = f"curve {slug(learner)}" + ("" if learner in FOCUS else " other")
        plot.line(_points(curves[learner], name), kind, tag=learner)
    plot.words(40, 10, "miss rate" if name == "miss_rates" else "set size", "panel-word")
    return plot.text(title=f"{name.replace('_', ' ')} over time")


def _points(curve: Curve, name: str) -> list[tuple[float, float]]:
    return list(zip(curve.rounds.tolist(), getattr(curve, name).tolist(), strict=True))


def _rates(alpha: float) -> Scale:
    return Scale(0.0, 4.0 * alpha, 118, 16)


def _sizes(values: Sequence[Array]) -> Scale:
    known = np.concatenate(values)
    high = float(np.nanmax(known)) * 1.1 or 1.0
    low = max(float(np.nanquantile(known, 0.02)) * 0.8, high * 1e-4)
    if high / low > 12.0:
        return Scale(low, high, 118, 16, logarithmic=True)
    return Scale(0.0, high, 118, 16)


def _few_ticks(scale: Scale, alpha: float | None) -> list[float]:
    if alpha is not None:
        return [0.0, alpha, 2 * alpha, 4 * alpha]
    if scale.logarithmic:
        powers = range(math.ceil(math.log10(scale.low)), math.floor(math.log10(scale.high)) + 1)
        return [10.0**power for power in powers]
    step = 10.0 ** math.floor(math.log10(scale.high))
    step = step if scale.high / step >= 2 else step / 2
    return [step * n for n in range(int(scale.high / step) + 1)][:: max(1, int(scale.high / step) // 3)]
