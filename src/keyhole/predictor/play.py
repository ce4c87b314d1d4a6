"""Many rounds of bands in one call, in the order in which they were predicted and answered.

Nothing of what a learner does is done otherwise than round by round: the same kernels run in the same
order, in one loop.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keyhole.feedback import Answer, Needs
from keyhole.learners import Ask, Learner
from keyhole.learners.entries import bind_kernels, check_choices, compile_all
from keyhole.numeric import Array, Counts, can_compile, kernel
from keyhole.predictor.context import list_groups
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import Round, measure_delay
from keyhole.predictor.tally import Outcome
from keyhole.scores.intervals import Band

if TYPE_CHECKING:
    from keyhole.predictor.setup import Setup

_new: Any = tuple.__new__  # makes a named tuple in half the time that its class takes
_WORTH = 500_000  # events from which on it is worth while to compile a rule that runs interpreted


class Plan(NamedTuple):
    """What happens to the rounds of one predictor, each of which has a place here.

    ``numbers`` are those of rounds that are open already, -1 of the others; ``bands`` are the outputs
    of the others, and ``context`` is what is known of them. An event is the place of a round that is
    predicted, or -1 less the place of one that is answered, by its truth. ``total`` are the events of
    all predictors that are played one after the other.
    """

    numbers: Sequence[int]
    bands: Array
    truths: Array
    context: Array
    events: Counts
    total: int


class Shown(NamedTuple):
    """The numbers of rounds, and of each level the lower and the upper ends of their intervals."""

    numbers: list[int]
    ends: list[tuple[Array, Array]]


class Given(NamedTuple):
    """What a loop reads: the events, and by the place of a round its band and its truth."""

    events: Any
    middles: Any
    halves: Any
    truths: Any


class Played(NamedTuple):
    """The columns that a loop fills, by the place of a round."""

    numbers: Any
    thens: Any
    thresholds: Any
    misses: Any
    scores: Any
    stales: Any


def fits(setup: "Setup", progress: Progress) -> bool:
    """Return whether the rounds of a predictor are plain enough to be played at once."""
    learner = setup.learner
    return (
        setup.score.kind == "band"
        and learner.informed
        and learner.needs is Needs.HIT_OR_MISS
        and not learner.weighs_size
        and learner.horizon is None
        and progress.watch is None
        and progress.tally.usual == 1.0
    )


def play_bands(
    learner: Learner, progress: Progress, waiting: dict[int, Any], plan: Plan, *, keeps: bool
) -> tuple[Shown, list[tuple[Round[Any], Outcome]]]:
    """Play the rounds of a plan; return what each was shown, and those that were answered, if kept.

    ``waiting`` are those of them that are open, before and after.
    """
    rows, interpreted = len(plan.numbers), learner.runs_interpreted
    is_compiled = can_compile() and (not interpreted or plan.total > _WORTH)
    for number in waiting:
        plan.bands[plan.numbers.index(number)] = waiting[number].case.output
    lower, upper = plan.bands.T
    middles, halves = 0.5 * (lower + upper), 0.5 * (upper - lower)
    given: Any = Given(plan.events, middles, halves, plan.truths)
    played = Played(*np.zeros((2, rows), np.int64), *np.zeros((4, rows)))
    memos: Any = np.zeros((rows, learner.memory))
    for number, opened in waiting.items():
        place = plan.numbers.index(number)
        played.numbers[place], played.thens[place] = number, opened.then
        played.thresholds[place], memos[place] = opened.prediction.threshold, opened.memo
    state = progress.state
    if interpreted and is_compiled:
        state = _make_arrays(learner, state)
    elif interpreted:
        given, played, memos = _make_lists(given), _make_lists(played), memos.tolist()
    counts = progress.tally.predicted, progress.tally.answered
    arguments = ((*learner.settings, *state), memos, plan.context, given, counts, played)
    _find_loop(learner, arguments, is_compiled=is_compiled)(*arguments)
    if interpreted and is_compiled:
        progress.state, memos = _make_lists(state), memos.tolist()
    thresholds = np.asarray(played.thresholds)
    check_choices(learner.name, thresholds)
    ends = stretch_bands(middles, halves, thresholds)
    if is_compiled or not interpreted:
        played = _make_lists(played)
    answered = _count(learner, progress, waiting, plan, played, memos, ends, keeps=keeps)
    return Shown(played.numbers, [ends]), answered


def stretch_bands(middles: Array, halves: Array, thresholds: Array) -> tuple[Array, Array]:
    """Return the ends of bands at these thresholds, as ``Band.region`` does of one."""
    with np.errstate(all="ignore"):
        reach = halves * (1.0 / thresholds - 1.0)
        reach[thresholds <= 0.0] = np.inf
        reach[thresholds > 1.0] = -np.inf
        return middles - reach, middles + reach


def _make_lists(parts: Any) -> Any:
    return type(parts)(*(part.tolist() for part in parts))


def _make_arrays(learner: Learner, state: Any) -> Any:
    fresh = learner.start_arrays()
    kinds = [part.dtype for part in fresh]
    return type(fresh)(*(np.array(part, kind) for part, kind in zip(state, kinds, strict=True)))


def _count(
    learner: Learner,
    progress: Progress,
    waiting: dict[int, Any],
    plan: Plan,
    played: Played,
    memos: Any,
    ends: tuple[Array, Array],
    *,
    keeps: bool,
) -> list[tuple[Round[Any], Outcome]]:
    """Let the tally and the open rounds be what they are after these rounds."""
    numbers, thens, thresholds, misses, scores, stales = played
    tally, alpha, count = progress.tally, learner.alpha, progress.tally.count
    sizes = measure_bands(*ends).tolist()
    groups: Any = [()] * len(numbers)
    if learner.groups:
        groups = [list_groups(learner, row) for row in plan.context]
    answered = []

    def open_round(place: int) -> Round[Any]:
        band, memo = Band(*plan.bands[place].tolist()), memos[place]
        memo = memo if learner.runs_interpreted else memo.copy()  # A view would keep those of all.
        shown = band.region(numbers[place], thresholds[place])
        return _new(Round, (shown, band, memo, thens[place], groups[place]))

    events = plan.events.tolist()
    told = {-1 - event for event in events if event < 0}
    for event in events:
        if event >= 0:
            if event not in told:
                waiting[numbers[event]] = open_round(event)
            tally.predicted += 1
            continue
        place = -1 - event
        miss, threshold = misses[place], thresholds[place]
        opened = waiting.pop(numbers[place], None)
        own = groups[place] if opened is None else opened.groups
        count(miss, sizes[place], 1.0, stales[place], own)
        if not 0.0 < threshold <= 1.0:
            tally.note_conditions(miss, 1.0, threshold=threshold, alpha=alpha)
        if keeps:
            answered.append((opened or open_round(place), Outcome(miss, scores[place])))
    return answered


def measure_bands(lower: Array, upper: Array) -> Array:
    """Return the sizes of intervals with these ends; that of an empty one is 0."""
    sizes: Array = np.where(upper > lower, upper - lower, 0.0)
    return sizes


# What stands for these names is bound anew for every rule.
_choose: Any = None
_observe: Any = None
_make_settings: Any = None
_make_state: Any = None
_COUNT = 0  # of the settings, which come before the state


@kernel
def _loop(
    parts: Any, memos: Any, context: Array, given: Given, counts: tuple[int, int], played: Played
) -> None:
    settings, state = _make_settings(*parts[:_COUNT]), _make_state(*parts[_COUNT:])
    events, middles, halves, truths = given
    numbers, thens, thresholds, misses, scores, stales = played
    predicted, answered = counts
    for event in events:
        if event >= 0:
            numbers[event], thens[event] = predicted, answered
            thresholds[event] = _choose(settings, state, memos[event], Ask(0.5, context[event]))
            predicted += 1
            continue
        place = -1 - event
        miss, score = judge_band(middles[place], halves[place], truths[place], thresholds[place])
        age, stale = measure_delay(numbers[place], thens[place], predicted, answered)
        _observe(settings, state, memos[place], Answer(miss, score, age, stale, 0.0, 1.0, 1.0, 0.0))
        misses[place], scores[place], stales[place] = miss, score, stale
        answered += 1


@kernel
def judge_band(middle: float, half: float, truth: float, threshold: float) -> tuple[float, float]:
    """Return whether a band of this threshold misses the truth, and the truth's score.

    What was shown decides between hit and miss, not rounding.
    """
    score = 1.0 / (1.0 + abs(truth - middle) / half)
    missed = threshold > 1.0
    if 0.0 < threshold <= 1.0:
        reach = half * (1.0 / threshold - 1.0)
        missed = not middle - reach <= truth <= middle + reach
    if missed != (score < threshold):
        score = float(np.nextafter(threshold, -np.inf)) if missed else threshold
    return 1.0 if missed else 0.0, min(max(score, 0.0), 1.0)


_LOOPS: dict[tuple[Any, bool], Callable[..., None]] = {}  # by rule, and whether it is compiled


def _find_loop(
    learner: Learner, arguments: tuple[object, ...], *, is_compiled: bool
) -> Callable[..., None]:
    """Return the loop around the kernels of a rule, compiled now or loaded."""
    key = learner.rule, is_compiled
    if key not in _LOOPS:
        loop = bind_kernels(_loop, learner)
        _LOOPS[key] = compile_all(learner.rule, (loop, arguments))[0] if is_compiled else loop
    return _LOOPS[key]
