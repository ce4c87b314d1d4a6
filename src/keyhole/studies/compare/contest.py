"""The contest: every learner on every scenario, and what each run is measured by."""

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.checks import is_whole
from keyhole.errors import FeedbackError, HorizonError, InvalidError
from keyhole.feedback import Feedback, check_enough
from keyhole.learners import DEFAULT, Learner, find, make, make_suited
from keyhole.numeric import Array
from keyhole.predictor.draws import check_seed
from keyhole.scenarios.drifts import DriftScenario
from keyhole.simulation.channel import Channel
from keyhole.simulation.simulate import simulate, simulate_against
from keyhole.simulation.simulation import Simulation
from keyhole.studies.compare import hindsight
from keyhole.studies.compare.context import judge_groups, read_context, worst_group
from keyhole.studies.compare.listing import Listed, Staged

WINDOW = 1_000
_POINTS = 60
_LEEWAY = 0.05  # of alpha: how far above it a miss rate may lie and still be called on target,
_ERRORS = 2.0  # with so many standard errors,
_MOST = 10**9  # rounds, or runs: a number for each is kept
_MOST_LEEWAY = 0.1  # but no farther than this share of alpha


def check_counts(*, rounds: int, runs: int, seed: int) -> None:
    """Raise if these are no numbers of rounds and runs that can be played, or no seed."""
    for name, count in (("rounds", rounds), ("runs", runs)):
        if not is_whole(count, least=1, most=_MOST):
            raise InvalidError(f"{name} {count} is not a whole number from 1 to {_MOST:,}")
    check_seed(seed)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What all learners have in common."""

    alpha: float
    feedback: Feedback
    rounds: int
    runs: int
    seed: int = 0
    arms: int | None = None
    channel: Channel = field(default_factory=Channel)

    def __post_init__(self) -> None:
        check_counts(rounds=self.rounds, runs=self.runs, seed=self.seed)

    def is_kept(self, rate: "Estimate") -> bool:
        """Return whether a miss rate keeps the promise: not above alpha by more than chance allows.

        A twentieth of alpha is granted, and two standard errors (of a single run, those of as many
        independent rounds), but no more than a tenth of alpha.
        """
        error = rate.error
        if math.isnan(error):
            error = math.sqrt(self.alpha * (1.0 - self.alpha) / self.rounds)
        leeway = min(_LEEWAY * self.alpha + _ERRORS * error, _MOST_LEEWAY * self.alpha)
        return rate.mean <= self.alpha + leeway


class Estimate(NamedTuple):
    """A mean over runs and its standard error, NaN for a single run."""

    mean: float
    error: float


class WindowCurve(NamedTuple):
    """Miss rate and size in equal stretches of the scenario, averaged over runs."""

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
    """One learner on one scenario: its figures, or why it was not run."""

    learner: str
    scenario: str
    figures: dict[str, Estimate]
    curve: WindowCurve | None = None
    refusal: str | None = None


@dataclass(frozen=True)
class Contest:
    """All cells, and what the best thresholds in hindsight would have done on each scenario."""

    terms: Terms
    scenarios: tuple[Listed, ...]
    cells: tuple[Cell, ...]
    frontiers: dict[str, Frontier]

    def of_scenario(self, name: str) -> list[Cell]:
        """Return the cells of a scenario that ran: who keeps the promise first, then by size."""
        ran = [cell for cell in self.cells if cell.scenario == name and cell.refusal is None]
        return sorted(ran, key=lambda cell: (not self.keeps(cell), cell.figures["size"].mean))

    def keeps(self, cell: Cell) -> bool:
        """Return whether a learner that ran keeps the promise on a scenario."""
        return self.terms.is_kept(cell.figures["miss_rate"])

    def list_refused(self, name: str) -> list[Cell]:
        """Return the cells of a scenario that were not run."""
        return [cell for cell in self.cells if cell.scenario == name and cell.refusal is not None]


def stage(scenarios: Sequence[Listed], terms: Terms) -> dict[str, list[Staged]]:
    """Return the rounds of every run of every scenario; of adversaries none, they make them up."""
    return {
        listed.name: [
            listed.build(_length(listed, terms), terms.seed + run) for run in range(terms.runs)
        ]
        if listed.build
        else []
        for listed in scenarios
    }


def hold(
    names: Sequence[str],
    scenarios: Sequence[Listed],
    terms: Terms,
    *,
    rounds_of: Mapping[str, list[Staged]] | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> Contest:
    """Play every learner on every scenario; ``told`` hears the name of each cell before it runs.

    ``rounds_of`` are those of ``stage``, for who holds several contests on the same.
    """
    check_entries(names, terms)
    cells: list[Cell] = []
    frontiers: dict[str, Frontier] = {}
    stages = stage(scenarios, terms) if rounds_of is None else rounds_of
    for listed in scenarios:
        rounds, staged = _length(listed, terms), stages[listed.name]
        judged = [judge_groups(one.scenario) for one in staged]
        if staged:
            frontiers[listed.name] = _frontier(staged[0], terms.alpha)
        for name in names:
            told(f"{name} on {listed.name}")
            cells.append(_cell(name, listed, staged, rounds, terms, judged=judged))
    return Contest(terms, tuple(scenarios), tuple(cells), frontiers)


def check_entries(names: Sequence[str], terms: Terms) -> None:
    """Raise for a name or an alpha that cannot be, before rounds are made, which takes a while."""
    make(DEFAULT, alpha=terms.alpha)
    for name in names:
        find(name)


def _length(listed: Listed, terms: Terms) -> int:
    return min(terms.rounds, listed.rounds or terms.rounds)


def _frontier(staged: Staged, alpha: float) -> Frontier:
    rates = alpha * np.linspace(0.25, 3.0, 23)
    scores, sizes = staged.scenario.scores, staged.scenario.sizes
    means = [
        sizes(hindsight.best_per_segment(scores, rate, staged.changes)).mean()
        for rate in (alpha, *rates)
    ]
    return Frontier(rates, np.array(means[1:]) / means[0] if means[0] > 0.0 else rates * math.nan)


def _cell(
    name: str,
    listed: Listed,
    staged: list[Staged],
    rounds: int,
    terms: Terms,
    *,
    judged: list[NDArray[np.bool_]],
) -> Cell:
    try:
        learner = make_suited(
            name, alpha=terms.alpha, horizon=rounds, arms=terms.arms, context=_count_context(staged)
        )
        check_enough(learner.name, learner.needs, terms.feedback)
    except (FeedbackError, HorizonError) as error:
        return Cell(name, listed.name, {}, refusal=str(error))
    run, microseconds = _time(learner, listed, staged, rounds, terms)
    played = staged or [Staged(DriftScenario(scores, (0,)), (0,)) for scores in run.scores]
    measured = [_measure(run, number, one, terms) for number, one in enumerate(played)]
    sizes = np.stack([sizes for _, sizes in measured])
    figures = {key: _figure([m[key] for m, _ in measured]) for key in measured[0][0]}
    worst = [worst_group(run.misses[n], own, terms.alpha) for n, own in enumerate(judged)]
    figures["worst_group"] = _figure(worst or [math.nan])
    figures["microseconds"] = Estimate(microseconds, math.nan)
    return Cell(name, listed.name, figures, curve=_curve(run.misses, sizes))


def _time(
    learner: Learner, listed: Listed, staged: list[Staged], rounds: int, terms: Terms
) -> tuple[Simulation, float]:
    """Return the runs, and the time that one of them takes alone, once compiled, for each round."""

    def play(runs: int) -> Simulation:
        common = {"seed": terms.seed, "feedback": terms.feedback, "channel": terms.channel}
        if listed.build is None:
            return simulate_against(learner, listed.name, rounds=rounds, runs=runs, **common)  # type: ignore[arg-type]
        table = np.stack([one.scenario.scores for one in staged[:runs]])
        known = _stack_context(learner, staged[:runs])
        return simulate(learner, table, **known, **common)  # type: ignore[arg-type]

    run = play(terms.runs)
    began = time.perf_counter()
    play(1)
    return run, (time.perf_counter() - began) / rounds * 1e6


def _count_context(staged: list[Staged]) -> dict[str, int]:
    """Return how many features and groups there are."""
    known = read_context(staged[0].scenario) if staged else {}
    return {name: table.shape[1] for name, table in known.items()}


def _stack_context(learner: Learner, staged: list[Staged]) -> dict[str, Array]:
    """Return what the learner takes of the runs' features and groups."""
    known = [read_context(one.scenario) for one in staged]
    taken = {"features": learner.features, "groups": learner.groups}
    return {name: np.stack([one[name] for one in known]) for name in known[0] if taken[name]}


def _measure(
    run: Simulation, number: int, staged: Staged, terms: Terms
) -> tuple[dict[str, float], Array]:
    """Return the figures of one run, and the size of its every set."""
    scores, thresholds = run.scores[number], run.thresholds[number]
    sizes = staged.scenario.sizes(thresholds)
    largest = staged.scenario.sizes(np.zeros(scores.size))
    fixed = np.full(scores.size, hindsight.best_threshold(scores, terms.alpha))
    segments = hindsight.best_per_segment(scores, terms.alpha, staged.changes)
    figures = {
        "miss_rate": float(run.misses[number].mean()),
        "worst_window": hindsight.worst_window(run.misses[number], WINDOW),
        "size": float(sizes.mean()),
        "size_to_best_fixed": _ratio(sizes, staged.scenario.sizes(fixed)),
        "size_to_best_per_segment": _ratio(sizes, staged.scenario.sizes(segments)),
        "pinball_regret": hindsight.pinball_regret(thresholds, scores, terms.alpha),
        "full": float((sizes >= largest).mean()),
        "empty": float(((thresholds > 1.0) | (sizes == 0.0)).mean()),
    }
    return figures, sizes


def _ratio(sizes: Array, best: Array) -> float:
    return float(sizes.mean() / best.mean()) if best.mean() > 0.0 else math.nan


def _figure(values: list[float]) -> Estimate:
    mean = float(np.mean(values))
    if len(values) < 2:
        return Estimate(mean, math.nan)
    return Estimate(mean, float(np.std(values, ddof=1) / math.sqrt(len(values))))


def _curve(misses: NDArray[np.bool_], sizes: Array) -> WindowCurve:
    rounds = misses.shape[1]
    ends = np.unique(np.linspace(0, rounds, min(_POINTS, rounds) + 1).astype(int))
    parts = [slice(int(start), int(end)) for start, end in itertools.pairwise(ends)]
    return WindowCurve(
        rounds=ends[1:].astype(np.float64),
        miss_rates=np.array([misses[:, part].mean() for part in parts]),
        sizes=np.array([sizes[:, part].mean() for part in parts]),
    )
