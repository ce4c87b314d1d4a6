"""Every learner on every scenario: what each run is measured by, how the learners rank, and as JSON."""

import itertools
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.checks import is_whole
from keyhole.errors import FeedbackError, HorizonError, InvalidError
from keyhole.feedback import Feedback, check_enough, check_feedback
from keyhole.learners import DEFAULT, LEARNERS, Learner, find, make, make_suited
from keyhole.numeric import Array
from keyhole.predictor.draws import check_seed
from keyhole.scenarios import Scenario
from keyhole.scenarios.drifts import DriftScenario
from keyhole.simulation.channel import Channel
from keyhole.simulation.metrics import window_mean
from keyhole.simulation.simulate import Simulation, simulate, simulate_against
from keyhole.studies.compare.listing import (
    Listed,
    list_scenarios,
    pick_scenarios,
    read_log,
)

RATIO = "size_to_best_per_segment"
WINDOW = 1_000
FEWEST = 500  # rounds of a group that is judged
_PARTS = 3
_POINTS = 60
_LEEWAY = 0.05  # of alpha: how far above it a miss rate may lie and still be called on target,
_ERRORS = 2.0  # with so many standard errors,
_MOST_LEEWAY = 0.1  # but no farther than this share of alpha
_MOST = 10**9  # rounds, or runs: a number for each is kept


def read_context(scenario: Scenario) -> dict[str, Array]:
    """Return the features and the groups of every round, as far as the scenario has any."""
    known = {name: getattr(scenario, name, None) for name in ("features", "groups")}
    return {
        name: np.asarray(table, dtype=np.float64) for name, table in known.items() if table is not None
    }


def judge_groups(scenario: Scenario) -> NDArray[np.bool_]:
    """Return a column for every group of rounds that is judged: the scenario's, thirds of features."""
    known = read_context(scenario)
    columns = list(known["groups"].T > 0.0) if "groups" in known else []
    for values in known.get("features", np.empty((0, 0))).T:
        edges = np.quantile(values[np.isfinite(values)], [part / _PARTS for part in range(1, _PARTS)])
        parts = np.where(np.isfinite(values), np.searchsorted(edges, values), _PARTS)
        columns += [parts == part for part in range(_PARTS + 1)]  # the last are those missing
    judged = [column for column in columns if column.sum() >= FEWEST]
    return np.column_stack(judged) if judged else np.empty((scenario.scores.size, 0), dtype=np.bool_)


def worst_group(misses: NDArray[np.bool_], members: NDArray[np.bool_], alpha: float) -> float:
    """Return the largest distance of a group's miss rate from alpha; NaN where no group is judged."""
    return max((abs(float(misses[own].mean()) - alpha) for own in members.T), default=math.nan)


def best_threshold(scores: Array, alpha: float) -> float:
    """Return the largest threshold that misses no more than alpha of these scores."""
    allowed = int(np.floor(alpha * scores.size + 1e-9))
    return float(np.partition(scores, allowed)[allowed]) if allowed < scores.size else 1.0


def best_per_segment(scores: Array, alpha: float, changes: Sequence[int]) -> Array:
    thresholds = np.empty(scores.size)
    for start, end in zip(changes, (*changes[1:], scores.size), strict=True):
        thresholds[start:end] = best_threshold(scores[start:end], alpha)
    return thresholds


def pinball(thresholds: Array, scores: Array, alpha: float) -> float:
    """Return the sum of pinball losses of thresholds kept within [0, 1]."""
    played = np.clip(thresholds, 0.0, 1.0)
    return float(np.maximum((1.0 - alpha) * (played - scores), alpha * (scores - played)).sum())


def pinball_regret(thresholds: Array, scores: Array, alpha: float) -> float:
    """Return how much more was lost than by the best fixed threshold: a quantile of the scores."""
    quantile = np.quantile(scores, alpha, method="inverted_cdf")
    return pinball(thresholds, scores, alpha) - pinball(np.full(1, quantile), scores, alpha)


def worst_window(misses: Array, length: int) -> float:
    """Return the largest share of misses in any so many rounds in a row."""
    return float(window_mean(misses, min(length, misses.size)).max())


@dataclass(frozen=True, kw_only=True)
class Terms:
    alpha: float
    rounds: int
    runs: int
    seed: int = 0
    feedback: str = Feedback.SEMI_BANDIT
    arms: int | None = None
    channel: Channel = field(default_factory=Channel)

    def __post_init__(self) -> None:
        for name, count in (("rounds", self.rounds), ("runs", self.runs)):
            if not is_whole(count, least=1, most=_MOST):
                raise InvalidError(f"{name} {count} is not a whole number from 1 to {_MOST:,}")
        check_seed(self.seed)
        object.__setattr__(self, "feedback", check_feedback(self.feedback))

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
    """One learner on one scenario: its figures, or why it was not run.

    ``audit`` is the share of accepted answers that are judged, where answers are accepted.
    """

    learner: str
    scenario: str
    figures: dict[str, Estimate]
    curve: WindowCurve | None = None
    refusal: str | None = None
    audit: float | None = None


@dataclass(frozen=True)
class Contest:
    """All cells; of sets also what the best thresholds in hindsight would do on each scenario.

    Examples
    --------
    >>> from keyhole import compare
    >>> contest = compare(["kt"], ["steady"], rounds=1_000, runs=2)
    >>> round(contest.of_scenario("steady")[0].figures["miss_rate"].mean, 3)
    0.137
    """

    terms: Terms
    scenarios: tuple[Listed, ...]
    cells: tuple[Cell, ...]
    frontiers: dict[str, Frontier] = field(default_factory=dict)
    promised: str = "miss_rate"  # the figure that alpha is asked of; of gates it is "wrong"
    late: Mapping[str, "Contest"] = field(default_factory=dict, repr=False)  # by channel

    @property
    def is_of_gates(self) -> bool:
        """Whether gates were compared, of which alpha is asked of the answers accepted."""
        return self.promised == "wrong"

    def of_scenario(self, name: str) -> list[Cell]:
        """Return the cells of a scenario that ran: who keeps the promise first, then by size."""
        ran = [cell for cell in self.cells if cell.scenario == name and cell.refusal is None]
        return sorted(ran, key=lambda cell: (not self.keeps(cell), cell.figures["size"].mean))

    def keeps(self, cell: Cell) -> bool:
        """Return whether a learner that ran keeps the promise on a scenario."""
        return self.terms.is_kept(cell.figures[self.promised])

    def list_refused(self, name: str) -> list[Cell]:
        """Return the cells of a scenario that did not run; their ``refusal`` says why."""
        return [cell for cell in self.cells if cell.scenario == name and cell.refusal is not None]

    def rank(self) -> list["LearnerSummary"]:
        """Return the learners that ran: who keeps the promise most often first, then by size."""
        ran: dict[str, list[Cell]] = {}
        for cell in self.cells:
            if cell.refusal is None:
                ran.setdefault(cell.learner, []).append(cell)
        every = [_summarise(name, cells, self) for name, cells in ran.items()]
        return sorted(
            (one for one in every if one is not None),
            key=lambda one: (-one.kept / one.scenarios, one.ratio, one.learner),
        )

    def make_rows(self) -> list[dict[str, object]]:
        """Return a row for each cell that ran, as a table takes them: every figure and its error."""
        return [
            {"scenario": cell.scenario, "learner": cell.learner, "keeps_promise": self.keeps(cell)}
            | {name: figure.mean for name, figure in cell.figures.items()}
            | {f"{name}_error": figure.error for name, figure in cell.figures.items()}
            for cell in self.cells
            if cell.refusal is None
        ]


def compare(
    learners: Sequence[str] | None = None,
    scenarios: Sequence[str | Path] | None = None,
    *,
    alpha: float = 0.1,
    rounds: int = 10_000,
    runs: int = 5,
    seed: int = 0,
    feedback: str = Feedback.SEMI_BANDIT,
    arms: int | None = None,
    channel: Channel | None = None,
) -> Contest:
    """Play learners on scenarios, several runs each, as ``keyhole compare`` does.

    Parameters
    ----------
    learners
        Their names, those of ``keyhole.register`` included; all of ``keyhole.LEARNERS`` by default.
    scenarios
        Names that ``keyhole compare --list`` prints, or paths of logs; all by default.
    alpha
        The target miss rate.
    rounds, runs, seed
        How many rounds a run has, how many runs there are, and the seed of the first.
    feedback
        What answers reveal: "bandit", "semi-bandit" or "full".
    arms
        How many thresholds a learner chooses from that has a grid; its own number by default.
    channel
        What may happen to answers before they arrive; by default nothing.

    Examples
    --------
    >>> contest = compare(["kt", "logit-tracker"], ["steady"], rounds=1_000, runs=2)
    >>> [one.learner for one in contest.rank()]
    ['logit-tracker', 'kt']
    """
    terms = Terms(
        alpha=alpha, rounds=rounds, runs=runs, seed=seed, feedback=feedback, arms=arms,
        channel=Channel() if channel is None else channel,
    )  # fmt: skip
    known = list_scenarios()
    entered: list[Listed] = []
    for one in list(known) if scenarios is None else scenarios:
        entered += read_log(one) if isinstance(one, Path) else pick_scenarios([one], known)
    return run_contest(list(LEARNERS) if learners is None else learners, entered, terms)


def draw_rounds(scenarios: Sequence[Listed], terms: Terms) -> dict[str, list[Scenario]]:
    """Return the rounds of every run of every scenario; of adversaries none, they make them up."""
    return {
        listed.name: [
            listed.build(_length(listed, terms), seed=terms.seed + n) for n in range(terms.runs)
        ]
        if listed.build
        else []
        for listed in scenarios
    }


def run_contest(
    names: Sequence[str],
    scenarios: Sequence[Listed],
    terms: Terms,
    *,
    drawn: Mapping[str, list[Scenario]] | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Contest:
    """Play every learner on every scenario; ``report`` gets the name of each cell before it runs.

    ``drawn`` are the rounds of ``draw_rounds``, for several contests on the same.
    """
    check_entries(names, terms)
    cells: list[Cell] = []
    frontiers: dict[str, Frontier] = {}
    drawn = draw_rounds(scenarios, terms) if drawn is None else drawn
    for listed in scenarios:
        staged = drawn[listed.name]
        judged = [judge_groups(one) for one in staged]
        if staged:
            frontiers[listed.name] = _frontier(staged[0], terms.alpha)
        for name in names:
            report(f"{name} on {listed.name}")
            cells.append(_cell(name, listed, staged, terms, judged=judged))
    return Contest(terms, tuple(scenarios), tuple(cells), frontiers)


def check_entries(names: Sequence[str], terms: Terms) -> None:
    """Raise for a name or an alpha that cannot be, before rounds are made, which takes a while."""
    make(DEFAULT, alpha=terms.alpha)
    for name in names:
        find(name)


def _length(listed: Listed, terms: Terms) -> int:
    return min(terms.rounds, listed.rounds or terms.rounds)


def _frontier(staged: Scenario, alpha: float) -> Frontier:
    rates = alpha * np.linspace(0.25, 3.0, 23)
    scores, sizes = staged.scores, staged.sizes
    means = [sizes(best_per_segment(scores, rate, staged.changes)).mean() for rate in (alpha, *rates)]
    return Frontier(rates, np.array(means[1:]) / means[0] if means[0] > 0.0 else rates * math.nan)


def _cell(
    name: str,
    listed: Listed,
    staged: list[Scenario],
    terms: Terms,
    *,
    judged: list[NDArray[np.bool_]],
) -> Cell:
    try:
        learner = make_entrant(name, listed, staged, terms)
    except (FeedbackError, HorizonError) as error:
        return Cell(name, listed.name, {}, refusal=str(error))
    run = play_entrant(learner, listed, staged, terms)
    began = time.perf_counter()  # of one run alone, now that all is compiled
    play_entrant(learner, listed, staged[:1], replace(terms, runs=1))
    microseconds = (time.perf_counter() - began) / run.scores.shape[1] * 1e6
    played = staged or [DriftScenario(scores) for scores in run.scores]
    measured = [_measure(run, number, one, terms) for number, one in enumerate(played)]
    sizes = np.stack([sizes for _, sizes in measured])
    figures = {key: estimate([m[key] for m, _ in measured]) for key in measured[0][0]}
    worst = [worst_group(run.misses[n], own, terms.alpha) for n, own in enumerate(judged)]
    figures["worst_group"] = estimate(worst or [math.nan])
    figures["microseconds"] = Estimate(microseconds, math.nan)
    return Cell(name, listed.name, figures, curve=_curve(run.misses, sizes))


def make_entrant(name: str, listed: Listed, staged: list[Scenario], terms: Terms) -> Learner:
    """Return a learner by name, made for these rounds, or raise if they tell it too little."""
    known = read_context(staged[0]) if staged else {}
    learner = make_suited(
        name, alpha=terms.alpha, horizon=_length(listed, terms), arms=terms.arms,
        context={name: table.shape[1] for name, table in known.items()},
    )  # fmt: skip
    check_enough(learner.name, learner.needs, check_feedback(terms.feedback))
    return learner


def play_entrant(learner: Learner, listed: Listed, staged: list[Scenario], terms: Terms) -> Simulation:
    common = {"seed": terms.seed, "feedback": terms.feedback, "channel": terms.channel}
    if listed.build is None:
        rounds, runs = terms.rounds, terms.runs
        return simulate_against(learner, listed.name, rounds=rounds, runs=runs, **common)  # type: ignore[arg-type]
    known = [read_context(one) for one in staged]
    taken = {"features": learner.features, "groups": learner.groups}
    context = {name: np.stack([one[name] for one in known]) for name in known[0] if taken[name]}
    table = np.stack([one.scores for one in staged])
    return simulate(learner, table, **context, **common)  # type: ignore[arg-type]


def _measure(
    run: Simulation, number: int, staged: Scenario, terms: Terms
) -> tuple[dict[str, float], Array]:
    """Return the figures of one run, and the size of its every set."""
    scores, thresholds = run.scores[number], run.thresholds[number]
    sizes = staged.sizes(thresholds)
    largest = staged.sizes(np.zeros(scores.size))
    fixed = np.full(scores.size, best_threshold(scores, terms.alpha))
    segments = best_per_segment(scores, terms.alpha, staged.changes)
    figures = {
        "miss_rate": float(run.misses[number].mean()),
        "worst_window": worst_window(run.misses[number], WINDOW),
        "size": float(sizes.mean()),
        "size_to_best_fixed": _ratio(sizes, staged.sizes(fixed)),
        "size_to_best_per_segment": _ratio(sizes, staged.sizes(segments)),
        "pinball_regret": pinball_regret(thresholds, scores, terms.alpha),
        "full": float((sizes >= largest).mean()),
        "empty": float(((thresholds > 1.0) | (sizes == 0.0)).mean()),
    }
    return figures, sizes


def _ratio(sizes: Array, best: Array) -> float:
    return float(sizes.mean() / best.mean()) if best.mean() > 0.0 else math.nan


def estimate(values: list[float]) -> Estimate:
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


@dataclass(frozen=True)
class LearnerSummary:
    """A learner over all scenarios: mean miss rate, geometric mean of its sizes over the best.

    Adversaries make their scores as they go, so that no best size is common to all: of them only
    the worst miss rate counts, ``attacked``, NaN where there is none. ``kept`` is on how many of the
    ``scenarios`` the promise is kept, ``largest`` the largest ratio of sizes on any, ``worst_group``
    the mean over the scenarios that tell groups apart, NaN where none does.
    """

    learner: str
    miss_rate: float
    strayed: float
    ratio: float
    largest: float
    kept: int
    scenarios: int
    worst_window: float
    worst_group: float
    attacked: float


def _summarise(name: str, cells: list[Cell], contest: Contest) -> LearnerSummary | None:
    given = [cell for cell in cells if cell.scenario in contest.frontiers]
    fair = [cell for cell in given if math.isfinite(cell.figures[RATIO].mean)]
    attacks = [cell.figures["miss_rate"].mean for cell in cells if cell not in given]
    if not fair:
        return None
    judged = [cell.figures["worst_group"].mean for cell in fair]
    groups = [worst for worst in judged if not math.isnan(worst)]
    rates = np.array([cell.figures["miss_rate"].mean for cell in fair])
    ratios = np.array([max(cell.figures[RATIO].mean, 1e-3) for cell in fair])
    return LearnerSummary(
        learner=name,
        miss_rate=float(rates.mean()),
        strayed=float(np.abs(rates - contest.terms.alpha).max()),
        ratio=float(np.exp(np.log(ratios).mean())),
        largest=float(ratios.max()),
        kept=sum(contest.keeps(cell) for cell in fair),
        scenarios=len(fair),
        worst_window=float(np.mean([cell.figures["worst_window"].mean for cell in fair])),
        worst_group=float(np.mean(groups)) if groups else math.nan,
        attacked=max(attacks, default=math.nan),
    )


CHANNELS = {  # how answers come, in words and as a channel
    "prompt": ("every answer at once", Channel()),
    "10": ("answers 10 rounds late", Channel(delay=10)),
    "100": ("answers 100 rounds late", Channel(delay=100)),
    "1,000": ("answers 1,000 rounds late", Channel(delay=1_000)),
    "geom": ("delays vary around 300 rounds", Channel(delay=300, geometric=True)),
    "b100": ("sets asked for in batches of 100", Channel(batch=100)),
    "b1,000": ("sets asked for in batches of 1,000", Channel(batch=1_000)),
    "lost": ("9 answers in 10 never come", Channel(lost=0.9)),
}


def summarise_late(contests: Mapping[str, Contest]) -> dict[str, dict[str, LearnerSummary]]:
    """Return each learner's summary under each channel, learners by name, channels by theirs."""
    found: dict[str, dict[str, LearnerSummary]] = {}
    for channel, contest in contests.items():
        for one in contest.rank():
            found.setdefault(one.learner, {})[channel] = one
    return found


def drop_adversaries(scenarios: Sequence[Listed]) -> list[Listed]:
    """Return the scenarios that can be judged by size, or raise if there is none."""
    given = [listed for listed in scenarios if listed.build is not None]
    if not given:
        raise InvalidError(
            "late answers are judged by size against the best in hindsight, which no adversary has; "
            "name another scenario"
        )
    return given


def run_late(
    names: Sequence[str],
    scenarios: Sequence[Listed],
    terms: Terms,
    *,
    report: Callable[[str], None] = lambda _: None,
) -> Contest:
    """Play every learner on every scenario under every channel, but against no adversary.

    Return the contest with prompt answers, and in it those under each channel.
    """
    given = drop_adversaries(scenarios)
    drawn = draw_rounds(given, terms)
    late = {
        name: run_contest(names, given, replace(terms, channel=channel), drawn=drawn, report=report)
        for name, (_, channel) in CHANNELS.items()
    }
    return replace(late["prompt"], late=late)


def write_record(contest: Contest, path: Path) -> Path:
    """Write the contest, and with it those in which answers are late; NaN is null."""
    record = make_record(contest)
    if contest.late:
        record["late"] = {name: make_record(one) for name, one in contest.late.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, allow_nan=False), encoding="utf-8")
    return path


def make_record(contest: Contest) -> dict[str, Any]:
    terms = contest.terms
    of_sets = {
        "feedback": str(terms.feedback),
        "arms": terms.arms,
        "channel": asdict(terms.channel),
    }
    return {
        "alpha": terms.alpha,
        "rounds": terms.rounds,
        "runs": terms.runs,
        "seed": terms.seed,
        **({} if contest.is_of_gates else of_sets),
        "scenarios": [
            {"name": listed.name, "about": listed.about, "unit": listed.unit}
            for listed in contest.scenarios
        ],
        "cells": [_record_cell(cell, contest) for cell in contest.cells],
    }


def _record_cell(cell: Cell, contest: Contest) -> dict[str, object]:
    named: dict[str, object] = {"learner": cell.learner, "scenario": cell.scenario}
    if cell.audit is not None:
        named["audit"] = cell.audit
    if cell.refusal is not None:
        return {**named, "refused": cell.refusal}
    figures = {
        name: {"mean": _number(figure.mean), "standard_error": _number(figure.error)}
        for name, figure in cell.figures.items()
    }
    curve = cell.curve._asdict() if cell.curve else {}
    return {
        **named,
        "figures": figures,
        "keeps_promise": contest.keeps(cell),
        "over_time": {
            name: [_number(round(value, 6)) for value in values.tolist()]
            for name, values in curve.items()
        },
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
