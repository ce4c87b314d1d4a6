"""What a rule is, and a learner: a rule with its parameters, prepared for its kernels.

A learner is its parameters and two kernels; the rest has defaults: settings and state are named tuples,
a round remembers nothing unless told, and a rule that draws nothing plays one threshold for certain.
"""

import copyreg
import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from typing import Any, Generic, NamedTuple, ParamSpec

import numpy as np

from keyhole.errors import InvalidError
from keyhole.feedback import Answer, Needs
from keyhole.learners.entries import Ask as Ask
from keyhole.learners.entries import bind_entries
from keyhole.learners.lateness import Excess as Excess
from keyhole.learners.layout import Layout
from keyhole.learners.rule_help import check_rule, describe_rule, list_given, show_learner
from keyhole.numeric import Array

EVERY = 0.0  # the threshold that every label reaches
NONE = 2.0  # a threshold that no label reaches
_NOTHING = np.zeros(0)
P = ParamSpec("P")


class Distribution(NamedTuple):
    """The thresholds a learner may play next, and how likely each is."""

    thresholds: Array
    probabilities: Array


@dataclass(frozen=True, eq=False, repr=False)
class Rule(Generic[P]):
    """A way to pick thresholds: called with its parameters, it gives a learner.

    Parameters
    ----------
    name
        What it is called in the table.
    needs
        The least feedback it can work with.
    parameters
        The class of its parameters, made by ``keyhole.learners.parameters.parameters``.
    choose
        ``choose(settings, state, memo, ask)`` returns a threshold and leaves in ``memo`` what the
        round must remember; it never changes the state.
    observe
        ``observe(settings, state, memo, answer)`` changes the state in place. Both kernels are
        deterministic: the draw is ``ask.draw``.
    settings
        A named tuple of the numbers the kernels read, each of which is a parameter's or property's
        name; ``prepare`` makes it of the parameters where that is not enough.
    state
        A named tuple of arrays whose defaults are the state before the first round; ``start`` makes
        it of the settings where that is not enough.
    memory
        How many numbers a round must remember, or a function of the settings that says so.
    limits
        ``limits(settings)``: by the name of a part of the state, and by "memo", the most that stored
        numbers may be which are places in a table, or counts; ``keyhole.learners.layout`` has more.
    draws
        Whether it reads ``ask.draw``.
    context
        How many numbers of ``ask.context`` it takes, as a function of the settings.
    distribution
        ``distribution(settings, state)`` for rules that draw.
    excess
        ``excess(parameters, rounds)`` bounds the excess of misses, answers coming at once, if one can.
    late_excess
        ``late_excess(parameters, rounds, lateness)`` bounds it with late answers, where a theorem does.
    bound_groups
        ``bound_groups(parameters, state)`` bounds |state.excess| of all rounds and of every group.
    graded
        Whether ``answer.miss`` may lie between 0 and 1, or be corrected for wrong answers.
    late
        What answers that come late do to it, in a plain sentence.
    kind
        What its threshold is for: a "set", or a "gate" (see ``keyhole.learners.gates``).
    inner
        The rule behind the valve, of one that has a valve.

    Examples
    --------
    >>> from keyhole import LEARNERS
    >>> LEARNERS["logit-tracker"](alpha=0.1).alpha
    0.1
    """

    name: str
    needs: Needs
    parameters: Callable[P, Any]
    choose: Callable[[Any, Any, Any, Ask], float]
    observe: Callable[[Any, Any, Any, Answer], None]
    summary: str
    guarantee: str
    source: str
    settings: Any = None
    prepare: Callable[[Any], Any] | None = None
    state: Any = None
    start: Callable[[Any], Any] | None = None
    memory: "int | Callable[[Any], int]" = 0
    limits: Callable[[Any], Mapping[str, Any]] | None = None
    draws: bool = False
    context: Callable[[Any], int] | None = None
    distribution: Callable[[Any, Any], Distribution] | None = None
    excess: Callable[[Any, int], Excess] | None = None
    late_excess: Callable[[Any, int, Any], Excess] | None = None
    bound_groups: Callable[[Any, Any], float] | None = None
    graded: bool = False
    late: str = ""
    kind: str = "set"
    inner: "Rule[...] | None" = None

    def __post_init__(self) -> None:
        check_rule(self)
        object.__setattr__(self, "needs", Needs(self.needs))
        object.__setattr__(self, "__doc__", describe_rule(self))
        object.__setattr__(self, "__signature__", inspect.signature(self.parameters))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> "Learner":
        """Return the learner with these parameters; equal ones share what is prepared."""
        return _share(self, self.parameters(*args, **kwargs))

    def __reduce__(self) -> tuple[Any, ...]:
        """Let a rule of ours travel by its name: it arrives as the one there is, compiled or not."""
        from keyhole.learners import find, wrap

        if self.inner is not None:
            return wrap, (self.inner,)
        if self.choose.__module__.startswith(__package__):
            return find, (self.name,)
        return copyreg.__newobj__, (type(self),), self.__dict__  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"<rule {self.name}: {self.summary}; needs {self.needs.value}>"

    def prepare_settings(self, parameters: Any) -> Any:
        """Return the numbers that the kernels read."""
        if self.prepare is not None:
            return self.prepare(parameters)
        if self.settings is None:
            return (float(parameters.alpha),)
        return self.settings(*(getattr(parameters, name) for name in self.settings._fields))

    def start_state(self, settings: Any) -> Any:
        """Return the state before the first round, as arrays."""
        if self.start is not None:
            return self.start(settings)
        return self.state(*(part.copy() for part in self.state._field_defaults.values()))


@lru_cache(maxsize=4096)
def _share(rule: Rule[...], parameters: Any) -> "Learner":
    return Learner(rule, parameters)


@dataclass(frozen=True, repr=False)
class Learner:
    """A rule with its parameters: immutable, so that many predictors and runs share it.

    ``needs`` is the least feedback that it can work with, ``horizon`` the rounds it is tuned for, if it
    is; ``features`` and ``groups`` say how many of them it takes, ``context`` both together. One that
    weighs size wants to hear ``answer.cost``: its memo begins with the two thresholds whose sets are
    compared. ``choose_into(state, memo, ask)`` returns the threshold to play; ``observe(state, memo,
    answer)`` changes the state by what the round of this memo brought. A rule with a few single numbers
    of state runs interpreted, on lists; the others compiled, on arrays, where numba is there.

    Examples
    --------
    >>> from keyhole import make
    >>> make("logit-tracker", alpha=0.1)
    <logit-tracker: alpha=0.1, step=0.1, first=0.5, margin=1e-06>
    """

    rule: Rule[...]
    parameters: Any
    settings: Any = field(init=False, compare=False)
    alpha: float = field(init=False, compare=False)
    runs_interpreted: bool = field(init=False, compare=False)
    memory: int = field(init=False, compare=False)
    context: int = field(init=False, compare=False)
    needs: Needs = field(init=False, compare=False)
    features: int = field(init=False, compare=False)
    groups: int = field(init=False, compare=False)
    weighs_size: bool = field(init=False, compare=False)
    reads_ask: bool = field(init=False, compare=False)
    horizon: int | None = field(init=False, compare=False)
    choose_into: Callable[[Any, Any, Ask], float] = field(init=False, compare=False)
    observe: Callable[[Any, Any, Answer], None] = field(init=False, compare=False)
    layout: Layout = field(init=False, compare=False)

    def __post_init__(self) -> None:
        rule, fill = self.rule, object.__setattr__
        settings = rule.prepare_settings(self.parameters)
        first = rule.start_state(settings)
        fill(self, "settings", settings)
        fill(self, "alpha", float(self.parameters.alpha))
        fill(self, "runs_interpreted", all(part.size == 1 for part in first) and rule.context is None)
        fill(self, "memory", rule.memory(settings) if callable(rule.memory) else rule.memory)
        fill(self, "context", 0 if rule.context is None else rule.context(settings))
        fill(self, "needs", getattr(self.parameters, "needs", None) or rule.needs)
        fill(self, "features", int(getattr(self.parameters, "features", 0)))
        fill(self, "groups", int(getattr(self.parameters, "groups", 0)))
        fill(self, "weighs_size", getattr(self.parameters, "size_weight", 0.0) > 0.0)
        fill(self, "reads_ask", rule.draws or rule.context is not None)
        fill(self, "horizon", getattr(self.parameters, "horizon", None))
        kernels = partial(rule.choose, settings), partial(rule.observe, settings)
        choose_into, observe = kernels if self.runs_interpreted else bind_entries(self)
        fill(self, "choose_into", choose_into)
        fill(self, "observe", observe)
        limits = {} if rule.limits is None else rule.limits(settings)
        layout = Layout(rule.name, first, self.memory, interpreted=self.runs_interpreted, limits=limits)
        fill(self, "layout", layout)

    def __repr__(self) -> str:
        return f"<{self.name}: {', '.join(f'{k}={v!r}' for k, v in list_given(self.parameters))}>"

    def _repr_html_(self) -> str:
        return show_learner(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _share, (self.rule, self.parameters)

    @property
    def name(self) -> str:
        """The name of the rule in the table."""
        return self.rule.name

    @property
    def thresholds(self) -> Array | None:
        """The grid the rule chooses from, if it has one."""
        grid = getattr(self.settings, "thresholds", None)
        return None if grid is None else grid.copy()

    def start(self) -> Any:
        """Return the state before the first round."""
        arrays = self.start_arrays()
        return type(arrays)(*(part.tolist() for part in arrays)) if self.runs_interpreted else arrays

    def start_arrays(self) -> Any:
        """Return the state before the first round as arrays, whichever lane it will live in."""
        return self.rule.start_state(self.settings)

    def new_memo(self) -> Any:
        """Return room for what a round must remember."""
        return [0.0] * self.memory if self.runs_interpreted else np.zeros(self.memory)

    def choose(self, state: Any, draw: float = 0.5, context: Array = _NOTHING) -> tuple[float, Any]:
        """Return the threshold to play, and the memo of what the round must remember."""
        memo = self.new_memo()
        return self.choose_into(state, memo, Ask(draw, context)), memo

    def make_unknown_context(self) -> Array:
        """Return the context of a case of which nothing is known: all features missing, no group."""
        if self.context == 0:
            return _NOTHING
        return np.concatenate((np.full(self.features, np.nan), np.zeros(self.groups)))

    def distribution(self, state: Any) -> Distribution:
        """Return the thresholds that may be played next and their probabilities."""
        if self.rule.distribution is None:
            threshold, _ = self.choose(state, context=self.make_unknown_context())
            return Distribution(np.array([threshold]), np.ones(1))
        thresholds, probabilities = self.rule.distribution(self.settings, state)
        return Distribution(thresholds.copy(), probabilities)

    def pack(self, state: Any) -> bytes:
        """Return a state as bytes, without a file format around it."""
        return self.layout.pack(state)

    def unpack(self, content: bytes) -> Any:
        """Return the state that was packed, narrow or not, or raise if it does not fit."""
        return self.layout.unpack(content)

    def pack_memo(self, memo: Any) -> bytes:
        """Return a memo as bytes."""
        return self.layout.pack_memo(memo)

    def unpack_memo(self, content: bytes) -> Any:
        """Return the memo that was packed, or raise if it does not fit."""
        return self.layout.unpack_memo(content)

    def dump(self) -> dict[str, Any]:
        """Return the name and the parameters, as JSON values."""
        return {"learner": self.name, "parameters": asdict(self.parameters)}


def check_learner(given: Any) -> Learner:
    """Return the learner, or raise if it is only the name of one, a rule, or something else."""
    if isinstance(given, Learner):
        return given
    example = given if isinstance(given, str) else getattr(given, "name", "kt")
    raise InvalidError(f"{given!r} is not a learner; make one: keyhole.make({example!r}, alpha=0.1)")
