"""A gate played through recorded scores and outcomes, compiled into one piece where it can be."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyhole.checks import is_real
from keyhole.errors import FeedbackError, InvalidError, ScoreError
from keyhole.feedback import Answer, correct_wrong
from keyhole.learners import GATES, Learner
from keyhole.learners.gates import ACCEPTED, CHANCE, FOR_GATES
from keyhole.numeric import Array, Counts, kernel
from keyhole.predictor.decisions import check_gate_feedback, tells_of
from keyhole.predictor.draws import check_seed, make_draws
from keyhole.simulation.simulate import play_open

_AUDITED, _MISTAKEN = 3, 4  # kinds of draws; the learner's own are 0

_observe: Any = None  # what stands for it is bound anew for every rule


@dataclass(frozen=True, eq=False)
class GateRun:
    """What a gate did with every case.

    Parameters
    ----------
    learner
        The rule at work, with its parameters.
    scores, wrong
        The cases, and 1 where the answer was wrong.
    thresholds
        From which score on an answer was accepted; above 1 while the guard was shut.
    """

    learner: Learner
    scores: Array
    wrong: Array
    thresholds: Array

    def __repr__(self) -> str:
        return (
            f"<GateRun of {self.learner.name}, alpha {self.learner.alpha:g}: {self.scores.size:,} "
            f"rounds, {self.accepted_share:.4f} accepted, {self.wrong_share:.4f} of them wrong>"
        )

    @property
    def accepted(self) -> NDArray[np.bool_]:
        return self.scores >= self.thresholds

    @property
    def accepted_share(self) -> float:
        return float(self.accepted.mean())

    @property
    def wrong_share(self) -> float:
        """The share of wrong answers among the accepted; 0 if there are none."""
        accepted = self.accepted
        return float(self.wrong[accepted].mean()) if accepted.any() else 0.0

    @property
    def excess(self) -> Array:
        """How many more wrong answers were accepted than alpha of the accepted, round by round."""
        return np.cumsum(self.accepted * (self.wrong - self.learner.alpha))

    def plot(self, *, window: int | None = None, axes: object = None) -> Any:
        """Draw the share wrong among the accepted, with its target, and the share accepted."""
        from keyhole.predictor.plot import plot_decisions

        return plot_decisions(
            self.accepted, self.wrong, alpha=self.learner.alpha, window=window, axes=axes
        )


def simulate_gate(
    learner: Learner,
    scores: ArrayLike,
    wrong: ArrayLike,
    *,
    feedback: str = "accepted",
    seed: int = 0,
    audit: float = 1.0,
    mistaken: float = 0.0,
    delays: ArrayLike | None = None,
) -> GateRun:
    """Return what the gate would have done with these cases, in their order.

    Parameters
    ----------
    learner
        A rule of ``keyhole.GATES``, with its parameters.
    scores, wrong
        The score of every case, in [0, 1], and 1 where the answer was wrong.
    feedback
        Which cases are judged: "accepted", "referred" or "both".
    seed
        Fixes the rule's draws, the audits, and the judges' mistakes.
    audit
        The known chance that an accepted answer is judged.
    mistaken
        The known rate at which judges err.
    delays
        After how many further decisions each judgement comes; at once unless told, never if negative.

    Examples
    --------
    >>> from keyhole import GATES
    >>> simulate_gate(GATES["gate-tracker"](alpha=0.1), [0.9, 0.2], [0, 1]).accepted.tolist()
    [True, False]
    """
    if not isinstance(learner, Learner) or learner.rule.kind != FOR_GATES:
        raise InvalidError(f"{learner!r} is no gate's rule; there are {', '.join(GATES)}")
    cases, outcomes = check_cases(scores, wrong)
    accepted, referred = tells_of(check_gate_feedback(feedback))
    if not (is_real(audit) and 0.0 < audit <= 1.0 and is_real(mistaken) and 0.0 <= mistaken < 0.5):
        raise FeedbackError(
            f"audit {audit!r}, mistaken {mistaken!r}: give a chance above 0, and a rate below 1/2"
        )
    rounds, key = cases.size, check_seed(seed)
    late = np.zeros(rounds, dtype=np.int64) if delays is None else np.array(delays, dtype=np.int64)
    lies = make_draws(key, 0, rounds, kind=_MISTAKEN) < mistaken
    arrivals = np.where(late < 0, rounds, np.arange(rounds) + late)
    judgements = _Judgements(
        arrivals=arrivals,
        order=np.lexsort((np.arange(rounds), arrivals)),
        wrong=correct_wrong(np.where(lies, 1.0 - outcomes, outcomes), mistaken),
        is_audited=make_draws(key, 0, rounds, kind=_AUDITED) < audit,
        audit=float(audit),
    )
    thresholds, _ = play_open(
        learner, (_open, _answer), judgements, key, repertoire=cases[None, :],
        tells=(accepted, referred),
    )  # fmt: skip
    return GateRun(learner, cases, outcomes, thresholds)


class _Judgements(NamedTuple):
    """When each judgement comes and in which order, what it says, and of whom there is one."""

    arrivals: Counts
    order: Counts
    wrong: Array  # corrected for the judges' mistakes
    is_audited: NDArray[np.bool_]
    audit: float


@kernel
def _open(
    settings: Any, state: Any, memo: Array, judgements: _Judgements, threshold: float, score: float
) -> None:
    """Let the rule know at once what it decided of which score."""
    is_accepted = score >= threshold
    memo[ACCEPTED] = 1.0 if is_accepted else 0.0
    memo[CHANCE] = judgements.audit if is_accepted else 1.0
    _observe(settings, state, memo, Answer(math.nan, score, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0))


@kernel
def _answer(
    settings: Any,
    state: Any,
    memo: Array,
    judgements: _Judgements,
    number: int,
    threshold: float,
    score: float,
    tells: tuple[bool, bool],
    age: float,
    stale: float,
) -> int:
    """Let the rule learn of a judgement; return 1, or 0 if there is none."""
    of_accepted, of_referred = tells
    is_judged = of_referred
    if score >= threshold:
        is_judged = of_accepted and judgements.is_audited[number]
    if not is_judged:
        return 0
    weight = 1.0 / memo[CHANCE]
    judgement = Answer(judgements.wrong[number], score, age, stale, 0.0, weight, 1.0, 0.0)
    _observe(settings, state, memo, judgement)
    return 1


def check_cases(scores: ArrayLike, wrong: ArrayLike) -> tuple[Array, Array]:
    cases, outcomes = np.array(scores, dtype=np.float64), np.array(wrong, dtype=np.float64)
    if cases.ndim != 1 or cases.shape != outcomes.shape or cases.size == 0:
        raise ScoreError(
            f"scores of shape {cases.shape} and outcomes of shape {outcomes.shape} do not pair; "
            "give two lists of one length, not empty"
        )
    if not (np.isfinite(cases) & (cases >= 0.0) & (cases <= 1.0)).all():
        raise ScoreError("a score is not in [0, 1]; rescale them first")
    if not np.isin(outcomes, (0.0, 1.0)).all():
        raise FeedbackError("an outcome is neither 0 (right) nor 1 (wrong)")
    return cases, outcomes


def best_fixed(scores: Array, wrong: Array, *, alpha: float) -> tuple[float, float]:
    """Return the lowest threshold with at most alpha wrong among the accepted, and what it accepts.

    It is known only in hindsight. Without any such threshold, it is 2, and nothing is accepted.

    Examples
    --------
    >>> best_fixed(np.array([0.9, 0.8, 0.3]), np.array([0.0, 0.0, 1.0]), alpha=0.1)
    (0.8, 0.6666666666666666)
    """
    order = np.argsort(-scores, kind="stable")
    ranked, count = scores[order], np.arange(1, scores.size + 1)
    is_whole = np.append(ranked[1:] < ranked[:-1], True)  # equal scores are accepted together
    fits = np.flatnonzero(is_whole & (np.cumsum(wrong[order]) <= alpha * count))
    if fits.size == 0:
        return 2.0, 0.0
    return float(ranked[fits[-1]]), float(count[fits[-1]] / scores.size)
