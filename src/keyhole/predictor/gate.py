"""A gate at work: it accepts a model's answer or refers it to a person, and learns from judgements."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, Self, cast

from keyhole.feedback import GateFeedback
from keyhole.learners import DEFAULT_GATE, Excess, Learner
from keyhole.numeric import Array
from keyhole.predictor import file, snapshot
from keyhole.predictor.batch import check_answers, list_outputs
from keyhole.predictor.context import Features, Group, Groups, read_context, read_contexts
from keyhole.predictor.draws import Draws
from keyhole.predictor.history import DecisionHistory, read_history
from keyhole.predictor.kinds import GATE
from keyhole.predictor.monitor import Watch
from keyhole.predictor.open_rounds import OpenRounds
from keyhole.predictor.report import (
    bound_excess,
    copy_watch,
    describe,
    judge_groups,
    list_notes,
    show_gate,
)
from keyhole.predictor.rounds import Round
from keyhole.predictor.setup import MOST_OPEN, Setup, make_setup, refuse_unknown
from keyhole.predictor.snapshot import Parts
from keyhole.predictor.tally import Outcome
from keyhole.scores import BestScore, Decision

if TYPE_CHECKING:
    from keyhole.predictor.decisions import GateTally
    from keyhole.predictor.progress import Progress


class Gate:
    """Accepts answers by their score or refers them, so that at most alpha of the accepted are wrong.

    Referred answers go to a person. The excess of the default rule over alpha is bounded for certain:
    ``bound`` returns the bound, docs/guarantees-gate.md proves it.

    Parameters
    ----------
    rule
        The name of a rule in ``keyhole.GATES``, or one with its parameters.
    alpha
        The target share of wrong answers among the accepted, if ``rule`` is a name.
    memory
        The number of rounds that the promise covers; None for all. Only for ``gate-tracker``.
    feedback
        Which cases are judged: "accepted" ones; "referred" ones (a person answered them) and an
        audited share of the accepted, with ``chance``; or "both".
    groups
        Names of groups of cases, each of which is to keep the promise separately.
    seed
        Fixes the draws of rules that choose at random.
    open_limit
        How many rounds may wait for a judgement; beyond that the oldest is dropped.
    history
        How many decisions to remember for ``history()`` and ``plot()``. They are pickled with the gate,
        but not saved to its file.
    watch
        Whether to watch the share of wrong answers for changes, as ``Predictor`` does.

    Examples
    --------
    >>> gate = Gate(alpha=0.05)
    >>> decision = gate.decide({"invoice": 0.93, "letter": 0.04})
    >>> decision.accepted, decision.candidate
    (True, 'invoice')
    >>> gate.learn(decision, right=True)
    >>> gate.accepted_share, gate.wrong_share
    (1.0, 0.0)
    """

    def __init__(
        self,
        rule: str | Learner = DEFAULT_GATE,
        *,
        alpha: float | None = None,
        memory: float | None = None,
        feedback: str = GateFeedback.ACCEPTED,
        groups: Sequence[str] | None = None,
        seed: int | None = None,
        open_limit: int = MOST_OPEN,
        history: int = 0,
        watch: bool = False,
        **unknown: Never,
    ) -> None:
        GATE.check_features(unknown.get("features"))
        if unknown:
            refuse_unknown(rule, unknown, holder="Gate")
        setup = make_setup(
            rule,
            alpha=alpha,
            options=None if memory is None else {"memory": memory},
            groups=groups,
            score=cast("Any", BestScore()),
            feedback=feedback,
            seed=seed,
            open_limit=open_limit,
        )
        progress = GATE.start(setup, watch=watch)
        kept = DecisionHistory(history) if history else None
        self.__setstate__((Parts(setup, progress, OpenRounds(setup.open_limit, progress)), kept))

    def __getstate__(self) -> tuple[Parts, DecisionHistory | None]:
        return Parts(self._setup, self._progress, self._open), self._history

    def __setstate__(self, state: tuple[Parts, DecisionHistory | None]) -> None:
        parts, self._history = state
        self._setup, self._open = parts.setup, parts.rounds
        self._progress: Progress[GateTally] = parts.progress
        self._draws = Draws(self._setup.seed) if self.learner.rule.draws else None

    def __repr__(self) -> str:
        wrong = "" if math.isnan(self.wrong_share) else f", {self.wrong_share:.4f} of them wrong"
        told = f", {self.accepted_share:.4f} accepted{wrong}" if self.predicted_rounds else ""
        return describe(self, f"{self.predicted_rounds:,} decided", told)

    def _repr_html_(self) -> str:
        return show_gate(self)

    @property
    def learner(self) -> Learner:
        """The rule at work, with its parameters."""
        return self._setup.learner

    @property
    def alpha(self) -> float:
        """The target share of wrong answers among the accepted."""
        return self._setup.learner.alpha

    @property
    def setup(self) -> Setup[Any]:
        """What the gate is made with."""
        return self._setup

    @property
    def seed(self) -> int:
        """What fixes every draw."""
        return self._setup.seed

    @property
    def groups(self) -> dict[str | int, Group]:
        """The statistics of each group: accepted answers that were judged, and how many were wrong."""
        with self._open.lock:
            return judge_groups(self._setup, self._progress)

    @property
    def notes(self) -> list[str]:
        """What a user should know about the current state, in sentences; usually nothing."""
        with self._open.lock:
            return list_notes(self._setup, self._progress)

    @property
    def watch(self) -> Watch:
        """Whether accepted answers are wrong as often as alpha says; see ``Predictor.watch``."""
        with self._open.lock:
            return copy_watch(self._progress)

    @property
    def rounds(self) -> int:
        """How many rounds have been judged."""
        return self._progress.tally.answered

    @property
    def predicted_rounds(self) -> int:
        """How many cases were decided, judged or not."""
        return self._progress.tally.predicted

    @property
    def open_rounds(self) -> int:
        """How many rounds wait for a judgement."""
        return len(self._open)

    @property
    def expired_rounds(self) -> int:
        """How many rounds were dropped without one because too many were open."""
        return self._progress.tally.expired

    @property
    def skipped_rounds(self) -> int:
        """How many rounds were closed because nobody would judge them."""
        return self._progress.tally.skipped

    @property
    def accepted_share(self) -> float:
        """The share of cases that were accepted; NaN before the first."""
        return self._progress.tally.accepted_share

    @property
    def wrong_share(self) -> float:
        """The share of wrong answers among the accepted and judged, audits counted by their chance."""
        return self._progress.tally.miss_rate

    def bound(self) -> Excess:
        """Return the current bounds on wrong - alpha accepted, over the accepted and judged answers.

        It holds on any sequence, with judgements as late as they have come until now
        (``keyhole.bounds.excess`` has it for any lateness), if they were taken as they are (no
        ``wrong=``, no ``chance=``); ``TheoremError`` where no theorem does.
        """
        with self._open.lock:
            return bound_excess(self._setup, self._progress)

    def decide(
        self,
        score: float | Mapping[Any, float],
        *,
        features: Features | None = None,
        groups: Groups | None = None,
    ) -> Decision:
        """Return whether to accept an answer of this score, or the best of several candidates.

        Raises
        ------
        ScoreError
            If a score is not in [0, 1], or there is no candidate. Nothing changes.
        InvalidError
            For features, and groups that the gate was not made with. Nothing changes.
        """
        case: Any = self._setup.score.read(score)
        context = read_context(self._setup, features, groups)
        with self._open.lock:
            return self._decide(case, context)

    def _decide(self, case: Any, context: Array) -> Decision:
        """Return the decision on a case, its round opened; the lock is held."""
        draw = 0.5 if self._draws is None else self._draws.of(self._progress.tally.predicted)
        opened = GATE.open(self._setup, self._progress, case, draw=draw, context=context)
        decision: Decision = opened.prediction
        if self._history is not None:
            self._history.add(decision, case.best)
        if GATE.is_awaited(self._setup, decision):
            self._open.add(opened)
        return decision

    def decide_batch(
        self,
        scores: Iterable[float | Mapping[Any, float]],
        *,
        groups: Sequence[Groups] | None = None,
    ) -> list[Decision]:
        """Return a decision for each score, as if each had been asked for alone; or raise for all.

        ``groups`` are a list for each score.

        Examples
        --------
        >>> gate = Gate(alpha=0.05)
        >>> [decision.accepted for decision in gate.decide_batch([0.93, 0.12])]
        [True, False]
        """
        # All are read before any is decided.
        cases = [self._setup.score.read(score) for score in list_outputs(scores)]
        known = read_contexts(self._setup, len(cases), None, groups)
        with self._open.lock:
            return [self._decide(case, own) for case, own in zip(cases, known, strict=True)]

    def learn(
        self,
        decision: Decision | int,
        right: bool,  # noqa: FBT001
        *,
        chance: float | None = None,
        wrong: float = 0.0,
    ) -> None:
        """Judge a round: whether the answer was right.

        Parameters
        ----------
        decision
            The decision, or its id.
        right
            Whether the answer was right; for a referred case, whether it would have been.
        chance
            The known probability that an accepted answer is picked for an audit; 1 if all are.
        wrong
            The known rate at which judges err, below 1/2. The promise then holds on average.

        Raises
        ------
        AnsweredError, ExpiredError, UnknownRoundError
            If the round is not open. Nothing changes.
        ReferredError
            If the round was referred, and the gate's feedback is "accepted". Nothing changes.
        FeedbackError
            If ``right`` is not a judgement. The round stays open.
        """
        GATE.check_awaited(self._setup, decision)
        with self._open.lock:
            waiting = self._open.find(decision)
            outcome = GATE.judge(
                self._setup, self._progress, waiting, right=right, chance=chance, wrong=wrong
            )
            self._close(waiting, outcome)

    def learn_batch(self, decisions: Sequence[Decision | int], rights: Sequence[bool]) -> None:
        """Judge many rounds in order, each by whether its answer was right; all or none.

        Examples
        --------
        >>> gate = Gate(alpha=0.05)
        >>> gate.learn_batch(gate.decide_batch([0.93, 0.97]), [True, False])
        >>> gate.rounds, gate.wrong_share
        (2, 0.5)
        """
        check_answers(decisions, rights)
        for decision in decisions:
            GATE.check_awaited(self._setup, decision)
        with self._open.lock:
            waiting = self._open.find_all(decisions)
            judgements = [
                GATE.read_judgement(self._setup, one, right=right)
                for one, right in zip(waiting, rights, strict=True)
            ]
            for one, (miss, chance) in zip(waiting, judgements, strict=True):
                outcome = GATE.settle(self._setup, self._progress, one, miss, chance=chance)
                self._close(one, outcome)

    def _close(self, waiting: Round[Any], outcome: Outcome) -> None:
        """Keep a round no longer among the open ones."""
        if self._history is not None:
            self._history.judge(waiting.prediction.id, outcome.miss)
        del self._open.waiting[waiting.prediction.id]

    def skip(self, decision: Decision | int) -> None:
        """Close a round that will not be judged, such as one that was not picked for an audit."""
        GATE.check_awaited(self._setup, decision)
        self._open.skip(decision)

    def history(self) -> dict[str, Array]:
        """Return the decisions that were kept: columns round, threshold, score, accepted and wrong.

        ``wrong`` is NaN where there is no judgement.
        """
        with self._open.lock:
            return read_history(self._history)

    def plot(self, *, window: int | None = None, axes: Any = None) -> Any:
        """Draw the share wrong among the accepted, with its target, and the share accepted.

        ``window`` and ``axes`` are as for ``Predictor.plot``.
        """
        from keyhole.predictor.plot import plot_decisions

        kept = self.history()
        return plot_decisions(
            kept["accepted"], kept["wrong"], alpha=self.alpha, window=window, axes=axes
        )

    def save(self, path: str | Path) -> None:
        """Write everything to a file, whole or not at all; open rounds included."""
        file.write(Path(path), self.dump())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the gate that was saved; it continues bit for bit."""
        return cls.restore(Path(path).read_bytes())

    def dump(self) -> bytes:
        """Return what ``save`` writes."""
        return snapshot.dump(self.__getstate__()[0])

    @classmethod
    def restore(cls, content: bytes) -> Self:
        """Return the gate that ``dump`` wrote, or raise ``SnapshotError``."""
        gate = cls.__new__(cls)
        gate.__setstate__((snapshot.restore(content, holder="Gate"), None))
        return gate
