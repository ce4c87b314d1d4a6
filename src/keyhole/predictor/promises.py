"""What is proven of a predictor by now: of its misses, of each group's, of its regret."""

from typing import Any

from keyhole.learners import Excess, bounds
from keyhole.predictor.context import Group
from keyhole.predictor.progress import Progress
from keyhole.predictor.setup import Setup


def bound_excess(setup: Setup[Any], progress: Progress, *, rounds: int | None) -> Excess:
    """Return between what sum(miss - alpha) lies after so many rounds, or after those up to now."""
    tally, alpha, score = progress.tally, setup.learner.alpha, setup.score
    count = max(1, tally.answered) if rounds is None else rounds
    proven = bounds.excess(setup.learner, rounds=count + tally.rehearsed)
    past = tally.rehearsed_excess
    least, most = proven.least - past, proven.most - past
    if getattr(score, "at_least", 0) > 0:  # An empty set would have to miss: there is none.
        least = -alpha * count
    if getattr(score, "at_most", None) is not None:  # Threshold 0 can miss.
        most = (1.0 - alpha) * count
    return Excess(least, most)


def bound_regret(setup: Setup[Any], progress: Progress) -> float:
    """Return the bound on the regret, of the horizon or, past it, of the rounds up to now."""
    horizon, rounds = setup.learner.horizon, progress.tally.answered
    past = horizon is None or rounds > horizon
    return bounds.regret(setup.learner, rounds=max(1, rounds) if past else None)


def judge_groups(setup: Setup[Any], progress: Progress) -> dict[str | int, Group]:
    """Return how each group has fared; the excess of the history widens its bound."""
    rule, alpha, tally = setup.learner.rule, setup.learner.alpha, progress.tally
    names: Any = setup.names.groups or range(setup.learner.groups)
    found = {}
    for number, (name, (rounds, misses)) in enumerate(zip(names, tally.members, strict=True)):
        excess, bound = misses - alpha * rounds, None
        if rule.bound_groups is not None:
            bound = rule.bound_groups(setup.learner.parameters, progress.state)
            if tally.rehearsed:
                bound += abs(float(progress.state.excess[1 + number]) - excess)
        found[name] = Group(int(rounds), misses, excess, bound)
    return found
