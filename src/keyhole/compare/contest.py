"""The contest: every learner on every stream, and what each run is measured by."""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.channel import Channel
from keyhole.compare import hindsight
from keyhole.compare.listing import Listed, Staged
from keyhole.errors import FeedbackError, HorizonError, InvalidError
from keyhole.feedback import Regime, check_enough
from keyhole.grid import Array
from keyhole.learners import Learner, make
from keyhole.simulate import Simulation, simulate, simulate_against
from keyhole.streams.drifts import DriftStream

WINDOW = 1_000
_POINTS = 60


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What all learners have in common."""

    alpha: float
    regime: Regime
    rounds: int
    runs: int
    seed: int = 0
    arms: int | None = None
    channel: Channel = field(default_factory=Channel)

    def __post_init__(self) -> None:
        for name in ("rounds", "runs"):
            if getattr(self, name) < 1:
                raise InvalidError(f"{name} {getattr(self, name)} is not a number of at least 1")


class Figure(NamedTuple):
    """A mean over runs and its standard error, NaN for a single run."""

    mean: float
    error: float


class Curve(NamedTuple):
    """Miss rate and size in equal stretches of the stream, averaged over runs."""

    rounds: Array
    miss_rates: Array
    sizes: Array


class Frontier(NamedTuple):
    """How small sets could be at each miss rate, thresholds being fixed on each segment in hindsight.

    ``sizes`` are relative to those at the target.
    """

    miss_rates: Array
    sizes: Array


@dataclass(frozen=True)
class Cell:
    """One learner on one stream: its figures, or why it was not run."""

    learner: str
    stream: str
    figures: dict[str, Figure]
    curve: Curve | None = None
    refusal: str | None = None


@dataclass(frozen=True)
class Contest:
    """All cells, and what the best thresholds in hindsight would have done on each stream."""

    terms: Terms
    streams: tuple[Listed, ...]
    cells: tuple[Cell, ...]
    frontiers: dict[str, Frontier]

    def of_stream(self, name: str) -> list[Cell]:
        """Return the cells of a stream, those that ran, by how close they come to the best."""
        ran = [cell for cell in self.cells if cell.stream == name and cell.refusal is None]
        return sorted(ran, key=lambda cell: cell.figures["size"].mean)

    def refused(self, name: str) -> list[Cell]:
        """Return the cells of a stream that were not run."""
        return [cell for cell in self.cells if cell.stream == name and cell.refusal is not None]


def hold(
    names: Sequence[str],
    streams: Sequence[Listed],
    terms: Terms,
    *,
    told: Callable[[str], None] = lambda _: None,
) -> Contest:
    """Play every learner on every stream; ``told`` hears the name of each cell before it runs."""
    cells: list[Cell] = []
    frontiers: dict[str, Frontier] = {}
    for listed in streams:
        rounds = min(terms.rounds, listed.rounds or terms.rounds)
        staged = _staged(listed, rounds, terms)
        if staged:
            frontiers[listed.name] = _frontier(staged[0], terms.alpha)
        for name in names:
            told(f"{name} on {listed.name}")
            cells.append(_cell(name, listed, staged, rounds, terms))
    return Contest(terms, tuple(streams), tuple(cells), frontiers)


def _staged(listed: Listed, rounds: int, terms: Terms) -> list[Staged]:
    if listed.build is None:
        return []
    return [listed.build(rounds, terms.seed + run) for run in range(terms.runs)]


def _frontier(staged: Staged, alpha: float) -> Frontier:
    rates = alpha * np.linspace(0.25, 3.0, 23)
    scores, sizes = staged.stream.scores, staged.stream.sizes
    means = [
        sizes(hindsight.best_per_segment(scores, rate, staged.changes)).mean()
        for rate in (alpha, *rates)
    ]
    return Frontier(rates, np.array(means[1:]) / means[0] if means[0] > 0.0 else rates * math.nan)


def _cell(name: str, listed: Listed, staged: list[Staged], rounds: int, terms: Terms) -> Cell:
    try:
        learner = make(name, alpha=terms.alpha, horizon=rounds, arms=terms.arms)
        check_enough(learner.name, learner.needs, terms.regime)
    except (FeedbackError, HorizonError) as error:
        return Cell(name, listed.name, {}, refusal=str(error))
    run, microseconds = _timed(learner, listed, staged, rounds, terms)
    played = staged or [Staged(DriftStream(scores, (0,)), (0,)) for scores in run.scores]
    measured = [_measured(run, number, one, terms) for number, one in enumerate(played)]
    sizes = np.stack([sizes for _, sizes in measured])
    figures = {key: _figure([m[key] for m, _ in measured]) for key in measured[0][0]}
    figures["microseconds"] = Figure(microseconds, math.nan)
    return Cell(name, listed.name, figures, curve=_curve(run.misses, sizes))


def _timed(
    learner: Learner, listed: Listed, staged: list[Staged], rounds: int, terms: Terms
) -> tuple[Simulation, float]:
    """Return the runs, and the time that one of them takes alone, compiled, for each round."""

    def play(runs: int) -> Simulation:
        common = {"seed": terms.seed, "regime": terms.regime, "channel": terms.channel}
        if listed.build is None:
            return simulate_against(learner, listed.name, rounds=rounds, runs=runs, **common)  # type: ignore[arg-type]
        table = np.stack([one.stream.scores for one in staged[:runs]])
        return simulate(learner, table, **common)  # type: ignore[arg-type]

    run = play(terms.runs)
    began = time.perf_counter()
    play(1)
    return run, (time.perf_counter() - began) / rounds * 1e6


def _measured(
    run: Simulation, number: int, staged: Staged, terms: Terms
) -> tuple[dict[str, float], Array]:
    """Return the figures of one run, and the size of its every set."""
    scores, thresholds = run.scores[number], run.thresholds[number]
    sizes = staged.stream.sizes(thresholds)
    largest = staged.stream.sizes(np.zeros(scores.size))
    fixed = np.full(scores.size, hindsight.best_threshold(scores, terms.alpha))
    segments = hindsight.best_per_segment(scores, terms.alpha, staged.changes)
    figures = {
        "miss_rate": float(run.misses[number].mean()),
        "worst_window": hindsight.worst_window(run.misses[number], WINDOW),
        "size": float(sizes.mean()),
        "size_to_best_fixed": _ratio(sizes, staged.stream.sizes(fixed)),
        "size_to_best_per_segment": _ratio(sizes, staged.stream.sizes(segments)),
        "pinball_regret": hindsight.pinball_regret(thresholds, scores, terms.alpha),
        "full": float((sizes >= largest).mean()),
        "empty": float(((thresholds > 1.0) | (sizes == 0.0)).mean()),
    }
    return figures, sizes


def _ratio(sizes: Array, best: Array) -> float:
    return float(sizes.mean() / best.mean()) if best.mean() > 0.0 else math.nan


def _figure(values: list[float]) -> Figure:
    mean = float(np.mean(values))
    if len(values) < 2:
        return Figure(mean, math.nan)
    return Figure(mean, float(np.std(values, ddof=1) / math.sqrt(len(values))))


def _curve(misses: NDArray[np.bool_], sizes: Array) -> Curve:
    rounds = misses.shape[1]
    ends = np.unique(np.linspace(0, rounds, min(_POINTS, rounds) + 1).astype(int))
    parts = [slice(int(start), int(end)) for start, end in itertools.pairwise(ends)]
    return Curve(
        rounds=ends[1:].astype(np.float64),
        miss_rates=np.array([misses[:, part].mean() for part in parts]),
        sizes=np.array([sizes[:, part].mean() for part in parts]),
    )
