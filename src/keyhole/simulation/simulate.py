"""Whole runs at once: the loop over rounds is compiled too, around the predictor's own kernels."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyhole.checks import is_whole
from keyhole.errors import InvalidError, ScoreError, TheoremError, TheoryWarning, warn_user
from keyhole.feedback import Feedback, check_enough, check_feedback, find_used
from keyhole.learners import Learner
from keyhole.learners.bounds import check_rounds
from keyhole.learners.rule import check_learner
from keyhole.numeric import Array
from keyhole.predictor.draws import check_seed
from keyhole.predictor.predictor import Predictor
from keyhole.predictor.rounds import check_graded
from keyhole.scores import check_scores
from keyhole.simulation import adversaries, loops
from keyhole.simulation.adversaries import RECITE
from keyhole.simulation.channel import Channel
from keyhole.simulation.simulation import Simulation

CLEAR = Channel()


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
        What the world can tell: "bandit", whether the set missed; "semi-bandit", also the true label
        if the set held it; "full", the true label always.
    channel
        What may happen to answers before they arrive; by default nothing.
    features
        What is known of each round, NaN where it is not, for learners that take some: of shape
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

    tells = find_used(learner.needs)

    def play_prompt(run: int) -> None:
        play_clear(learner, table[run], first + run, thresholds[run], misses[run])

    def play_channel(run: int) -> None:
        scores = np.empty(table.shape[1])
        loops.play_channel(
            learner, RECITE, table[run : run + 1], channel, first + run, tells=tells,
            context=contexts[run].copy(), thresholds=thresholds[run], scores=scores,
        )  # fmt: skip
        misses[run] = scores < thresholds[run]

    simple = channel.is_clear and learner.context == 0
    _each(play_prompt if simple else play_channel, table.shape[0])
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
        loops.play_channel(
            learner, kind, adversaries.repertoire(rounds, seed=first + run), channel, first + run,
            tells=find_used(learner.needs), context=context, thresholds=thresholds[run],
            scores=scores[run],
        )  # fmt: skip

    _each(one, runs)
    return Simulation(learner, thresholds, scores < thresholds, scores)


def _check(learner: Learner, feedback: str, rounds: int, channel: Channel) -> None:
    """Raise if it is no learner or the feedback tells too little; warn if the horizon is too short."""
    check_learner(learner)
    check_rounds(rounds)
    if not isinstance(channel, Channel):
        raise InvalidError(f"{channel!r} is not a channel; try keyhole.simulation.Channel(delay=10)")
    if learner.rule.kind == "gate":
        raise InvalidError(f"{learner.name} is a rule for gates; use keyhole.simulation.gates")
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
) -> None:
    """Play one run with prompt answers and write down what was played; a given state is played on."""
    tells = find_used(learner.needs)
    loops.play(learner, scores, seed, thresholds, misses, tells=tells, state=state)


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
