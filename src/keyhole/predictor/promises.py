"""What is proven of a predictor by now: of its misses, of each group's, of its regret."""

from typing import Any

from keyhole.learners import Excess, bounds
from keyhole.learners.bounds import check_rounds
from keyhole.predictor.context import Group
from keyhole.predictor.progress import Progress
from keyhole.predictor.setup import Setup


def bound_excess(setup: Setup[Any], progress: Progress[Any], *, rounds: int | None = None) -> Excess:
    """Return between what sum(miss - alpha) lies after so many rounds, or after those up to now."""
    tally, alpha, score = progress.tally, setup.learner.alpha, setup.score
    if rounds is not None:
        check_rounds(rounds)
    count = max(1, setup.kind.count_bounded(tally)) if rounds is None else rounds
    lateness = setup.kind.find_lateness(setup, progress)
    proven = bounds.excess(
        setup.learner,
        rounds=count + tally.calibrated,
        open=lateness.open,
        age=lateness.age,
        at_least=getattr(score, "at_least", 0),
        at_most=getattr(score, "at_most", None),
    )
    past = tally.calibrated_excess  # The theorem speaks of history and rounds together.
    return Excess(
        least=max(proven.least - past, -alpha * count),
        most=min(proven.most - past, (1.0 - alpha) * count),
    )


def bound_regret(setup: Setup[Any], progress: Progress[Any]) -> float:
    """Return the bound on the regret, of the horizon or, past it, of the rounds up to now."""
    horizon, rounds = setup.learner.horizon, progress.tally.answered
    past = horizon is None or rounds > horizon
    return bounds.regret(setup.learner, rounds=max(1, rounds) if past else None)


def judge_groups(setup: Setup[Any], progress: Progress[Any]) -> dict[str | int, Group]:
    """Return how each group has fared.

    What the learner's own count has beyond the group's rounds at today's target widens its bound: the
    excess of a history, and that of rounds which had another target.
    """
    parameters, alpha, tally = setup.learner.parameters, setup.learner.alpha, progress.tally
    names: Any = setup.names.groups or range(setup.groups)
    found = {}
    for number, (name, (rounds, misses)) in enumerate(zip(names, tally.members, strict=True)):
        excess, bound = misses - alpha * rounds, None
        if hasattr(parameters, "bound_groups"):
            bound = parameters.bound_groups(progress.state)
            beyond = float(progress.state.excess[1 + number]) - excess
            bound += abs(round(beyond, 6))  # Sums of floats differ by a little anyway.
        counted = int(rounds) if rounds % 1.0 == 0.0 else rounds
        found[name] = Group(counted, misses, excess, bound)
    return found
