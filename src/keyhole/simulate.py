"""Whole runs at once: the loop over rounds is compiled too, around the predictor's own kernels."""

import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyhole import world
from keyhole.channel import Channel
from keyhole.checks import is_whole
from keyhole.draws import checked_seed, draws
from keyhole.errors import (
    GridError,
    HorizonWarning,
    InvalidError,
    LearnerError,
    ScoreError,
    TheoremError,
)
from keyhole.feedback import Needs, Regime, check_enough, checked_regime
from keyhole.grid import Array
from keyhole.kernel import kernel
from keyhole.learners import Learner
from keyhole.predictor import Predictor
from keyhole.scores import checked_scores
from keyhole.streams import adversaries
from keyhole.streams.adversaries import RECITE

CLEAR = Channel()
_TELLS_LABEL = {
    Needs.HIT_OR_MISS: (False, False),
    Needs.LABEL_IF_HIT: (True, False),
    Needs.LABEL_ALWAYS: (True, True),
}


@dataclass(frozen=True)
class Simulation:
    """What was played: one row per run, one column per round."""

    learner: Learner
    thresholds: Array
    misses: NDArray[np.bool_]
    scores: Array

    @property
    def arms(self) -> NDArray[np.int64]:
        """Which arm each threshold was; only for learners that choose from a grid."""
        if self.learner.thresholds is None:
            raise GridError(f"{self.learner.name} has no grid; use .thresholds")
        return np.searchsorted(self.learner.thresholds, self.thresholds).astype(np.int64)


def simulate(
    learner: Learner,
    scores: ArrayLike,
    *,
    runs: int | None = None,
    seed: int = 0,
    regime: str = Regime.SEMI_BANDIT,
    channel: Channel = CLEAR,
    groups: ArrayLike | None = None,
) -> Simulation:
    """Play a learner against the scores of the true labels.

    Run r makes the draws, and so the choices, of a predictor with seed ``seed + r``.

    Parameters
    ----------
    learner
        Who plays; it sees of each score only what the regime and its needs allow.
    scores
        Scores in [0, 1], of shape (rounds,), the same for every run, or (runs, rounds).
    runs
        How many runs; 1, or as many as there are rows of scores, unless told.
    seed
        The seed of the first run.
    regime
        What the world can tell: "bandit", "semi-bandit" or "full".
    channel
        What may happen to answers on their way; by default nothing.
    groups
        Of shape (rounds, groups): to which groups each round belongs, for learners that tell some
        apart; every round belongs to the first. By default to no others.

    Examples
    --------
    >>> from keyhole import make
    >>> rng = np.random.default_rng(1)
    >>> learner = make("ocp-unlock+", alpha=0.1, horizon=1000, arms=10)
    >>> simulate(learner, rng.beta(6, 2, 1000), runs=3).misses.shape
    (3, 1000)
    """
    table = _table(scores, runs)
    _check(learner, regime, table.shape[1])
    first = checked_seed(seed)
    members = _members(learner, groups, table.shape[1])
    thresholds = np.empty(table.shape)
    misses = np.empty(table.shape, dtype=np.bool_)

    def one(run: int) -> None:
        play(learner, table[run], first + run, thresholds[run], misses[run])

    def one_by_channel(run: int) -> None:
        heard, scores = table[run : run + 1], np.empty(table.shape[1])
        tells = _TELLS_LABEL[learner.needs]
        world.play(
            learner, RECITE, heard, channel, first + run, tells, members, thresholds[run], scores
        )
        misses[run] = scores < thresholds[run]

    simple = channel.is_clear and members.shape[1] == 0
    _each(one if simple else one_by_channel, table.shape[0])
    return Simulation(learner, thresholds, misses, table)


def simulate_against(
    learner: Learner,
    adversary: str,
    *,
    rounds: int,
    runs: int = 1,
    seed: int = 0,
    regime: str = Regime.SEMI_BANDIT,
    channel: Channel = CLEAR,
) -> Simulation:
    """Play a learner against an adversary, which sees how it chooses but not its draws.

    Parameters
    ----------
    learner, runs, seed, regime, channel
        As for ``simulate``.
    adversary
        A key of ``keyhole.streams.adversaries.ADVERSARIES``.
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
    _check(learner, regime, rounds)
    kind, first = adversaries.find(adversary).kind, checked_seed(seed)
    thresholds = np.empty((_checked_runs(runs), rounds))
    scores = np.empty(thresholds.shape)
    members = _members(learner, None, rounds)

    def one(run: int) -> None:
        repertoire = adversaries.repertoire(rounds, seed=first + run)
        tells = _TELLS_LABEL[learner.needs]
        world.play(
            learner,
            kind,
            repertoire,
            channel,
            first + run,
            tells,
            members,
            thresholds[run],
            scores[run],
        )

    _each(one, runs)
    return Simulation(learner, thresholds, scores < thresholds, scores)


def _check(learner: Learner, regime: str, rounds: int) -> None:
    """Raise if it is no learner or the regime tells too little; warn if the horizon is too short."""
    if not isinstance(learner, Learner):
        raise LearnerError(f"{learner!r} is not a learner; make one: keyhole.make(name, alpha=...)")
    check_enough(learner.name, learner.needs, checked_regime(regime))
    if learner.horizon is not None and rounds > learner.horizon:
        warnings.warn(
            f"{rounds} rounds go past the horizon of {learner.horizon} that "
            f"{learner.name} was tuned for",
            HorizonWarning,
            stacklevel=3,
        )


def _members(learner: Learner, groups: ArrayLike | None, rounds: int) -> NDArray[np.bool_]:
    """Return to which groups each round belongs; of no columns if nobody said so."""
    if groups is None:
        return np.zeros((rounds, 0), dtype=np.bool_)
    members = np.array(groups, dtype=np.bool_)
    if members.shape != (rounds, learner.groups):
        raise InvalidError(
            f"groups have shape {members.shape}; {learner.name} tells {learner.groups} apart, so give "
            f"{(rounds, learner.groups)}"
        )
    members[:, 0] = True
    return members


def _each(one: Callable[[int], None], runs: int) -> None:
    """Do every run; the first alone, because it compiles and the others would wait for it."""
    one(0)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(one, range(1, runs)))


def play(
    learner: Learner,
    scores: Array,
    seed: int,
    thresholds: Array,
    misses: NDArray[np.bool_],
    *,
    state: Any = None,
) -> None:
    """Play one run and write down what was played; a given state is played on, in place."""
    _loop(
        learner.rule.choose,
        learner.rule.observe,
        learner.settings,
        learner.start() if state is None else state,
        learner.memo(),
        scores,
        draws(seed, 0, scores.size),
        *_TELLS_LABEL[learner.needs],
        thresholds,
        misses,
    )


def _table(scores: ArrayLike, runs: int | None) -> Array:
    values = checked_scores(scores)
    if values.ndim not in (1, 2):
        raise ScoreError(f"scores have shape {values.shape}; give (rounds,) or (runs, rounds)")
    if values.ndim == 1:
        values = np.broadcast_to(values, (_checked_runs(1 if runs is None else runs), values.size))
    elif runs is not None and runs != values.shape[0]:
        raise ScoreError(
            f"{runs} runs were asked for, but there are {values.shape[0]} rows of scores; drop runs"
        )
    return values


def _checked_runs(runs: int) -> int:
    if not is_whole(runs, least=1):
        raise InvalidError(f"{runs!r} runs are not a whole number of at least 1")
    return int(runs)


@kernel
def _loop(
    choose: Callable[..., float],
    observe: Callable[..., None],
    settings: Any,
    state: Any,
    memo: Array,
    scores: Array,
    uniforms: Array,
    label_if_hit: bool,  # noqa: FBT001
    label_if_miss: bool,  # noqa: FBT001
    thresholds: Array,
    misses: NDArray[np.bool_],
) -> None:
    for n in range(scores.size):
        threshold = choose(settings, state, memo, uniforms[n])
        missed = scores[n] < threshold
        told = label_if_miss if missed else label_if_hit
        observe(settings, state, memo, missed, scores[n] if told else np.nan)
        thresholds[n] = threshold
        misses[n] = missed


def complexity(learner: Learner, scores: ArrayLike, *, seed: int = 0) -> float:
    """Return the mean of C_t, the constant of OCP-Unlock+'s bound, over one run of it.

    C_t is 1, plus 1 on a hit or the number of arms below the chosen one on a miss, plus the
    probability of the arms that would miss over that of those that would cover.
    """
    if learner.name != "ocp-unlock+":
        raise TheoremError(f"only the bound of ocp-unlock+ has this constant, not {learner.name}'s")
    grid = learner.settings.thresholds
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
