"""A gate at work: it accepts a model's answer or refers it to a person, and learns from judgements."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Never, cast

from keyhole.feedback import LEAST_CHANCE
from keyhole.learners import DEFAULT_GATE, Excess, Learner
from keyhole.numeric import Array
from keyhole.predictor.batch import check_answers, list_outputs
from keyhole.predictor.context import Features, Groups, read_context, read_contexts
from keyhole.predictor.decisions import GateFeedback
from keyhole.predictor.kinds import GATE
from keyhole.predictor.report import bound_excess, show
from keyhole.predictor.session import Session
from keyhole.predictor.setup import MOST_OPEN, make_setup, refuse_unknown
from keyhole.scores import BestScore, Case, Decision


class Gate(Session[Any]):
    """Accepts answers by their score or refers them, so that a share alpha of the accepted is wrong.

    Referred answers go to a person. The number of wrong answers beyond alpha times the accepted is
    bounded for certain with the default rule, if accepted answers are judged: see ``bound``, and
    docs/guarantees-gate.md for the proof.

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
        Names of groups of cases; the promise is kept for each separately.
    seed
        Fixes the draws of rules that choose at random.
    open_limit
        How many rounds may wait for a judgement; beyond that the oldest is dropped.
    least_chance
        The least ``chance`` that a judgement may come with: none counts for more than 1 / this many.
    history
        How many decisions to remember for ``history()`` and ``plot()``. They are pickled with the gate,
        but not saved to its file.
    amend_limit
        How many judged decisions to keep so that ``amend`` can correct them; pickled and saved as
        ``history`` is.
    watch
        Whether to watch the share of wrong answers for changes, as ``Predictor`` does.

    Examples
    --------
    >>> gate = Gate(alpha=0.05)
    >>> decision = gate.decide({"invoice": 0.97, "letter": 0.02})
    >>> decision.accepted, decision.candidate
    (True, 'invoice')
    >>> gate.learn(decision, right=True)
    >>> gate.accepted_share, gate.wrong_share
    (1.0, 0.0)
    """

    _HOLDER = "Gate"

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
        least_chance: float = LEAST_CHANCE,
        history: int = 0,
        amend_limit: int = 0,
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
            least_chance=least_chance,
        )
        super().__init__(setup, history=history, watch=watch, amend_limit=amend_limit)

    def __repr__(self) -> str:
        wrong = "" if math.isnan(self.wrong_share) else f", {self.wrong_share:.4f} of them wrong"
        figures = f", {self.accepted_share:.4f} accepted{wrong}" if self.predicted_rounds else ""
        return self._describe(f"{self.predicted_rounds:,} decided", figures)

    def _repr_html_(self) -> str:
        rows = {
            "rule": self.learner.name,
            "target share wrong": f"{self.alpha:g}",
            "decided": f"{self.predicted_rounds:,}",
            "accepted": f"{self.accepted_share:.4f}",
            "judged": f"{self.rounds:,}",
            "wrong among the accepted": f"{self.wrong_share:.4f}",
        }
        return show(self, rows, rate=self.wrong_share, called="share wrong")

    @property
    def accepted_share(self) -> float:
        """The share of cases that were accepted; NaN before the first."""
        return self._progress.tally.accepted_share

    @property
    def wrong_share(self) -> float:
        """The share of wrong answers among the accepted and judged, audits counted by their chance."""
        return self._progress.tally.miss_rate

    def bound(self, *, delta: float | None = None) -> Excess:
        """Return the current bounds on wrong - alpha accepted, over the accepted and judged answers.

        It holds on any sequence, with judgements as late as they have come until now
        (``keyhole.bounds.excess`` has it for any lateness); ``TheoremError`` where no theorem does.

        With ``chance=`` or ``wrong=`` it is of the judgements as they were counted. With ``delta`` it
        is of the truth, of all accepted answers, those that nobody audited too; it then holds after
        any number of rounds at once, except with probability ``delta``, for audits as rare as
        ``least_chance``: set that to the chance of yours, and ``skip`` what is not audited.
        """
        with self._lock:
            return bound_excess(self._setup, self._progress, delta=delta)

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
        case = self._setup.score.read(score)
        context = read_context(self._setup, features, groups)
        with self._lock:
            decision: Decision = self._open_round(case, context)
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
        >>> [decision.accepted for decision in gate.decide_batch([0.97, 0.12])]
        [True, False]
        """
        # All are read before any is decided.
        cases = [self._setup.score.read(score) for score in list_outputs(scores)]
        known = read_contexts(self._setup, len(cases), None, groups)
        with self._lock:
            return [self._open_round(case, own) for case, own in zip(cases, known, strict=True)]

    def _open_round(self, case: Case[Any], context: Array) -> Decision:
        """Return the decision about a case, its round opened; the lock is held."""
        setup, progress, draws = self._setup, self._progress, self._draws
        draw = 0.5 if draws is None else draws.of(progress.tally.predicted)
        opened = GATE.open(setup.learner, progress, case, draw, context)
        if self._history is not None:
            self._history.note_opened(opened)
        decision: Decision = opened.prediction
        if GATE.is_awaited(setup, decision):
            self._waiting[decision.id] = opened
            if len(self._waiting) > setup.open_limit:
                self._drop_oldest()
        return decision

    def learn(
        self,
        decision: Decision | int,
        right: bool | None = None,  # noqa: FBT001
        *,
        chance: float | None = None,
        wrong: float = 0.0,
        judged: bool | None = None,
    ) -> None:
        """Judge a round: whether the answer was right.

        Parameters
        ----------
        decision
            The decision, or its id.
        right
            Whether the answer was right; for a referred case, whether it would have been.
        chance
            The known probability that an accepted answer is picked for an audit; 1 if all are. At
            least ``least_chance``.
        wrong
            The known rate at which judges err, below 1/2. The promise then holds on average.
        judged
            The verdict, right or not, of a judge with unknown error rates: alone, or beside ``right``
            in rounds picked at random to be checked, as for ``Predictor.learn``.

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
        with self._lock:
            waiting = self._find(decision)
            outcome = GATE.read_judgement(
                self._setup, waiting, right=right, chance=chance, wrong=wrong, judged=judged,
                bias=self._progress.tally.bias,
            )  # fmt: skip
            self._close(waiting, GATE.settle(self._setup, self._progress, waiting, outcome))

    def amend(self, decision: Decision | int, right: bool) -> None:  # noqa: FBT001
        """Correct a judgement, as ``Predictor.amend`` does: the answer turned out right, or wrong.

        Examples
        --------
        >>> gate = Gate(alpha=0.05, amend_limit=1_000)
        >>> decision = gate.decide(0.97)
        >>> gate.learn(decision, right=True)
        >>> gate.amend(decision, right=False)
        >>> gate.wrong_share
        1.0
        """
        self._amend(decision, lambda answered: GATE.read_amended(answered, self._setup, right))

    def learn_batch(self, decisions: Sequence[Decision | int], rights: Sequence[bool]) -> None:
        """Judge many rounds in order, each by whether its answer was right; all or none.

        Examples
        --------
        >>> gate = Gate(alpha=0.05)
        >>> gate.learn_batch(gate.decide_batch([0.96, 0.97]), [True, False])
        >>> gate.rounds, gate.wrong_share
        (2, 0.5)
        """
        check_answers(decisions, rights)
        for decision in decisions:
            GATE.check_awaited(self._setup, decision)
        with self._lock:
            waiting = self._find_all(decisions)
            judgements = [
                GATE.read_judgement(self._setup, one, right=right)
                for one, right in zip(waiting, rights, strict=True)
            ]
            for one, outcome in zip(waiting, judgements, strict=True):
                self._close(one, GATE.settle(self._setup, self._progress, one, outcome))

    def calibrate(
        self,
        scores: Iterable[float | Mapping[Any, float]],
        right: Sequence[bool],
        *,
        groups: Sequence[Groups] | None = None,
    ) -> None:
        """Learn from judged history before the first round; the counts of rounds stay at zero.

        The rule plays the history as rounds judged at once, referred ones too. The bound on wrong
        answers covers history and rounds together, so ``bound`` moves by the excess of the history.

        Examples
        --------
        >>> gate = Gate(alpha=0.1)
        >>> gate.calibrate([0.6, 0.7, 0.8, 0.9] * 50, [True] * 200)
        >>> gate.predicted_rounds, gate.decide(0.6).accepted
        (0, True)
        """
        with self._lock:
            history, setup = list_outputs(scores), self._setup
            known = read_contexts(setup, len(history), None, groups)
            self._progress.calibrate(setup, history, list(right), contexts=known)

    def plot(self, *, window: int | None = None, axes: object = None) -> Any:
        """Draw the share wrong among the accepted, with its target, and the share accepted.

        ``window`` and ``axes`` are as for ``Predictor.plot``.
        """
        from keyhole.predictor.plot import plot_decisions

        kept = self.history()
        return plot_decisions(
            kept["accepted"], kept["wrong"], alpha=self.alpha, window=window, axes=axes
        )
