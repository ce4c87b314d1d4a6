"""One round: what is proposed, what an answer to it means, and what the answered rounds add up to.

The predictor keeps its rounds in memory and the store keeps them in a database; both play them here.

In a log an answer is JSON: ``"hit"``, ``"miss"``, ``"skip"``, or an object that holds ``label``,
``score``, ``loss``, ``hit``, ``miss`` or ``right``, and beside it ``chance``, ``wrong``
or ``judged`` where given.
"""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from keyhole.checks import is_real
from keyhole.errors import FeedbackError, ScoreError
from keyhole.feedback import (
    BESIDE,
    HIT,
    LEAST_CHANCE,
    MISS,
    Answer,
    Needs,
    check_chance,
    check_wrong,
    correct_wrong,
    count_times,
    find_pace,
    usable_score,
)
from keyhole.learners import Ask, Learner
from keyhole.learners.entries import check_choice
from keyhole.numeric import Array, kernel
from keyhole.predictor.context import NOTHING_KNOWN, list_groups
from keyhole.predictor.draws import draw_rounding
from keyhole.predictor.monitor import find_monitor
from keyhole.predictor.progress import Progress
from keyhole.predictor.tally import Outcome, Tally, amend_misses, count_check
from keyhole.scores import Case, LabelSet, Predicted


class _Missing:
    """A label that is not given; one object, in copies and in other processes too."""

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from keyhole.predictor.setup import Setup

    R = TypeVarWithDefault("R", bound=Predicted, default=LabelSet)
else:
    R = TypeVar("R", bound=Predicted)
_WORDS: Mapping[str, Mapping[str, Any]] = {"hit": {"hit": True}, "miss": {"miss": True}}
_ONE_OF = frozenset(("label", "hit", "miss", "score", "loss"))
_LEAST = Needs.HIT_OR_MISS
_PLAIN = Ask()  # what a rule is asked with that reads neither draw nor context
_UNKNOWN = math.nan
_ENDLESS = math.inf
LISTENS = 20  # An informed learner hears the model's word until so many answers have come,
MOST_HEARD = 1_000  # and of so many rounds at most.
_new: Any = tuple.__new__  # makes a named tuple in half the time that its class takes


class Round(NamedTuple, Generic[R]):
    """A round that waits for its answer.

    ``then`` is how many answers had been counted before it, ``groups`` are those that it belongs to.
    """

    prediction: R
    case: Case[R]
    memo: Any
    then: int
    groups: tuple[int, ...] = ()


def propose(
    learner: Learner,
    progress: Progress,
    case: Case[R],
    draw: float = 0.5,
    context: Array = NOTHING_KNOWN,
) -> Round[R]:
    """Return the next round, open and counted; what the model's word teaches is learnt before."""
    tally, state = progress.tally, progress.state
    number = tally.predicted
    if number < MOST_HEARD and learner.informed and state.rounds[0] < LISTENS:
        listen(learner, progress, case)
    memo = learner.blank.copy()
    ask = _new(Ask, (draw, context)) if learner.reads_ask else _PLAIN
    choose = learner.choose_into
    threshold = choose(state, memo, ask)
    if threshold.__class__ is not float or threshold != threshold:  # A call would take longer.
        check_choice(learner.name, threshold)
    shown = case.region(number, threshold)
    tally.predicted = number + 1
    groups = list_groups(learner, context) if learner.groups else ()
    return _new(Round, (shown, case, memo, tally.answered, groups))


def is_listening(learner: Learner, progress: Progress, ahead: int = 0) -> bool:
    """Return whether a learner of few answers still hears the model's word, so many rounds ahead."""
    return (
        learner.informed
        and progress.state.rounds[0] < LISTENS
        and progress.tally.predicted + ahead < MOST_HEARD
    )


def listen(learner: Learner, progress: Progress, speaker: object) -> None:
    """Let a learner hear what a case or a score says of the truth: scores, and how likely each is."""
    find_masses = getattr(speaker, "masses", None)
    if find_masses is None:
        return
    state, (scores, shares) = progress.state, find_masses()
    hear_all = getattr(learner.parameters, "hear_all", None)
    if hear_all is not None:
        hear_all(state, scores, shares)
        return
    memo, observe = learner.new_memo(), learner.observe
    for score, share in zip(scores, shares, strict=True):
        observe(state, memo, Answer(miss=_UNKNOWN, score=score, weight=share))


def settle(setup: "Setup", progress: Progress, waiting: Round[R], outcome: Outcome) -> Outcome:
    """Teach the progress what an answer came to, by its weight; or raise, unchanged."""
    learner, tally = setup.learner, progress.tally
    shown, case, memo, then, groups = waiting
    miss, score, unreachable, residual, weight, check = outcome
    age, stale, loss = 0.0, 0.0, miss
    if then != tally.answered or shown.id + 1 != tally.predicted:
        age, stale = measure_delay(shown.id, then, tally.predicted, tally.answered)
    if (
        residual is not None
        and (scale := progress.scale) is not None
        and (case.residuals.scale != scale.value or scale.middle)  # type: ignore[attr-defined]
    ):  # The scale was another one, or may still move.
        loss, score = _rate_residual(learner, progress, case, outcome)
    if learner.needs is not _LEAST or not learner.informed:
        used = usable_score(learner.rule.name, learner.needs, miss, score)
        score = score if learner.informed else used
    cost = _compare_sizes(waiting) if learner.weighs_size else 0.0
    answer = _new(Answer, (loss, score, age, stale, cost, 1.0, 1.0, 0.0))
    if weight == tally.usual == 1.0:
        learner.observe(progress.state, memo, answer)
    else:
        _observe_weighted(learner, progress, memo, answer, weight)
    if (watch := progress.watch) is not None:
        heard = tally.calibrated + then
        monitor = find_monitor(learner.alpha, is_two_sided=not is_never_empty(setup))
        monitor.observe(watch, miss, weight, heard=heard, stale=tally.stale)
    tally.count(miss, shown.size, weight, stale, groups)
    # Within an ``if`` the interpreter compares floats in less than half the time.
    if not (
        0.0 < shown.threshold <= 1.0
        and 0.0 <= miss <= weight == 1.0
        and not unreachable
        and check is None
    ):
        _note_unusual(tally, outcome, threshold=shown.threshold, alpha=learner.alpha)
    return outcome


def is_never_empty(setup: "Setup") -> bool:
    """Return whether sets have a floor, so that misses may stay below their target for good."""
    return getattr(setup.score, "at_least", 0) > 0


def _note_unusual(tally: Tally, outcome: Outcome, *, threshold: float, alpha: float) -> None:
    tally.note_conditions(outcome.miss, outcome.weight, threshold=threshold, alpha=alpha)
    tally.unreachable += outcome.unreachable
    if outcome.check is not None:
        count_check(tally, outcome.check, outcome.weight / tally.usual)


def _rate_residual(
    learner: Learner, progress: Progress, case: Any, outcome: Outcome
) -> tuple[float, float]:
    """Learn the residual of a true value; return the loss and the score that the learner hears.

    The score is at the scale of now. The whole line, shown while there was no scale, could not miss,
    which says nothing of any threshold: the loss is alpha, which moves none.
    """
    found: Any = progress.scale
    residuals = case.residuals
    was_unknown = found.value == 0.0
    found.add(outcome.residual)
    if was_unknown and found.value and learner.informed:
        listen(learner, progress, found.fit(residuals))
    is_now = residuals.scale == found.value
    score = outcome.score if is_now else found.fit(residuals).score(outcome.residual)
    if residuals.scale is not None or not learner.rule.graded:
        return outcome.miss, score
    progress.tally.calibrated_excess += learner.alpha * outcome.weight
    return learner.alpha, score


def _observe_weighted(
    learner: Learner, progress: Progress, memo: object, answer: Answer, weight: float
) -> None:
    """Teach an answer that counts for so many rounds: once, or that often where no weight is read."""
    tally = progress.tally
    if learner.rule.graded:
        pace, tally.usual = find_pace(weight, tally.usual, tally.answered)
        learner.observe(progress.state, memo, answer._replace(weight=weight, pace=pace))
        return
    for _ in range(int(weight)):
        learner.observe(progress.state, memo, answer)


def change_miss(
    learner: Learner, progress: Progress, change: float, *, weight: float, groups: tuple[int, ...]
) -> None:
    """Let the accounts be those of a loss that is larger by so much than the one that was counted.

    Accounts and position move by the difference, as one answer that comes now would move them: that
    leaves the sum alone by which misses are bounded. Or raise, unchanged.
    """
    check_amendable(learner)
    if change:
        tally = progress.tally
        memo = choose_again(learner, progress, groups)
        pace, _ = find_pace(weight, tally.usual, tally.answered)
        told = Answer(learner.alpha + change, _UNKNOWN, weight=weight, pace=pace, amends=1.0)
        learner.observe(progress.state, memo, told)
        amend_misses(tally, weight * change, groups if tally.members else ())  # A key keeps none.


def choose_again(learner: Learner, progress: Progress, groups: Iterable[int]) -> Any:
    """Return the memo of a choice for a case of these groups, of which nothing else is known."""
    context = learner.make_unknown_context()
    for group in groups:
        context[learner.features + group] = 1.0
    memo = learner.new_memo()
    learner.choose_into(progress.state, memo, Ask(0.5, context))
    return memo


def _compare_sizes(waiting: Round[R]) -> float:
    """Return how much larger the set at the first threshold of the memo is than that at the second."""
    larger, smaller = (waiting.case.region(0, float(at)).size for at in waiting.memo[:2])
    cost = larger - smaller
    return cost if math.isfinite(cost) else 0.0  # Two endless intervals tell nothing.


@kernel
def measure_delay(number: int, then: int, predicted: int, answered: int) -> tuple[float, float]:
    """Return the age of an answer, and how stale it is.

    The age is how many answers were counted since its round was predicted. To that, staleness adds
    the sets predicted since, in so far as they will be answered: the share of rounds that get an
    answer at all is estimated by (answered + 1) / (number + 1).
    """
    age = float(answered - then)
    gap = float(predicted - 1 - number)
    if gap == 0.0:
        return age, age
    share = (answered + 1.0) / (number + 1.0)
    return age, age + gap * (share if share < 1.0 else 1.0)


def answer_round(setup: "Setup", progress: Progress, waiting: Round[Any], answer: object) -> Outcome:
    """Teach the progress what an answer says, as a log has it; or raise, unchanged."""
    outcome = setup.kind.read_answer(setup, waiting, answer, bias=progress.tally.bias)
    return setup.kind.settle(setup, progress, waiting, outcome)


def read_told(setup: "Setup", waiting: Round[Any], answer: object, *, bias: float = 0.0) -> Outcome:
    """Return what an answer says, as a log has it, or raise; ``bias`` is added to a judge's word."""
    parts = dict(read_parts(answer))
    hit, miss = parts.pop("hit", None), parts.pop("miss", None)
    told = HIT if hit else MISS if miss else None
    more = {"seed": setup.seed, "least_chance": setup.least_chance, **parts}
    judged = more.pop("judged", None)
    if judged is None:
        return read_answer(setup.learner, waiting, told, **more)
    if judged not in _WORDS or "wrong" in more:
        raise FeedbackError(f"judged is {judged!r}; a judge says 'hit' or 'miss', without wrong")
    word = HIT if judged == "hit" else MISS
    return read_judged(setup.learner, waiting, word, told, bias=bias, **more)


def read_parts(answer: object) -> Mapping[str, Any]:
    parts = _WORDS.get(answer, {}) if isinstance(answer, str) else answer
    if isinstance(parts, dict):
        beside = parts.keys() - _ONE_OF
        count = len(parts) - len(beside)
        if (count == 1 or (count == 0 and "judged" in parts)) and beside <= BESIDE | {"judged"}:
            return parts
    raise FeedbackError(
        f"{answer!r} is not an answer; give label, hit, miss, score, loss or skip, one of them"
    )


def read_answer(
    learner: Learner,
    waiting: Round[R],
    answer: Answer | None = None,
    label: object = MISSING,
    score: float | None = None,
    loss: float | None = None,
    chance: float = 1.0,
    wrong: float = 0.0,
    seed: int = 0,
    least_chance: float = LEAST_CHANCE,
) -> Outcome:
    """Return what the one answer that was given says of the round; raise if there is none to take.

    ``seed`` fixes how often an answer of known chance is heard by a rule that takes no weights.
    """
    if label is not MISSING and answer is None and score is None and loss is None:
        outcome = judge_label(waiting, label)
    elif (answer is not None) + (label is not MISSING) + (score is not None) + (loss is not None) == 1:
        outcome = _judge_told(learner, waiting, answer, score, loss, is_certain=wrong == 0.0)
    else:
        raise FeedbackError(
            "a round takes one answer: keyhole.MISS, keyhole.HIT, label=..., score=... or loss=..."
        )
    if wrong != 0.0:
        outcome = _correct_wrong(learner, waiting, outcome, wrong)
    if outcome.residual is None and waiting.prediction.size == _ENDLESS:
        _check_scaled(waiting)
    if chance == 1.0:
        return outcome
    share = check_chance(chance, least=least_chance)
    return outcome._replace(
        weight=weigh_answer(learner, share, seed=seed, number=waiting.prediction.id)
    )


def _judge_told(
    learner: Learner,
    waiting: Round[R],
    answer: object,
    score: float | None,
    loss: float | None,
    *,
    is_certain: bool,
) -> Outcome:
    """Return what an answer says that is no label: a score, a hit or a miss, or a loss."""
    shown = waiting.prediction
    if score is not None:
        return _judge_score(shown.threshold, score)
    if answer is None:
        outcome = Outcome(check_loss(loss), _UNKNOWN)
        check_graded(learner, "graded answers")
        return outcome
    outcome = _judge_answer(shown.threshold, answer)
    if outcome.miss == 0.0 and shown.size == 0.0 and is_certain:
        _check_not_empty(shown)
    return outcome


def read_judged(
    learner: Learner,
    waiting: Round[R],
    judged: Answer,
    answer: Answer | None = None,
    *,
    label: object = MISSING,
    score: float | None = None,
    loss: float | None = None,
    chance: float = 1.0,
    bias: float = 0.0,
    seed: int = 0,
    least_chance: float = LEAST_CHANCE,
) -> Outcome:
    """Return what a judge says of a round, who errs as often as ``bias`` makes up for.

    If the round was checked, the truth is given beside it: it moves the bias, not the round itself.
    """
    check_graded(learner, "what a judge says")
    if not isinstance(judged, Answer):
        raise FeedbackError(
            f"judged={judged!r:.80} is no verdict on a set; give keyhole.HIT or keyhole.MISS, and the "
            "truth of a round that was checked beside it, as label=..."
        )
    check, known = _UNKNOWN, _find_known(waiting)
    if waiting.prediction.size == 0.0 and judged == HIT:
        judged = MISS  # The judge errs: an empty set holds nothing.
    outcome = read_answer(learner, waiting, judged, chance=chance, seed=seed, least_chance=least_chance)
    if (answer, score, loss) != (None, None, None) or label is not MISSING:
        truth = read_answer(learner, waiting, answer, label=label, score=score, loss=loss)
        check = truth.miss - outcome.miss
    if known is not None:  # Its check is not of a round that the bias corrects.
        return outcome._replace(miss=known, score=_UNKNOWN)
    return outcome._replace(miss=outcome.miss + bias, score=_UNKNOWN, check=check)


def _judge_score(threshold: float, score: Any) -> Outcome:
    plain = type(score) is float or is_real(score)  # NaN is below nothing
    if not (plain and 0.0 <= score <= 1.0):
        raise ScoreError(f"score {score!r} is not a number in [0, 1]; rescale it first")
    return _new(Outcome, (1.0 if score < threshold else 0.0, float(score), False, None, 1.0, None))


def check_loss(loss: Any) -> float:
    if not (is_real(loss) and 0.0 <= loss <= 1.0):
        raise FeedbackError(f"loss {loss!r} is not a number in [0, 1]; 0 is a hit, 1 a miss")
    return float(loss)


def _judge_answer(threshold: float, answer: object) -> Outcome:
    if not isinstance(answer, Answer):
        named = f"label={answer!r}" if isinstance(answer, str) else "label=..."
        raise FeedbackError(
            f"{answer!r} is not an answer; use keyhole.MISS, keyhole.HIT, {named} or score=..."
        )
    if answer.miss not in (0.0, 1.0):
        raise FeedbackError(f"{answer!r} is neither a hit nor a miss; give loss= for a graded answer")
    miss, score = answer[:2]
    if score != score:  # NaN: not told
        return _new(Outcome, (miss, _UNKNOWN, False, None, 1.0, None))
    outcome = _judge_score(threshold, score)
    if outcome.miss != miss:
        raise FeedbackError(
            f"{answer!r} contradicts itself at threshold {threshold:g}, where that score is a "
            f"{'miss' if outcome.miss else 'hit'}; give score= alone"
        )
    return outcome


def _check_not_empty(shown: Any) -> None:
    """Raise if what was shown holds nothing; an interval of no width holds its one value."""
    if shown.is_empty:
        raise FeedbackError(
            f"the {shown.noun} of round {shown.id} is empty, so it cannot be a hit; answer keyhole.MISS"
        )


def _check_scaled(waiting: Round[R]) -> None:
    """Raise if an answer tells no true value where none has told the scale yet."""
    residuals: Any = getattr(waiting.case, "residuals", None)
    if hasattr(residuals, "at_scale") and residuals.scale is None:
        raise FeedbackError(
            f"interval {waiting.prediction.id} is the whole line, because no true value is known yet; "
            f"answer label=..., or give a typical error: {type(residuals).__name__}(scale=...)"
        )


def judge_label(waiting: Round[R], label: object) -> Outcome:
    """Return what a label says. What was shown decides between hit and miss, not rounding."""
    prediction: Any = waiting.prediction
    case: Any = waiting.case
    edge, residual = prediction.threshold, None
    find_residual = getattr(case, "residual", None)
    if find_residual is None:
        score = case.score(label)
    else:
        residual = find_residual(label)
        score = case.residuals.score(residual)
    miss = 1.0 if score < edge or score < 0.0 else 0.0
    # Without limits on its size, a set holds what reaches its threshold: no need to look twice.
    if residual is not None or not getattr(case, "is_unlimited", False):
        if label in prediction:
            if miss:
                miss, score = 0.0, edge
        elif not miss:
            miss, score = 1.0, math.nextafter(edge, -math.inf)
    if score < 0.0:
        return _new(Outcome, (miss, 0.0, miss == 1.0, residual, 1.0, None))
    return _new(Outcome, (miss, score if score < 1.0 else 1.0, False, residual, 1.0, None))


def weigh_answer(learner: Learner, chance: float, *, seed: int, number: int) -> float:
    """Return for how many rounds the answer to a round counts that came with this chance.

    A rule that takes no weights hears it a whole number of times, which is right on average.
    """
    if learner.rule.graded:
        return 1.0 / chance
    return float(count_times(chance, draw_rounding(seed, number)))


def _correct_wrong(learner: Learner, waiting: Round[R], outcome: Outcome, wrong: float) -> Outcome:
    """Return an outcome told wrong with this known chance, so that on average it tells the truth.

    Whatever is told, a set of everything hit and an empty one missed: guards rely on that.
    """
    miss, known = correct_wrong(outcome.miss, check_wrong(wrong)), _find_known(waiting)
    check_graded(learner, "answers that may be wrong")
    return outcome._replace(miss=miss if known is None else known, score=_UNKNOWN, residual=None)


def _find_known(waiting: Round[Any]) -> float | None:
    """Return whether a set of everything or nothing misses, which is known; of any other, None."""
    shown = waiting.prediction
    if shown.threshold <= 0.0 and getattr(getattr(waiting.case, "kind", None), "at_most", None) is None:
        return 0.0
    return 1.0 if shown.threshold > 1.0 and shown.is_empty else None


def check_amendable(learner: Learner) -> None:
    if not learner.rule.graded:
        default = learner.rule.kind.default
        raise FeedbackError(f"{learner.name} cannot take an answer back; use {default}, which can")


def check_judged(wrong: float) -> None:
    """Raise if the rate at which a judge errs is given, who is there because nobody knows it."""
    if wrong:
        raise FeedbackError(
            "judged= estimates how often a judge errs, and wrong= states it; give one of them"
        )


def check_graded(learner: Learner, what: str) -> None:
    if not learner.rule.graded:
        raise FeedbackError(
            f"{learner.name} takes hits and misses only, not {what}; use a learner that takes them, "
            f"such as {learner.rule.kind.default}"
        )
