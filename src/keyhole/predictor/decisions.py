"""The rounds of a gate: what is decided, and what a judgement of it means.

The gate keeps its rounds in memory and the store keeps them in a database; both play them here.
"""

import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from keyhole.errors import FeedbackError, InvalidError, ReferredError, SnapshotError
from keyhole.feedback import (
    BESIDE,
    HIT,
    MISS,
    Answer,
    check_chance,
    check_wrong,
    correct_wrong,
)
from keyhole.learners import Ask, Learner
from keyhole.learners.entries import check_choice
from keyhole.learners.gates import ACCEPTED, CHANCE, FOR_GATES
from keyhole.learners.lateness import Lateness
from keyhole.learners.rule import RuleKind
from keyhole.numeric import Array
from keyhole.predictor.context import Names, list_groups, read_names, unpack_context
from keyhole.predictor.monitor import Watch, find_monitor
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import Round, check_amendable, check_graded, check_judged, measure_delay
from keyhole.predictor.tally import CountedRound, Outcome, Tally, amend_misses, count_check
from keyhole.scores import BestScore, Decision

if TYPE_CHECKING:
    from keyhole.predictor.setup import Setup

_ENOUGH = 50  # accepted answers before anything is said of how they are judged
_COUNT = struct.Struct("<H")
_PARTS = BESIDE | {"right", "judged"}


class GateFeedback(StrEnum):
    """Which cases of a gate are ever judged."""

    ACCEPTED = "accepted"  # those that were accepted: a thumb, a correction
    REFERRED = "referred"  # those that a person answered, and an audited share of the accepted
    BOTH = "both"


def check_gate_feedback(name: str) -> GateFeedback:
    try:
        return GateFeedback(name)
    except ValueError:
        known = ", ".join(feedback.value for feedback in GateFeedback)
        raise FeedbackError(f"there is no feedback {name!r} of a gate; there are {known}") from None


def tells_of(feedback: GateFeedback) -> tuple[bool, bool]:
    """Return whether accepted and whether referred cases may be judged."""
    return True, feedback != GateFeedback.ACCEPTED


@dataclass(frozen=True, slots=True)
class Decisions:
    """Answers accepted by their score or referred: judged by whether they were right."""

    name: ClassVar[Literal["gate"]] = "gate"
    decides: ClassVar[bool] = True
    makes: ClassVar[str] = "decisions"
    closed: ClassVar[str] = "referred, answered, or closed without an answer"
    history: ClassVar[tuple[str, str]] = "judgements", "scores"
    afresh: ClassVar[str] = "make a new gate for it"
    rules: ClassVar[RuleKind] = FOR_GATES
    default_score: ClassVar[type[BestScore]] = BestScore
    default_feedback: ClassVar[GateFeedback] = GateFeedback.ACCEPTED

    def read_names(self, features: Any, groups: Any) -> tuple[dict[str, int], Names]:
        self.check_features(features)
        if isinstance(groups, int):
            fault = f"a gate's groups are named; give names instead of their number, {groups}"
            raise InvalidError(fault, field="groups")
        return {}, Names(groups=read_names(groups, "groups")[1])

    def check_features(self, features: object) -> None:
        """Raise if there are any."""
        if features is not None:
            raise InvalidError(
                "a gate takes no features: it would learn what they mean from the cases it let "
                "through alone; let the model that makes the score use them, or name groups",
                field="features",
            )

    def check_feedback(self, setup: "Setup") -> GateFeedback:
        setup.learner.rule.check_kind(self.rules)
        return check_gate_feedback(setup.feedback)

    def check_levels(self, setup: "Setup") -> None:  # noqa: ARG002
        raise InvalidError("a gate has one alpha; make one for each", field="alpha")

    def count_open(self, setup: "Setup", tally: Any) -> int:
        awaited = tally.accepted if setup.feedback == GateFeedback.ACCEPTED else tally.predicted
        return int(awaited - tally.answered - tally.expired - tally.skipped)

    def start(self, setup: "Setup", *, watch: bool = False) -> Progress:
        learner, groups = setup.learner, setup.groups
        states = [learner.start() for _ in range(groups)]
        watched = Watch() if watch else None
        return Progress(learner.start(), Tally.start(groups, decides=True), None, watched, states)

    def read(self, setup: "Setup", progress: Progress, output: object) -> Any:  # noqa: ARG002
        return setup.score.read(output)

    def open(
        self,
        learner: Learner,
        progress: Progress,
        case: Any,
        draw: float,
        context: Array,
    ) -> Round[Any]:
        tally = progress.tally
        groups = list_groups(learner, context) if context.size else ()
        states, memos, threshold = _list_states(progress, groups), list[Any](), -math.inf
        ask = Ask(draw)
        for state in states:
            memo = learner.blank.copy()
            own = learner.choose_into(state, memo, ask)
            if own.__class__ is not float or own != own:
                check_choice(learner.rule.name, own)
            threshold = max(threshold, own)
            memos.append(memo)
        decision = case.region(tally.predicted, threshold)
        accepted = decision.accepted
        noted = Answer(math.nan, case.best)
        for state, memo in zip(states, memos, strict=True):
            memo[ACCEPTED], memo[CHANCE] = float(accepted), 1.0
            learner.observe(state, memo, noted)
        tally.predicted += 1
        tally.accepted += accepted
        return Round(decision, case, memos, tally.answered, groups)

    def is_awaited(self, setup: "Setup", shown: Any) -> bool:
        return bool(shown.accepted) or setup.feedback != GateFeedback.ACCEPTED

    def check_awaited(self, setup: "Setup", shown: object) -> None:
        if isinstance(shown, Decision) and not self.is_awaited(setup, shown):
            raise ReferredError(
                f"round {shown.id} was referred, and this gate learns only from accepted answers; "
                "make it with feedback='both' to use what people say of referred ones"
            )

    def recall(
        self, setup: "Setup", kept: Any, *, then: int = 0, memo: bytes | None = None
    ) -> Round[Any]:
        """Return a round again from its row; without a memo, only to be judged and amended."""
        case = setup.score.unpack(kept.output, kept.labels)
        groups = list_groups(setup.learner, unpack_context(setup, kept.context))
        memos = [] if memo is None else self.unpack_memo(setup, memo, len(groups))
        return Round(case.region(kept.number, kept.threshold), case, memos, then, groups)

    def choose_again(self, setup: "Setup", progress: Progress, waiting: Round[Any]) -> list[Any]:
        """Return memos as if an open round of another learner were asked about now."""
        memos = []
        for state in _list_states(progress, waiting.groups):
            _, memo = setup.learner.choose(state)
            memo[ACCEPTED], memo[CHANCE] = float(waiting.prediction.accepted), 1.0
            memos.append(memo)
        return memos

    def is_counted(self, shown: Any) -> bool:
        """Return whether such a round is one of those whose share of wrong answers is promised."""
        return bool(shown.accepted)

    def translate(self, setup: "Setup", own: Any, shown: Any, answer: Any) -> Any:
        """Return what the judgement of a decision tells of another on the same case; or None."""
        if not self.is_awaited(setup, own):
            return None
        if own.accepted and not shown.accepted:
            return {**answer, "chance": 1.0}  # Whoever judged it had to: it was no audit.
        return answer

    def unpack_memo(self, setup: "Setup", content: bytes, groups: int) -> list[Any]:
        size = self.measure_memo(setup, 0)
        parts = [content[size * n : size * (n + 1)] for n in range(groups + 1)]
        return [setup.learner.unpack_memo(part) for part in parts]

    def measure_memo(self, setup: "Setup", groups: int) -> int:
        return 8 * setup.learner.memory * (groups + 1)

    def pack_waiting(self, setup: "Setup", opened: Round[Any]) -> tuple[bytes, bytes]:
        """Return nothing, and what stands before an open decision's output: its groups and memos."""
        groups = opened.groups
        memos = b"".join([setup.learner.pack_memo(memo) for memo in opened.memo])
        return b"", _COUNT.pack(len(groups)) + struct.pack(f"<{len(groups)}H", *groups) + memos

    def unpack_waiting(self, setup: "Setup", waiting: Any) -> Round[Any]:
        """Return an open decision of a key again, to be judged; or raise."""
        content = waiting.output
        try:
            (count,) = _COUNT.unpack_from(content)
            groups = struct.unpack_from(f"<{count}H", content, _COUNT.size)
            begin = _COUNT.size * (1 + count)
            end = begin + self.measure_memo(setup, count)
            memos = self.unpack_memo(setup, content[begin:end], count)
            case = setup.score.unpack(content[end:], waiting.labels)
        except (struct.error, InvalidError, ValueError, LookupError) as error:
            raise SnapshotError(
                f"an open decision of a key is not to be read ({error}); restore its state from a copy"
            ) from None
        if any(group >= setup.groups for group in groups):
            raise SnapshotError(
                f"an open decision of a key is of groups {groups}, and there are {setup.groups}; "
                "restore its state from a copy"
            )
        shown = case.region(waiting.number, waiting.threshold)
        return Round(shown, case, memos, waiting.then, groups)

    def answer_event(
        self,
        setup: "Setup",
        progress: Progress,
        waiting: Round[Any],
        event: Any,
        *,
        seed: int,  # noqa: ARG002
    ) -> Outcome:
        outcome = self.read_judgement(
            setup,
            waiting,
            right=event.right,
            chance=None if event.chance == 1.0 else event.chance,
            wrong=event.wrong,
            judged=None if event.judged is None else _read_word(event.judged),
            bias=progress.tally.bias,
        )
        return self.settle(setup, progress, waiting, outcome)

    def read_truth(self, setup: "Setup", opened: Round[Any], truth: object) -> Outcome:  # noqa: ARG002
        """Return what a judgement of history says: all of it was judged, referred cases too."""
        shown: Decision = opened.prediction
        return Outcome(_read_miss(truth, 0.0), shown.score, weight=float(shown.accepted))

    def read_answer(
        self, setup: "Setup", waiting: Round[Any], answer: Any, *, bias: float = 0.0
    ) -> Outcome:
        known = isinstance(answer, Mapping) and answer.keys() & {"right", "judged"}
        if not known or not answer.keys() <= _PARTS:
            raise FeedbackError(f"{answer!r} is not a judgement; give right, true or false, or skip")
        return self.read_judgement(setup, waiting, bias=bias, **answer)

    def read_judgement(
        self,
        setup: "Setup",
        waiting: Round[Any],
        *,
        right: object = None,
        chance: float | None = None,
        wrong: float = 0.0,
        judged: object = None,
        bias: float = 0.0,
    ) -> Outcome:
        """Return what a judgement says of a round, corrected; or raise. A referred case weighs 0."""
        decision: Decision = waiting.prediction
        self.check_awaited(setup, decision)
        weight = 1.0 / _read_chance(chance, decision, setup) if decision.accepted else 0.0
        if judged is None:
            return Outcome(_read_miss(right, wrong), decision.score, weight=weight)
        check_judged(wrong)
        check_graded(setup.learner, "what a judge says")
        told = _read_miss(judged, 0.0, "judged")
        check = math.nan if right is None else _read_miss(right, 0.0) - told
        return Outcome(told + bias, decision.score, weight=weight, check=check)

    def read_amended(self, answered: Round[Any], setup: "Setup", answer: object) -> Outcome:  # noqa: ARG002
        """Return what an amended judgement says; its chance is that of the first."""
        right = answer.get("right") if isinstance(answer, Mapping) else answer
        return Outcome(_read_miss(right, 0.0), answered.prediction.score)

    def settle(
        self,
        setup: "Setup",
        progress: Progress,
        waiting: Round[Any],
        outcome: Outcome,
    ) -> Outcome:
        """Teach the progress what a judgement came to."""
        learner, tally = setup.learner, progress.tally
        decision: Decision = waiting.prediction
        miss, weight = outcome.miss, outcome.weight
        age, stale = measure_delay(decision.id, waiting.then, tally.predicted, tally.answered)
        answer = Answer(miss, decision.score, age, stale, weight=weight or 1.0)
        for state, memo in zip(_list_states(progress, waiting.groups), waiting.memo, strict=True):
            memo[CHANCE] = 1.0 / answer.weight
            learner.observe(state, memo, answer)
        if weight and stale:
            tally.most_open = max(tally.most_open, self.count_open(setup, tally))
        _count(setup, progress, miss, weight, then=waiting.then, stale=stale, groups=waiting.groups)
        if outcome.check is not None and weight:
            count_check(tally, outcome.check)
        if weight:
            tally.heaviest = max(tally.heaviest, weight)
            tally.lowest, tally.highest = min(tally.lowest, miss), max(tally.highest, miss)
        return outcome

    def count(
        self,
        setup: "Setup",
        progress: Progress,
        counted: CountedRound,
        *,
        then: int,
    ) -> None:
        """Count a judgement of which nothing but its account is known; the learner does not hear it."""
        tally, (number, _, miss, weight) = progress.tally, counted
        _, stale = measure_delay(number, then, tally.predicted, tally.answered)
        _count(setup, progress, miss, weight, then=then, stale=stale)

    def amend(
        self,
        setup: "Setup",
        progress: Progress,
        answered: Round[Any],
        before: Outcome,
        outcome: Outcome,
    ) -> Outcome:
        """Let the accounts be those of another outcome than the one that was counted; or raise."""
        learner, weight, change = setup.learner, before.weight, outcome.miss - before.miss
        check_amendable(learner)
        if change and weight:  # A referred case is in no account.
            told = Answer(learner.alpha + change, before.score, weight=weight, amends=1.0)
            for state in _list_states(progress, answered.groups):
                _, memo = learner.choose(state)
                memo[ACCEPTED], memo[CHANCE] = 1.0, 1.0 / weight
                learner.observe(state, memo, told)
            amend_misses(progress.tally, weight * change, answered.groups)
        return outcome._replace(weight=weight)

    def list_notes(self, tally: Tally, *, alpha: float) -> list[str]:
        """Return a sentence if few accepted answers are judged, and too many of them wrong."""
        accepted, wrong, weight = tally.accepted, tally.misses, tally.weight
        expected = alpha * weight
        if accepted < _ENOUGH or weight > accepted / 2 or wrong <= expected + 3 * expected**0.5:
            return []
        return [
            f"{accepted:,} answers were accepted, {weight:,.0f} of them judged, {wrong:,.0f} of these "
            "wrong. If mostly wrong answers are reported, the gate hears of too few right ones and "
            "refers nearly everything. Audit some accepted answers, drawn at random whether reported "
            "or not: pass what an audit finds as right=, and what people report, silence as right, as "
            "judged=."
        ]

    def count_bounded(self, tally: Tally) -> int:
        return max(
            tally.predicted, math.ceil(tally.weight)
        )  # audits may count for more than there were

    def count_shown(self, tally: Tally) -> int:
        return tally.accepted

    def find_lateness(self, setup: "Setup", progress: Progress) -> Lateness:  # noqa: ARG002
        # Of what waited when the guard shut, each next one to be judged is older by one; if m of those
        # were accepted, the level is at least m - 1. And all but the first are stale when it comes.
        level = getattr(progress.state, "late", None)
        age = 0 if level is None else int(level[0])
        tally = progress.tally
        told, waited = (tally.lowest, tally.highest), min(age, tally.most_open)
        return Lateness(open=waited + 1, age=age, weight=tally.heaviest, told=told)


def _count(
    setup: "Setup",
    progress: Progress,
    miss: float,
    weight: float,
    *,
    then: int,
    stale: float,
    groups: tuple[int, ...] = (),
) -> None:
    """Let the tally and the watch count a judgement; that of a referred case weighs nothing."""
    progress.tally.count(miss, 0.0, weight, groups=groups)
    if weight and progress.watch is not None:
        heard = progress.tally.calibrated + then
        # Too few are no fault: a good model leaves nothing to refer.
        monitor = find_monitor(setup.learner.alpha, is_two_sided=False)
        monitor.observe(progress.watch, miss, weight, heard=heard, stale=stale)


def _list_states(progress: Progress, groups: Iterable[int]) -> list[Any]:
    return [progress.state, *map(progress.states.__getitem__, groups)]


def _read_chance(chance: object, decision: Decision, setup: "Setup") -> float:
    if chance is None:
        if decision.accepted and setup.feedback == GateFeedback.REFERRED:
            raise FeedbackError(
                "with feedback='referred' accepted answers are judged by audit; say with what "
                "chance this one was picked: chance=0.1"
            )
        return 1.0
    return check_chance(chance, least=setup.least_chance)


def _read_word(judged: object) -> bool:
    """Return whether a judge of a key says that the answer was right."""
    if judged not in (HIT, MISS):
        raise FeedbackError(
            f"judged={judged!r:.80} is neither keyhole.HIT nor keyhole.MISS; in an event a judge says "
            "HIT for a right answer and MISS for a wrong one"
        )
    return judged == HIT


def _read_miss(right: object, wrong: object, called: str = "right") -> float:
    """Return 1 for a wrong answer, 0 for a right one; corrected for judges who err at a known rate."""
    if not isinstance(right, (bool, np.bool_)):
        raise FeedbackError(
            f"{called}={right!r} is neither True nor False; say True if the answer was right, and "
            "False if it was wrong: keyhole.HIT and keyhole.MISS are for sets"
        )
    return correct_wrong(float(not right), check_wrong(wrong))
