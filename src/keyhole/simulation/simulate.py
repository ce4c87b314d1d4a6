"""Whole runs at once: the loop over rounds is compiled too, around the learner's own kernels."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyhole.checks import is_whole
from keyhole.errors import (
    InvalidError,
    ScoreError,
    TheoremError,
    TheoryWarning,
    warn_user,
)
from keyhole.feedback import (
    Answer,
    Feedback,
    check_enough,
    check_feedback,
    correct_wrong,
    count_times,
    find_pace,
    find_used,
)
from keyhole.learners import Ask, Learner, Rule
from keyhole.learners.bounds import check_rounds
from keyhole.learners.entries import check_choice, check_choices, compile_all
from keyhole.learners.rule import FOR_SETS, check_learner
from keyhole.numeric import Array, Counts, bind, kernel
from keyhole.predictor.draws import check_seed, make_draws
from keyhole.predictor.predictor import Predictor
from keyhole.predictor.report import show_rates
from keyhole.predictor.rounds import check_graded, measure_delay
from keyhole.scores import check_scores
from keyhole.simulation import adversaries
from keyhole.simulation.adversaries import RECITE, next_score, take_note
from keyhole.simulation.channel import Channel, Deliveries, hear, most_open

CLEAR = Channel()
_NO_CONTEXT = np.zeros((0, 0))

# What stands for these names is bound anew for every rule.
_choose: Any = None
_observe: Any = None
_weighs = False  # whether the rule reads the weight of an answer


@dataclass(frozen=True)
class Simulation:
    """What was played: one row per run, one column per round.

    Parameters
    ----------
    learner
        The rule that played, with its parameters.
    thresholds, misses, scores
        The thresholds, whether each missed, and the scores of the true labels.

    Examples
    --------
    >>> from keyhole import make, simulate
    >>> played = simulate(make("logit-tracker", alpha=0.1), [0.9, 0.8, 0.1], runs=2)
    >>> played
    <Simulation of logit-tracker, alpha 0.1: 2 runs of 3 rounds, miss rate 0.3333>
    >>> played.misses[0].tolist()
    [False, False, True]
    """

    learner: Learner
    thresholds: Array
    misses: NDArray[np.bool_]
    scores: Array

    def __repr__(self) -> str:
        runs, rounds = self.misses.shape
        played = f"{runs:,} {'run' if runs == 1 else 'runs'} of {rounds:,} rounds"
        return (
            f"<Simulation of {self.learner.name}, alpha {self.learner.alpha:g}: {played}, "
            f"miss rate {self.misses.mean():.4f}>"
        )

    def _repr_html_(self) -> str:
        runs, rounds = self.misses.shape
        rows = {"learner": self.learner.name, "runs": f"{runs:,}", "rounds of each": f"{rounds:,}"}
        return show_rates(rows, float(self.misses.mean()), self.learner.alpha)

    @property
    def arms(self) -> NDArray[np.int64]:
        """Which arm each threshold was; only for learners that choose from a grid."""
        if self.learner.thresholds is None:
            raise InvalidError(f"{self.learner.name} has no grid; use .thresholds")
        return np.searchsorted(self.learner.thresholds, self.thresholds).astype(np.int64)

    def plot(self, *, run: int = 0, window: int | None = None, axes: Any = None) -> Any:
        """Draw one run: its miss rate with the target, and its thresholds; return the two axes."""
        from keyhole.predictor.plot import plot_rounds

        return plot_rounds(
            self.misses[run],
            self.thresholds[run],
            alpha=self.learner.alpha,
            sized="threshold",
            window=window,
            axes=axes,
        )


def simulate(
    learner: Learner,
    scores: ArrayLike,
    *,
    runs: int | None = None,
    seed: int = 0,
    feedback: str = Feedback.SEMI_BANDIT,
    channel: Channel = CLEAR,
    features: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> Simulation:
    """Play a learner against the scores of the true labels.

    Run r makes the draws, and so the choices, of a predictor with seed ``seed + r``.

    Parameters
    ----------
    learner
        The learner that plays; of each score it sees only what the feedback and its needs allow.
    scores
        Scores in [0, 1], of shape (rounds,), the same for every run, or (runs, rounds).
    runs
        The number of runs; by default 1, or the number of rows of scores.
    seed
        The seed of the first run.
    feedback
        What answers reveal: "bandit", whether the set missed; "semi-bandit", also the true label
        if the set held it; "full", the true label always.
    channel
        What may happen to answers before they arrive; by default nothing.
    features
        What is known about each round, NaN where it is missing, for learners that take some: of shape
        (rounds, features), the same for every run, or (runs, rounds, features). By default nothing is.
        Not for a size_weight, which must see what sets cost: scores alone do not tell.
    groups
        The groups that each round belongs to, in the same shapes.

    Examples
    --------
    >>> from keyhole import make
    >>> rng = np.random.default_rng(1)
    >>> simulate(make("logit-tracker", alpha=0.1), rng.beta(6, 2, 1000))
    <Simulation of logit-tracker, alpha 0.1: 1 run of 1,000 rounds, miss rate 0.0990>
    """
    table = _table(scores, runs)
    _check(learner, feedback, table.shape[1], channel)
    first = check_seed(seed)
    contexts = _context(learner, features, groups, shape=table.shape)
    thresholds = np.empty(table.shape)
    misses = np.empty(table.shape, dtype=np.bool_)

    def play(run: int) -> None:
        if channel.is_clear and learner.context == 0:
            play_clear(
                learner, table[run], first + run, thresholds[run], misses[run], feedback=feedback
            )
            return
        deliveries = channel.deliver(table.shape[1], seed=first + run)
        thresholds[run], scores = play_open(
            learner, (_open, _answer), deliveries, first + run, repertoire=table[run : run + 1],
            tells=find_told(learner, feedback), context=contexts[run].copy(),
        )  # fmt: skip
        misses[run] = scores < thresholds[run]

    _each(play, table.shape[0])
    return Simulation(learner, thresholds, misses, table)


def simulate_against(
    learner: Learner,
    adversary: str,
    *,
    rounds: int,
    runs: int = 1,
    seed: int = 0,
    feedback: str = Feedback.SEMI_BANDIT,
    channel: Channel = CLEAR,
) -> Simulation:
    """Play a learner against an adversary, which sees how it chooses but not its draws.

    Parameters
    ----------
    learner, runs, seed, feedback, channel
        As for ``simulate``.
    adversary
        A key of ``keyhole.simulation.adversaries.ADVERSARIES``.
    rounds
        How many rounds.

    Examples
    --------
    >>> from keyhole import make
    >>> learner = make("logit-tracker", alpha=0.1)
    >>> run = simulate_against(learner, "lure-and-strike", rounds=20_000)
    >>> bool(abs(run.misses.mean() - 0.1) < 0.01)
    True
    """
    _check(learner, feedback, rounds, channel)
    kind, first = adversaries.find(adversary).kind, check_seed(seed)
    thresholds = np.empty((_check_runs(runs), rounds))
    scores = np.empty(thresholds.shape)
    context = _context(learner, None, None, shape=(1, rounds))[0].copy()

    def one(run: int) -> None:
        deliveries = channel.deliver(rounds, seed=first + run)
        thresholds[run], scores[run] = play_open(
            learner, (_open, _answer), deliveries, first + run, kind=kind,
            repertoire=adversaries.repertoire(rounds, seed=first + run),
            tells=find_told(learner, feedback), context=context,
        )  # fmt: skip

    _each(one, runs)
    return Simulation(learner, thresholds, scores < thresholds, scores)


def _check(learner: Learner, feedback: str, rounds: int, channel: Channel) -> None:
    """Raise if it is no learner or the feedback tells too little; warn if the horizon is too short."""
    check_learner(learner)
    check_rounds(rounds)
    if not isinstance(channel, Channel):
        raise InvalidError(f"{channel!r} is not a channel; try keyhole.simulation.Channel(delay=10)")
    learner.rule.check_kind(FOR_SETS)
    check_enough(learner.name, learner.needs, check_feedback(feedback))
    if channel.corrected:
        check_graded(learner, "answers that may be wrong")
    if learner.horizon is not None and rounds > learner.horizon:
        warn_user(
            f"{rounds} rounds go past the horizon of {learner.horizon} that "
            f"{learner.name} was tuned for",
            TheoryWarning,
        )


def _context(
    learner: Learner,
    features: ArrayLike | None,
    groups: ArrayLike | None,
    *,
    shape: tuple[int, ...],
) -> Array:
    """Return what is known of each round of each run; of no columns for learners that take nothing."""
    if learner.weighs_size:
        raise InvalidError(
            f"{learner.name} with a size_weight must see what its sets cost, which scores alone do not "
            "tell; use a Predictor, or size_weight=0"
        )
    runs, rounds = shape
    given = {"features": (features, learner.features), "groups": (groups, learner.groups)}
    parts = [_columns(learner, name, table, (runs, rounds, k)) for name, (table, k) in given.items()]
    most = max(map(len, parts))  # 1 where every run knows the same
    joined = np.concatenate([np.broadcast_to(p, (most, *p.shape[1:])) for p in parts], axis=2)
    return np.broadcast_to(joined, (runs, rounds, learner.context))


def _columns(learner: Learner, name: str, given: ArrayLike | None, shape: tuple[int, ...]) -> Array:
    """Return features or groups, of shape (runs or 1, rounds, columns); not given, nothing is known."""
    _, rounds, count = shape
    if given is None:
        return np.full((1, rounds, count), np.nan if name == "features" else 0.0)
    try:
        table = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidError(f"{name} {given!r} are not a table of numbers; encode them first") from None
    if table.shape not in (shape[1:], shape) or count == 0:
        raise InvalidError(
            f"{name} have shape {table.shape}; {learner.name} takes {count}, so give "
            f"{(rounds, count)}, or {shape} for a table a run"
        )
    if name == "groups" and np.isnan(table).any():
        raise InvalidError("groups hold NaN; a round belongs to a group (1) or not (0)")
    return table.reshape(-1, rounds, count)


def _each(one: Callable[[int], None], runs: int) -> None:
    """Do every run; the first alone, because it compiles and the others would wait for it."""
    one(0)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(one, range(1, runs)))


def play_clear(
    learner: Learner,
    scores: Array,
    seed: int,
    thresholds: Array,
    misses: NDArray[np.bool_],
    *,
    state: Any = None,
    feedback: str = Feedback.SEMI_BANDIT,
) -> None:
    """Play one run with prompt answers and write down what was played; a given state is played on."""
    arguments = (
        learner.settings,
        learner.start_arrays() if state is None else state,
        np.zeros(learner.memory),
        _lock(scores),
        draw_uniforms(learner, seed, scores.size),
        find_told(learner, feedback),
        thresholds,
        misses,
    )
    find_loop(learner, (_loop,), arguments)(*arguments)
    check_choices(learner.name, thresholds)


def play_open(
    learner: Learner,
    kernels: tuple[Callable[..., object], Callable[..., object]],
    deliveries: Any,
    seed: int,
    *,
    repertoire: Array,
    tells: tuple[bool, bool],
    kind: int = RECITE,
    context: Array = _NO_CONTEXT,
) -> tuple[Array, Array]:
    """Play one run whose answers may be late, lost or wrong; return its thresholds and scores.

    ``kernels`` say what happens when a round is opened and when its answer is due; ``deliveries`` has
    ``arrivals`` and ``order``, and what else they need.
    """
    rounds, room = deliveries.arrivals.size, most_open(deliveries.arrivals)
    thresholds, scores = np.empty(rounds), np.empty(rounds)
    arguments = (
        learner.settings,
        learner.start_arrays(),
        np.zeros((room, learner.memory)),
        np.arange(room),
        np.zeros((2, rounds), dtype=np.int64),
        learner.alpha,
        draw_uniforms(learner, seed, rounds),
        deliveries,
        kind,
        adversaries.notes(),
        _lock(repertoire),
        tells,
        context,
        thresholds,
        scores,
    )
    find_loop(learner, (_loop_open, *kernels), arguments)(*arguments)
    check_choices(learner.name, thresholds)
    return thresholds, scores


def find_told(learner: Learner, feedback: str) -> tuple[bool, bool]:
    """Return whether a learner is told the true score of a hit, and that of a miss."""
    return find_used(check_feedback(feedback).tells if learner.informed else learner.needs)


def _lock(values: Array) -> Array:
    """Return a view that cannot be written to: numba compiles apart for arrays that can be."""
    view = np.ascontiguousarray(values).view()
    view.flags.writeable = False
    return view


def draw_uniforms(learner: Learner, seed: int, rounds: int) -> Array:
    """Return the draws of a run; none are made for a rule that uses none."""
    return make_draws(seed, 0, rounds) if learner.rule.draws else np.full(rounds, 0.5)


def _table(scores: ArrayLike, runs: int | None) -> Array:
    values = check_scores(scores)
    if values.ndim not in (1, 2):
        raise ScoreError(f"scores have shape {values.shape}; give (rounds,) or (runs, rounds)")
    if values.ndim == 1:
        values = np.broadcast_to(values, (_check_runs(1 if runs is None else runs), values.size))
    elif runs is not None and runs != values.shape[0]:
        raise ScoreError(
            f"{runs} runs were asked for, but there are {values.shape[0]} rows of scores; drop runs"
        )
    return values


def _check_runs(runs: int) -> int:
    if not is_whole(runs, least=1):
        raise InvalidError(f"{runs!r} runs are not a whole number of at least 1")
    return int(runs)


def complexity(learner: Learner, scores: ArrayLike, *, seed: int = 0) -> float:
    """Return the mean of C_t, the constant of OCP-Unlock+'s bound, over one run of it.

    C_t is 1, plus 1 on a hit or the number of arms below the chosen one on a miss, plus the
    probability of the arms that would miss over that of those that would cover.
    """
    if learner.name != "ocp-unlock+":
        raise TheoremError(f"only the bound of ocp-unlock+ has this constant, not {learner.name}'s")
    grid = learner.settings.grid
    predictor = Predictor(learner, seed=seed)
    total = 0.0
    for score in _table(scores, 1)[0].tolist():
        chances = predictor.distribution.probabilities
        prediction = predictor.predict((score,))
        predictor.learn(prediction, score=score)
        below = float((grid < prediction.threshold).sum())
        covering = chances[grid <= score].sum()
        total += 1.0 + (below if score < prediction.threshold else 1.0) + (1.0 - covering) / covering
    return total / predictor.rounds


_LOOPS: dict[tuple[Rule[...], Callable[..., Any]], Callable[..., None]] = {}


def find_loop(
    learner: Learner, kernels: tuple[Callable[..., Any], ...], arguments: tuple[Any, ...]
) -> Callable[..., None]:
    """Return a loop, and what it calls, around the kernels of a rule, compiled where it can be."""
    rule, key = learner.rule, (learner.rule, kernels[0])
    found = _LOOPS.get(key)
    if found is not None:
        return found
    first = Ask(0.5, learner.make_unknown_context())
    state, memo = learner.start_arrays(), np.zeros(learner.memory)
    check_choice(rule.name, rule.choose(learner.settings, state, memo, first))
    names = {"_choose": rule.choose, "_observe": rule.observe, "_weighs": rule.graded}
    loop, *called = kernels
    own = dict(zip(("_open", "_answer"), called, strict=False))
    plain: Callable[..., None] = bind(
        loop, **names, **{name: bind(one, **names) for name, one in own.items()}
    )
    return _LOOPS.setdefault(key, compile_all(rule, (plain, arguments))[0])


@kernel
def _loop(
    settings: Any,
    state: Any,
    memo: Array,
    scores: Array,
    uniforms: Array,
    tells: tuple[bool, bool],
    thresholds: Array,
    misses: NDArray[np.bool_],
) -> None:
    label_if_hit, label_if_miss = tells
    for n in range(scores.size):
        threshold = _choose(settings, state, memo, Ask(uniforms[n], scores[:0]))
        missed = scores[n] < threshold
        told = label_if_miss if missed else label_if_hit
        score = scores[n] if told else np.nan
        _observe(
            settings, state, memo, Answer(1.0 if missed else 0.0, score, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0)
        )
        thresholds[n] = threshold
        misses[n] = missed


@kernel
def _loop_open(
    settings: Any,
    state: Any,
    memos: Array,
    free: Counts,
    places: Counts,
    alpha: float,
    uniforms: Array,
    deliveries: Any,
    kind: int,
    notebook: Array,
    repertoire: Array,
    tells: tuple[bool, bool],
    context: Array,
    thresholds: Array,
    scores: Array,
) -> None:
    slots, before = places  # of each round, and the answers counted when it was predicted
    taken = 0
    heard = 0  # how many answers have come or been lost
    answered = 0
    for n in range(uniforms.size):
        slots[n] = free[taken]
        before[n] = answered
        taken += 1
        memo = memos[slots[n]]
        known = context[n] if context.shape[0] > 0 else uniforms[:0]
        median = _choose(settings, state, memo, Ask(0.5, known)) if kind != RECITE else 0.5
        scores[n] = next_score(kind, notebook, repertoire, n, median, alpha)
        thresholds[n] = _choose(settings, state, memo, Ask(uniforms[n], known))
        take_note(notebook, scores[n] < thresholds[n])
        _open(settings, state, memo, deliveries, thresholds[n], scores[n])
        while heard < deliveries.order.size and deliveries.arrivals[deliveries.order[heard]] <= n:
            past = deliveries.order[heard]
            age, stale = measure_delay(past, before[past], n + 1, answered)
            answered += _answer(
                settings, state, memos[slots[past]], deliveries, past,
                thresholds[past], scores[past], tells, age, stale,
            )  # fmt: skip
            taken -= 1
            free[taken] = slots[past]
            heard += 1


@kernel
def _open(
    settings: Any,
    state: Any,
    memo: Array,
    deliveries: Deliveries,
    threshold: float,
    score: float,
) -> None:
    """Do nothing: a learner of sets learns of a round by its answer alone."""


@kernel
def _answer(
    settings: Any,
    state: Any,
    memo: Array,
    deliveries: Deliveries,
    number: int,
    threshold: float,
    score: float,
    tells: tuple[bool, bool],
    age: float,
    stale: float,
) -> int:
    """Let the learner hear of a round what its answer says; return 1, or 0 if it never comes."""
    truly_missed = score < threshold
    chance = deliveries.told_if_missed if truly_missed else deliveries.told_if_hit
    if deliveries.report[number] >= chance:
        return 0
    missed, spoken = hear(deliveries, number, threshold, truly_missed, score)
    label_if_hit, label_if_miss = tells
    told = label_if_miss if missed else label_if_hit
    miss, known = 1.0 if missed else 0.0, spoken if told else np.nan
    if deliveries.corrected:  # on average it then tells the truth
        known = np.nan
        if 0.0 < threshold <= 1.0:  # else the outcome is known, whatever is told
            miss = correct_wrong(miss, deliveries.wrong)
        else:
            miss = 1.0 if threshold > 1.0 else 0.0
    weight, pace, times = 1.0, 1.0, 1
    if deliveries.known and not _weighs:
        times = count_times(chance, deliveries.rounding[number])
    elif deliveries.known:
        weight = 1.0 / chance
        pace, deliveries.usual[0] = find_pace(weight, deliveries.usual[0], deliveries.heard[0])
        deliveries.heard[0] += 1
    for _ in range(times):
        _observe(settings, state, memo, Answer(miss, known, age, stale, 0.0, weight, pace, 0.0))
    return 1
