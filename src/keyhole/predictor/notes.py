"""What a user should know of how things stand: said when asked, or once, as a warning."""

from typing import Any

from keyhole.errors import BoundWarning, TheoryWarning, warn_user
from keyhole.learners import Learner
from keyhole.predictor.monitor import Alarm, Watch
from keyhole.predictor.progress import Progress
from keyhole.predictor.setup import Setup
from keyhole.predictor.tally import Tally

_LATE = 30.0  # From here on sets are measurably larger: benchmarks/late.py.
_ENOUGH = 100  # answers before anything is said


def describe_standing(setup: Setup[Any], progress: Progress) -> list[str]:
    """Return what a user should know of how things stand, in plain sentences; mostly none."""
    tally, alpha = progress.tally, setup.learner.alpha
    return [
        *describe_lateness(setup.learner, tally),
        *describe_reach(setup.learner, setup.score, tally),
        *describe_alarm(progress.watch, alpha=alpha),
    ]


def describe_lateness(learner: Learner, tally: Tally) -> list[str]:
    """Return a sentence if answers are so late that sets must be larger, else none."""
    if tally.answered < _ENOUGH or tally.stale < _LATE:
        return []
    told = learner.rule.about.late or "what late answers do to it has not been measured"
    return [
        f"Answers come late: about {tally.stale:,.0f} rounds pass before one is heard. Sets must be "
        f"larger than with prompt answers, and adapt more slowly. {learner.name}: {told}. Smaller "
        "batches, or sooner answers, make sets smaller."
    ]


def describe_alarm(watch: Watch | None, *, alpha: float) -> list[str]:
    """Return a sentence if misses come more often or less often than they may, else none."""
    if watch is None or not watch.alarm:
        return []
    often = "more often" if watch.alarm is Alarm.TOO_MANY else "less often"
    return [
        f"Rounds miss {often} than {alpha:g}, since about answer {watch.since:,}; it was found at "
        f"answer {watch.raised:,}."
    ]


def describe_reach(learner: Learner, score: Any, tally: Tally) -> list[str]:
    """Return what limits on sets do to the promise, and whether truths out of reach break it."""
    said = []
    cap, alpha = getattr(score, "at_most", None), learner.alpha
    if (floor := getattr(score, "at_least", 0)) > 0:
        said.append(
            f"No set holds fewer than {floor} labels: where those alone are right more often than "
            f"{1.0 - alpha:g} of the time, misses stay below {alpha:g}; the upper bound alone is kept."
        )
    if cap is not None:
        said.append(
            f"No set holds more than {cap} labels: a truth that is not among a case's best {cap} is a "
            f"miss that no threshold prevents, so that misses are not promised to stay near {alpha:g}."
        )
    if tally.answered >= _ENOUGH and tally.unreachable > alpha * tally.answered:
        remedy = f"raise at_most above {cap}, or bear more misses" if cap else "give more candidates"
        said.append(
            f"The target {alpha:g} is out of reach: of {tally.answered:,} truths {tally.unreachable:,} "
            f"({tally.unreachable / tally.answered:.1%}) could be in no set; {remedy}."
        )
    return said


def warn_past_horizon(learner: Learner) -> None:
    """Warn that a learner goes on past what it was tuned for."""
    warn_user(
        f"{learner.name} goes on past its horizon of {learner.horizon} rounds; its rates and its "
        "guarantee were tuned for that many",
        TheoryWarning,
    )


def warn_beyond_bound() -> None:
    """Warn of a true value that no threshold covers."""
    warn_user(
        "the true value lies beyond the residual bound, where no threshold covers it; it counts as a "
        "miss: use a larger bound, or ScaledResiduals",
        BoundWarning,
    )
