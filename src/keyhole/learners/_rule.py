"""What a rule is, and a learner: a rule with its parameters, prepared for the kernels."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol

import numpy as np

from keyhole.checks import is_real
from keyhole.errors import AlphaError, LearnerError
from keyhole.feedback import Needs
from keyhole.grid import Array

Settings = Any
State = Any
P = ParamSpec("P")


class Parameters(Protocol):
    """The numbers a user gives a rule, checked: a frozen dataclass."""

    @property
    def alpha(self) -> float:
        """The target miss rate."""

    @property
    def horizon(self) -> int | None:
        """The number of rounds the rule is tuned for, if it is."""


class Distribution(NamedTuple):
    """The thresholds a learner may play next, and how likely each is."""

    thresholds: Array
    probabilities: Array


class Excess(NamedTuple):
    """Between what the excess of misses, sum(miss - alpha), lies after some rounds, on any stream."""

    least: float
    most: float


@dataclass(frozen=True)
class Rule(Generic[P]):
    """A way to pick thresholds: called with its parameters, it gives a learner.

    ``choose(settings, state, memo, draw)`` returns a threshold and leaves in ``memo`` what the
    round must remember; it never changes the state. ``observe(settings, state, memo, missed, score)``
    changes the state in place, with the score NaN where it is not known. Both are kernels, and
    deterministic: the draw is an argument. ``excess(parameters, rounds)`` bounds the excess of misses
    of a learner that is answered at once, where a theorem does.
    """

    name: str
    needs: Needs
    parameters: Callable[P, Parameters]
    prepare: Callable[[Any], Settings]
    start: Callable[[Settings], State]
    memory: Callable[[Settings], int]
    choose: Callable[[Settings, State, Array, float], float]
    observe: Callable[[Settings, State, Array, bool, float], None]
    distribution: Callable[[Settings, State], Distribution]
    summary: str
    guarantee: str
    source: str
    excess: "Callable[[Any, int], Excess] | None" = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> "Learner":
        """Return the learner with these parameters."""
        return Learner(self, self.parameters(*args, **kwargs))


@dataclass(frozen=True, repr=False)
class Learner:
    """A rule with its parameters: immutable, so that many predictors and runs can share it."""

    rule: Rule[...]
    parameters: Parameters
    settings: Settings = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", self.rule.prepare(self.parameters))

    def __repr__(self) -> str:
        return f"<{self.name}: {self.parameters}>"

    @property
    def name(self) -> str:
        """The name of the rule in the table."""
        return self.rule.name

    @property
    def needs(self) -> Needs:
        """The least feedback the rule can work with."""
        return self.rule.needs

    @property
    def alpha(self) -> float:
        """The target miss rate."""
        return self.parameters.alpha

    @property
    def horizon(self) -> int | None:
        """The number of rounds the rule is tuned for, if it is."""
        return self.parameters.horizon

    @property
    def thresholds(self) -> Array | None:
        """The grid the rule chooses from, if it has one."""
        grid = getattr(self.settings, "thresholds", None)
        return None if grid is None else grid.copy()

    def start(self) -> State:
        """Return the state before the first round."""
        return self.rule.start(self.settings)

    @property
    def groups(self) -> int:
        """How many groups of rounds the rule tells apart; 0 for most."""
        return int(getattr(self.settings, "groups", 0))

    def memo(self, groups: Iterable[int] = ()) -> Array:
        """Return room for what one round must remember.

        A rule that tells groups apart has its last numbers say to which the round belongs: to group 0,
        which holds every round, and to these.
        """
        memo = np.zeros(self.rule.memory(self.settings))
        if self.groups:
            memo[-self.groups] = 1.0
        for group in groups:
            if not 0 <= group < self.groups:
                raise LearnerError(
                    f"there is no group {group!r}: {self.name} tells {self.groups} groups apart, "
                    "numbered from 0; mvp(groups=...) sets how many"
                )
            memo[group - self.groups] = 1.0
        return memo

    def choose(self, state: State, memo: Array, draw: float) -> float:
        """Return the threshold to play and leave in ``memo`` what the round must remember."""
        return self.rule.choose(self.settings, state, memo, draw)

    def observe(self, state: State, memo: Array, *, missed: bool, score: float) -> None:
        """Change the state by what the round of this memo brought."""
        self.rule.observe(self.settings, state, memo, missed, score)

    def distribution(self, state: State) -> Distribution:
        """Return the thresholds that may be played next and their probabilities."""
        thresholds, probabilities = self.rule.distribution(self.settings, state)
        return Distribution(thresholds.copy(), probabilities)


def checked_alpha(alpha: float) -> float:
    """Return alpha if it is between 0 and 1/2, else raise."""
    if not (is_real(alpha) and 0.0 < alpha < 0.5):
        raise AlphaError(
            f"alpha {alpha!r} is not a number between 0 and 0.5; use the share of misses that you "
            "can bear, such as 0.1"
        )
    return float(alpha)
