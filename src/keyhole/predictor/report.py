"""What is reported of a learner at work: notes, warnings, bounds, groups, and its picture."""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from keyhole.errors import BoundWarning, TheoremError, TheoryWarning, warn_user
from keyhole.learners import Excess, Learner
from keyhole.learners.lateness import Lateness
from keyhole.predictor.context import Group
from keyhole.predictor.monitor import Alarm, Watch
from keyhole.predictor.progress import Progress
from keyhole.predictor.setup import Setup
from keyhole.predictor.tally import Tally
from keyhole.scores.pictures import draw_rate, write_table

_LATE = 30.0  # From here on sets are measurably larger: benchmarks/late.py.
_TOO_FEW = (
    " Either sets could be smaller, or the answers are wrong: if they say hit where nobody looked, "
    "sets shrink until they hold nothing. Check some answers against the truth."
)
_ENOUGH = 100  # answers before anything is said


def list_notes(setup: Setup, progress: Progress) -> list[str]:
    tally, alpha = progress.tally, setup.learner.alpha
    return [
        *describe_lateness(setup.learner, tally),
        *describe_reach(setup.learner, setup.score, tally),
        *setup.kind.list_notes(tally, alpha=alpha),
        *describe_alarm(progress.watch, tally, alpha=alpha),
    ]


def describe_lateness(learner: Learner, tally: Tally) -> list[str]:
    """Return a sentence if answers are so late that sets must be larger, else none."""
    if tally.answered < _ENOUGH or tally.stale < _LATE:
        return []
    effect = learner.rule.about.late or "what late answers do to it has not been measured"
    return [
        f"Answers come late: about {tally.stale:,.0f} rounds pass before one comes. Sets must be "
        f"larger than with prompt answers, and adapt more slowly. {learner.name}: {effect}. Smaller "
        "batches, or sooner answers, make sets smaller."
    ]


def describe_alarm(watch: Watch | None, tally: Tally, *, alpha: float) -> list[str]:
    """Return what it may mean if misses come more often or less often than they may, else nothing."""
    if watch is None or not watch.alarm:
        return []
    many = watch.alarm is Alarm.TOO_MANY
    causes = "" if many else _TOO_FEW
    if tally.stale >= _LATE:
        causes += " Answers come late or in batches, which makes the miss rate swing."
    if tally.amended:
        causes += " It goes by the answers as they first came; amending them does not end it."
    return [
        f"Rounds miss {'more' if many else 'less'} often than {alpha:g}, since about answer "
        f"{watch.since:,}; it was found at answer {watch.raised:,}.{causes}"
    ]


def describe_reach(learner: Learner, score: object, tally: Tally) -> list[str]:
    """Return what limits on sets do to the promise, and whether truths out of reach break it."""
    notes = []
    cap, alpha = getattr(score, "at_most", None), learner.alpha
    if (floor := getattr(score, "at_least", 0)) > 0:
        notes.append(
            f"No set holds fewer than {floor} labels: where those alone are right more often than "
            f"{1.0 - alpha:g} of the time, misses stay below {alpha:g}; the upper bound alone is kept."
        )
    if cap is not None:
        notes.append(
            f"No set holds more than {cap} labels: a truth that is not among a case's best {cap} is a "
            f"miss that no threshold prevents, so that misses are not promised to stay near {alpha:g}."
        )
    if tally.answered >= _ENOUGH and tally.unreachable > alpha * tally.answered:
        remedy = f"raise at_most above {cap}, or bear more misses" if cap else "give more candidates"
        notes.append(
            f"The target {alpha:g} is out of reach: of {tally.answered:,} truths {tally.unreachable:,} "
            f"({tally.unreachable / tally.answered:.1%}) could be in no set; {remedy}."
        )
    return notes


def warn_of_answers(setup: Setup, before: int, after: int, *, unreachable: bool) -> None:
    """Warn if answers took a learner past its horizon, or told of a value that no threshold covers."""
    learner = setup.learner
    if learner.horizon is not None and before <= learner.horizon < after:
        warn_user(
            f"{learner.name} goes on past its horizon of {learner.horizon} rounds; its rates and its "
            "guarantee were tuned for that many",
            TheoryWarning,
        )
    out_of_reach = getattr(setup.score, "out_of_reach", None)
    if unreachable and out_of_reach:
        warn_user(out_of_reach, BoundWarning)


def bound_excess(
    setup: Setup,
    progress: Progress,
    *,
    rounds: int | None = None,
    delta: float | None = None,
) -> Excess:
    """Return between what sum(miss - alpha) lies after so many rounds, or after those up to now."""
    from keyhole.learners import bounds  # here and below: a first round does without

    tally, alpha = progress.tally, setup.learner.alpha
    if rounds is not None:
        bounds.check_rounds(rounds)
    count = max(1, setup.kind.count_bounded(tally)) if rounds is None else rounds
    lateness = setup.kind.find_lateness(setup, progress)
    if rounds is None and setup.learner.groups and hasattr(setup.learner.parameters, "bound_groups"):
        proven = _bound_account(setup, progress, 0, tally.misses - alpha * tally.weight)
    else:
        least, most = bounds.find_excess(setup.learner, count + tally.calibrated, lateness)
        past = tally.calibrated_excess  # The theorem speaks of history and rounds together.
        amended = tally.amended  # What is moved afterwards, no guard could see.
        proven = Excess(least - past - amended, most - past + amended + tally.lost_in_full)
    told = lateness.told
    counted: float = count if rounds is None else rounds * lateness.weight
    if delta is not None:
        if tally.checks:  # or -1: a judge was heard
            raise TheoremError(
                "a judge's errors are corrected by an estimate, and how far that is off depends on how "
                "many rounds were checked (docs/guarantees.md); leave delta out for the bound on the "
                "judgements as counted"
            )
        counted = max(1, setup.kind.count_shown(tally)) if rounds is None else rounds
        lateness = _allow_for_chance(setup, tally, lateness)
        proven = bounds.bound_truth(proven, alpha, counted, lateness, delta=delta)
        waiting = setup.kind.count_open(setup, tally)  # of which nothing is known yet
        proven = Excess(proven.least - alpha * waiting, proven.most + (1.0 - alpha) * waiting)
        told = (0.0, 1.0)
    floor, cap = is_floored(setup, tally), getattr(setup.score, "at_most", None) is not None
    return bounds.clip_excess(proven, alpha, counted, floor=floor, cap=cap, told=told)


def _allow_for_chance(setup: Setup, tally: Tally, lateness: Lateness) -> Lateness:
    """Return how answers came if those that did not come were as rare, and told ones as often wrong.

    Of a round without an answer nobody said its chance: that may be the least that is allowed. Of a
    judge who errs, one of the two numbers that an answer can count as tells the other.
    """
    weight, (low, high) = 1.0, lateness.told
    if lateness.weight > 1.0 or tally.skipped or tally.expired:
        weight = 1.0 / setup.least_chance
        if not setup.learner.rule.graded:
            weight = math.ceil(weight)  # It was heard a whole number of times.
    return replace(lateness, weight=weight, told=(min(low, 1.0 - high), max(high, 1.0 - low)))


def is_floored(setup: Setup, tally: Tally) -> bool:
    """Whether an empty set is never shown, or was and lost less than alpha: nothing is too little."""
    return getattr(setup.score, "at_least", 0) > 0 or tally.spared_empty > 0


def bound_regret(setup: Setup, progress: Progress) -> float:
    """Return the bound on the regret, of the horizon or, past it, of the rounds up to now."""
    from keyhole.learners import bounds

    horizon, rounds = setup.learner.horizon, progress.tally.answered
    past = horizon is None or rounds > horizon
    return bounds.regret(setup.learner, rounds=max(1, rounds) if past else None)


def judge_groups(setup: Setup, progress: Progress) -> dict[str | int, Group]:
    """Return how each group has fared.

    What is proven is of the learner's own account, which may hold more or less than the rounds of the
    group at today's target: a history, rounds that had another target, or outcomes that no set forced.
    """
    alpha = setup.learner.alpha
    names: Any = setup.names.groups or range(setup.groups)
    found: dict[str | int, Group] = {}
    for number, (name, (rounds, misses)) in enumerate(zip(names, progress.tally.members, strict=True)):
        excess = misses - alpha * rounds
        counted = int(rounds) if rounds % 1.0 == 0.0 else rounds
        bound = _bound_group(setup, progress, number, rounds=rounds, excess=excess)
        found[name] = Group(counted, misses, excess, bound)
    return found


def _bound_group(
    setup: Setup, progress: Progress, number: int, *, rounds: float, excess: float
) -> Excess | None:
    from keyhole.learners import bounds

    parameters, alpha, tally = setup.learner.parameters, setup.learner.alpha, progress.tally
    proven: Excess | None = None
    if hasattr(parameters, "bound_group"):  # Each has a rule of its own.
        state = progress.states[number]
        proven = parameters.bound_group(state, setup.kind.find_lateness(setup, progress))
        if proven is not None:
            beyond = _compare(state.excess[0], excess)
            proven = Excess(proven.least, proven.most + tally.amended - beyond)
    elif hasattr(parameters, "bound_groups"):
        proven = _bound_account(setup, progress, 1 + number, excess)
    if proven is None:
        return None
    return bounds.clip_excess(
        proven,
        alpha,
        rounds,
        floor=getattr(setup.score, "at_least", 0) > 0,
        cap=getattr(setup.score, "at_most", None) is not None,
        told=(tally.lowest, tally.highest),
    )


def _bound_account(setup: Setup, progress: Progress, row: int, excess: float) -> Excess:
    """Return between what an excess lies of which the learner keeps an account, by now.

    Row 0 of the accounts is of all rounds, the others are of groups.
    """
    tally, state = progress.tally, progress.state
    most = setup.learner.parameters.bound_groups(
        state, setup.kind.find_lateness(setup, progress), amended=tally.amended,
        is_spared=tally.spared_empty > 0,
    )  # fmt: skip
    beyond = _compare(state.excess[row], excess)
    return Excess(-most - beyond, most - beyond)


def _compare(account: Any, excess: float) -> float:
    return round(float(account) - excess, 6)  # Sums of floats differ.


_MOST_GROUPS = 12  # that are shown; predictor.groups has all


def show(holder: Any, rows: Mapping[str, str], *, rate: float, called: str) -> str:
    """Return HTML with the figures of a learner at work, and a bar of the rate it is to keep."""
    from html import escape

    groups = {
        f"{called}, {escape(str(name))}": f"{group.miss_rate:.4f}"
        for name, group in islice(holder.groups.items(), _MOST_GROUPS)
    }
    table = write_table({**rows, **groups, "open": f"{holder.open_rounds:,}"})
    bar = draw_rate(rate, holder.alpha, called=f"{called}; the mark is the target")
    return f"{table}{bar}" + "".join(f"<p>{escape(note)}</p>" for note in holder.notes)


def show_rates(rows: dict[str, str], rate: float, alpha: float) -> str:
    """Return HTML with the figures of many rounds, and a bar of their miss rate, the target marked."""
    figures = {**rows, "target miss rate": f"{alpha:g}", "miss rate": f"{rate:.4f}"}
    return write_table(figures) + draw_rate(rate, alpha, called="miss rate; the mark is the target")
