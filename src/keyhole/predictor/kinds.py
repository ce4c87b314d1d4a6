"""The kinds of prediction: each knows how to start, open, recall and answer its rounds.

A setup finds its kind once (``setup.kind``); predictor, store and file ask the kind, so that nobody
else asks whether a predictor proposes sets or accepts answers. A further kind is a class with the
members of ``Sets``, in ``Kind`` and in the table below it: mypy names every member that it lacks.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from keyhole import scores
from keyhole.errors import (
    FeedbackError,
    InvalidError,
    LabelError,
    ScoreError,
    SnapshotError,
    TheoremError,
)
from keyhole.feedback import Feedback, check_enough, check_feedback
from keyhole.learners import Learner, find
from keyhole.learners.lateness import Lateness
from keyhole.learners.rule import FOR_SETS, RuleKind
from keyhole.predictor import rounds
from keyhole.predictor.context import Names, list_groups, read_names, unpack_context
from keyhole.predictor.decisions import Decisions, GateFeedback
from keyhole.predictor.monitor import find_monitor
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import Round
from keyhole.predictor.tally import CountedRound, Outcome, Tally
from keyhole.scores import Case, LabelSet, Predicted, Probabilities, Score
from keyhole.scores import Kind as KindName

if TYPE_CHECKING:
    from keyhole.predictor.setup import Setup

_new: Any = tuple.__new__  # makes a named tuple in half the time that its class takes
_TAKES = {"labels": "scores", "interval": "a centre", "band": "lower and upper"}


class Recalled(NamedTuple):
    """A set of labels that was shown, again: as much of it as judging an answer takes."""

    id: int
    threshold: float
    size: float
    case: Any

    def __contains__(self, label: object) -> bool:
        return bool(self.case.score(label) >= self.threshold)

    @property
    def noun(self) -> str:
        return LabelSet.noun

    @property
    def is_empty(self) -> bool:
        return self.size == 0.0


def recall_shown(score: Score[Predicted], kept: Any) -> tuple[Any, Case[Any]]:
    """Return what a round showed, and its case, from what is kept of it: a row, or the like."""
    case = score.unpack(kept.output, kept.labels)
    # Without limits on its size, the set holds just the labels whose score reaches the threshold.
    if getattr(case, "is_unlimited", False):
        return _new(Recalled, (kept.number, kept.threshold, kept.size, case)), case
    return case.region(kept.number, kept.threshold), case


@dataclass(frozen=True, slots=True)
class Sets:
    """Sets of labels, intervals and bands: of each the answer says whether it holds the truth."""

    name: KindName
    decides: ClassVar[bool] = False  # whether a round counts once it is opened, answered or not
    makes: ClassVar[str] = "predictions"  # what its rounds are called, over HTTP too
    closed: ClassVar[str] = "answered, or closed without an answer"
    history: ClassVar[tuple[str, str]] = "labels", "outputs"  # what it is calibrated by
    afresh: ClassVar[str] = "calibrate a new predictor"
    rules: ClassVar[RuleKind] = FOR_SETS
    default_score: ClassVar[type[Probabilities]] = Probabilities
    default_feedback: ClassVar[Feedback] = Feedback.SEMI_BANDIT

    def read_names(self, features: Any, groups: Any) -> tuple[dict[str, int], Names]:
        counted, named = read_names(features, "features")
        groups_counted, groups_named = read_names(groups, "groups")
        return {"features": counted, "groups": groups_counted}, Names(named, groups_named)

    def check_features(self, features: object) -> None:
        """Raise nothing: the learner says how many it takes."""

    def check_feedback(self, setup: "Setup") -> Feedback:
        learner = setup.learner
        learner.rule.check_kind(self.rules)
        feedback = check_feedback(setup.feedback)
        check_enough(learner.name, learner.needs, feedback)
        score: Any = setup.score
        if feedback is Feedback.BANDIT and hasattr(score, "at_scale") and score.scale is None:
            raise FeedbackError(
                f"{score.name} take their scale from true values, which bandit feedback never tells; "
                f"give a typical error: {type(score).__name__}(scale=...)"
            )
        return feedback

    def check_levels(self, setup: "Setup") -> None:
        """Raise unless answers tell of several nested sets, one for each alpha."""
        if setup.feedback is Feedback.BANDIT:
            raise FeedbackError(
                "several levels cannot learn from bandit feedback: it does not say which of the inner "
                "levels contain the truth; use semi-bandit or full, or one alpha"
            )

    def count_open(self, setup: "Setup", tally: Tally) -> int:  # noqa: ARG002
        return tally.predicted - tally.answered - tally.expired - tally.skipped

    def start(self, setup: "Setup", *, watch: bool = False) -> Progress:
        progress = Progress.start(setup.learner, setup.score, watch=watch)
        if setup.learner.informed and progress.scale is not None and progress.scale.value:
            rounds.listen(setup.learner, progress, setup.score)
        return progress

    def read(self, setup: "Setup", progress: Progress, output: object) -> Case[Any]:
        """Return the case of an output as a request brings it, or raise if it has another form."""
        score: Any = setup.score
        given = "interval" if isinstance(output, (int, float)) else "labels"
        given = "band" if isinstance(output, tuple) else given
        if given != score.kind:
            raise ScoreError(
                f"the stream takes {_TAKES[score.kind]}, not {_TAKES[given]}; give that instead"
            )
        labels = getattr(score, "labels", None)
        if labels is not None and isinstance(output, dict):
            unknown = sorted(set(output) - set(labels), key=repr)
            if unknown:
                raise LabelError(
                    f"label {unknown[0]!r} is not one of the stream's {len(labels)} labels; add it"
                )
        case: Case[Any] = (score if progress.scale is None else progress.scale.fit(score)).read(output)
        return case

    open = staticmethod(rounds.propose)

    def is_awaited(self, setup: "Setup", shown: object) -> bool:  # noqa: ARG002
        return True

    def check_awaited(self, setup: "Setup", shown: object) -> None:
        """Raise nothing: every set may be answered."""

    def recall(
        self, setup: "Setup", kept: Any, *, then: int = 0, memo: bytes | None = None
    ) -> Round[Any]:
        """Return a round again from its row; without a memo, only to be judged and amended."""
        learner, (shown, case) = setup.learner, recall_shown(setup.score, kept)
        known = [] if memo is None else learner.layout.unpack_memo(memo)
        groups = list_groups(learner, unpack_context(setup, kept.context)) if learner.groups else ()
        return _new(Round, (shown, case, known, then, groups))

    def choose_again(self, setup: "Setup", progress: Progress, waiting: Round[Any]) -> Any:
        """Return a memo as if an open round of another learner were asked about now."""
        return rounds.choose_again(setup.learner, progress, waiting.groups)

    def is_counted(self, shown: object) -> bool:  # noqa: ARG002
        """Return whether such a round is one of those whose share of misses is promised."""
        return True

    def translate(self, setup: "Setup", own: Any, shown: Any, answer: Any) -> Any:  # noqa: ARG002
        """Return what an answer to the set that was shown tells of another of the case; or None.

        Of two sets of a case the one with the lower threshold holds the other.
        """
        if own.threshold == shown.threshold or own.size == shown.size < math.inf:
            return answer
        parts = rounds.read_parts(answer)
        if "wrong" in parts or "judged" in parts:
            return None
        is_larger = own.threshold < shown.threshold
        is_known = "label" in parts or "score" in parts or ("hit" if is_larger else "miss") in parts
        return answer if is_known else None

    def unpack_memo(self, setup: "Setup", content: bytes, groups: int) -> Any:  # noqa: ARG002
        return setup.learner.layout.unpack_memo(content)

    def measure_memo(self, setup: "Setup", groups: int) -> int:  # noqa: ARG002
        return 8 * setup.learner.memory

    def pack_waiting(self, setup: "Setup", opened: Round[Any]) -> tuple[bytes, bytes]:
        """Return what an open round of a key remembers: its memo, and what stands before its output."""
        learner = setup.learner
        return learner.pack_memo(opened.memo) if learner.memory else b"", b""

    def unpack_waiting(self, setup: "Setup", waiting: Any) -> Round[Any]:
        """Return an open round of a key again, or raise."""
        try:
            memo = setup.learner.unpack_memo(waiting.memo)
        except InvalidError as error:
            raise SnapshotError(f"{error}; restore the key's state from a copy") from None
        shown, case = recall_shown(setup.score, waiting)
        return Round(shown, case, memo, waiting.then)

    def answer_event(
        self, setup: "Setup", progress: Progress, waiting: Round[Any], event: Any, *, seed: int
    ) -> Outcome:
        learner = setup.learner
        given = {
            "label": event.label,
            "score": event.score,
            "loss": event.loss,
            "chance": event.chance,
            "seed": seed,
            "least_chance": setup.least_chance,
        }
        if event.judged is None:
            outcome = rounds.read_answer(learner, waiting, event.answer, wrong=event.wrong, **given)
        else:
            rounds.check_judged(event.wrong)
            bias = progress.tally.bias
            outcome = rounds.read_judged(
                learner, waiting, event.judged, event.answer, bias=bias, **given
            )
        return self.settle(setup, progress, waiting, outcome)

    settle = staticmethod(rounds.settle)

    def read_truth(self, setup: "Setup", opened: Round[Any], truth: object) -> Outcome:
        return rounds.read_answer(setup.learner, opened, label=truth)

    read_answer = staticmethod(rounds.read_told)

    def count(self, setup: "Setup", progress: Progress, counted: CountedRound, *, then: int) -> None:
        """Count an answer of which nothing but its account is known; the learner does not hear it."""
        tally = progress.tally
        _, stale = rounds.measure_delay(counted.number, then, tally.predicted, tally.answered)
        if progress.watch is not None:
            is_two_sided = not rounds.is_never_empty(setup)
            find_monitor(setup.learner.alpha, is_two_sided=is_two_sided).observe(
                progress.watch,
                counted.miss,
                counted.weight,
                heard=tally.calibrated + then,
                stale=tally.stale,
            )
        tally.count(counted.miss, counted.size, counted.weight, stale=stale)

    def read_amended(self, answered: Round[Any], setup: "Setup", answer: object) -> Outcome:
        return self.read_answer(setup, answered, answer)

    def amend(
        self,
        setup: "Setup",
        progress: Progress,
        answered: Round[Any],
        before: Outcome,
        outcome: Outcome,
    ) -> Outcome:
        """Let the accounts be those of another outcome than the one that was counted; or raise."""
        weight, change = before.weight, outcome.miss - before.miss
        rounds.change_miss(setup.learner, progress, change, weight=weight, groups=answered.groups)
        progress.tally.unreachable += outcome.unreachable - before.unreachable
        return outcome._replace(weight=weight)

    def list_notes(self, tally: Tally, *, alpha: float) -> list[str]:  # noqa: ARG002
        """Return what is to be said of such rounds alone."""
        return []

    def count_bounded(self, tally: Tally) -> int:
        return math.ceil(tally.weight)

    def count_shown(self, tally: Tally) -> int:
        return tally.predicted

    def find_lateness(self, setup: "Setup", progress: Progress) -> Lateness:
        """Return how answers came by now; after a miss that nothing prevents only guards hold."""
        tally, scale = progress.tally, getattr(progress.state, "scale", None)
        came = Lateness(
            lost=tally.lost_in_full > 0.0,
            weight=tally.heaviest,
            scale=1.0 if scale is None else float(scale[0]),
            told=(tally.lowest, tally.highest),
        )
        if tally.stale == 0.0:
            return came
        level = getattr(progress.state, "lateness", None)
        if level is None and hasattr(setup.learner.parameters, "late_excess"):
            raise TheoremError(
                f"answers came late, and {setup.learner.name} does not count how late; say how many "
                "rounds may be open at once: keyhole.bounds.excess(learner, rounds=..., open=...)"
            )
        age = 0 if level is None else int(level[0])
        # Of those that carry the excess past a guard only the first to be answered may not be stale.
        return replace(came, open=max(2, tally.most_open + 1), age=age)


Kind = Sets | Decisions
KindFeedback = Feedback | GateFeedback
GATE = Decisions()
_KINDS: dict[KindName, Kind] = {
    "labels": Sets("labels"),
    "interval": Sets("interval"),
    "band": Sets("band"),
    "gate": GATE,
}


def find_kind(score: Score[Any]) -> Kind:
    """Return the kind of prediction that is made from such a score, or raise if it is none."""
    scores.check_score(score)
    return _KINDS[score.kind]


def choose_score(learner: str | Learner | None) -> Score[Any]:
    """Return the score that a learner, or the rule of this name, plays unless another is given."""
    if learner is None:
        return Probabilities()
    rule = learner.rule if isinstance(learner, Learner) else find(learner)
    return next(kind.default_score() for kind in _KINDS.values() if kind.rules == rule.kind)
