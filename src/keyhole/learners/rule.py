"""What a rule is, and a learner: a rule with its parameters, prepared for its kernels.

A learner is its parameters and two kernels; the rest has defaults: the kernels read the parameters
themselves, a round remembers nothing, and a rule without a distribution plays one threshold for
certain.
"""

import copyreg
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import lru_cache, partial
from typing import Any, Generic, NamedTuple, ParamSpec, get_type_hints

import numpy as np

from keyhole.errors import InvalidError
from keyhole.feedback import Answer, Needs
from keyhole.learners.entries import Ask as Ask
from keyhole.learners.entries import bind_entries
from keyhole.learners.layout import Layout, Limits
from keyhole.learners.parameters import describe_fields, find_settings, prepare_settings
from keyhole.numeric import Array

EVERY = 0.0  # the threshold that every label reaches
NONE = 2.0  # a threshold that no label reaches
_NOTHING = np.zeros(0)
P = ParamSpec("P")


class RuleKind(NamedTuple):
    """What the thresholds of a rule are for, and what is said of all such rules."""

    name: str
    player: str  # the class that plays them
    default: str  # the rule that plays unless another is named
    errors: str  # what alpha is the share of
    remedy: str  # for a rule of which no theorem bounds these
    example: str
    use: str = ""  # where that is not the feedback that a rule needs


FOR_SETS = RuleKind(
    name="set",
    player="Predictor",
    default="informed-tracker",
    errors="misses",
    remedy="put it behind a valve: keyhole.learners.safety_valve",
    example=""">>> predictor = keyhole.Predictor(keyhole.make("{}", alpha=0.1), feedback="full")
>>> shown = predictor.predict({{"cat": 0.7, "lynx": 0.3}})
>>> predictor.learn(shown, label="cat")
>>> predictor.rounds
1
""",
)


class Distribution(NamedTuple):
    """The thresholds a learner may play next, and how likely each is."""

    thresholds: Array
    probabilities: Array


# What a bound on misses assumes, for what rules say of themselves.
ON_ANY = "on any sequence, if answers come at once and threshold 0 cannot miss"


@dataclass(frozen=True, kw_only=True)
class About:
    """What people read of a rule: what it does, promises, comes from, and makes of late answers."""

    summary: str
    guarantee: str
    source: str
    late: str = ""


@dataclass(frozen=True, eq=False)
class Rule(Generic[P]):
    """A way to pick thresholds: called with its parameters, it gives a learner.

    Parameters
    ----------
    name
        What it is called in the table.
    needs
        The least feedback it can work with.
    parameters
        The class of its parameters, made by ``keyhole.learners.parameters.parameters``, which says
        what its methods and properties may add: the numbers that kernels read, and what is proven.
    choose
        ``choose(settings, state, memo, ask)`` returns a threshold and leaves in ``memo`` what the
        round must remember; it never changes the state. The settings are the parameters' numbers.
    observe
        ``observe(settings, state, memo, answer)`` changes the state in place. Both kernels are
        deterministic: the draw is ``ask.draw``.
    state
        A named tuple of arrays whose defaults are the state before the first round; or a function of
        the settings that returns one, annotated with its class.
    about
        Its summary, guarantee and source, and what late answers do to it.
    memory
        How many numbers a round must remember, or a function of the settings that says so.
    limits
        ``limits(settings)``: by the name of a part of the state, and by "memo", the most that stored
        numbers may be which are places in a table, or counts; ``keyhole.learners.layout`` has more.
    distribution
        ``distribution(settings, state)``: which thresholds a rule that reads ``ask.draw`` may play.
        Without it every draw is 1/2.
    graded
        Whether ``answer.miss`` may lie between 0 and 1, or be corrected for wrong answers, and
        ``answer.weight`` is read; a rule without it hears an answer of weight 3 three times.
    kind
        What its thresholds are for.

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
    state: Callable[..., Any]
    about: About
    memory: "int | Callable[[Any], int]" = 0
    limits: Callable[[Any], Limits] | None = None
    distribution: Callable[[Any, Any], Distribution] | None = None
    graded: bool = False
    kind: RuleKind = FOR_SETS

    def __post_init__(self) -> None:
        _check_rule(self)
        find_settings(self.parameters)  # so that numba's cache finds their class in every process
        object.__setattr__(self, "needs", Needs(self.needs))
        object.__setattr__(self, "__doc__", _describe_rule(self))
        object.__setattr__(self, "__signature__", inspect.signature(self.parameters))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> "Learner":
        """Return the learner with these parameters; equal ones share what is prepared."""
        return _share(self, self.parameters(*args, **kwargs))

    def __reduce__(self) -> tuple[Any, ...]:
        """Let a rule of ours travel by its name: it arrives as the one there is, compiled or not."""
        from keyhole.learners import find, unwrap, wrap

        inner = unwrap(self)
        if inner is not None:
            return wrap, (inner,)
        if self.choose.__module__.startswith(__package__):
            return find, (self.name,)
        return copyreg.__newobj__, (type(self),), self.__dict__  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"<rule {self.name}: {self.about.summary}; needs {self.needs.value}>"

    @property
    def draws(self) -> bool:
        """Whether it reads the draw."""
        return self.distribution is not None

    @property
    def use(self) -> str:
        """What it is for, or the least feedback that it needs."""
        return self.kind.use or f"needs {self.needs.value}"

    def check_kind(self, kind: RuleKind) -> None:
        """Raise if its thresholds are not for this."""
        if self.kind != kind:
            raise InvalidError(f"{self.name} is a rule for keyhole.{self.kind.player}; use it there")

    def find_state(self) -> Any:
        """Return the class of its states, None where its ``state`` does not say it."""
        if isinstance(self.state, type):
            return self.state
        try:
            found = get_type_hints(self.state).get("return")
        except (NameError, TypeError):  # Of names that only a type checker sees.
            return None
        return found if hasattr(found, "_fields") else None

    def start_state(self, settings: object) -> Any:
        """Return the state before the first round, as arrays."""
        first = self.state() if isinstance(self.state, type) else self.state(settings)
        # Parts may be defaults of the class, which all its states would share.
        return getattr(first, "_make", tuple)([part.copy() for part in first])

    def count_memory(self, settings: object) -> int:
        """Return how many numbers a round must remember."""
        return self.memory(settings) if callable(self.memory) else self.memory

    def list_limits(self, settings: object) -> Limits:
        """Return the limits of stored numbers."""
        return {} if self.limits is None else self.limits(settings)


def _check_rule(rule: Rule[...]) -> None:
    """Raise if a rule lacks something that its learners are made of."""
    kind = rule.parameters
    if not isinstance(rule.name, str):
        raise InvalidError(f"{rule.name!r} cannot name a learner; use text")
    if rule.needs not in list(Needs):
        known = ", ".join(repr(need.value) for need in Needs)
        raise InvalidError(f"{rule.name} needs {rule.needs!r}, which is none of {known}")
    # A valve has alpha as a property: it is that of the rule inside.
    if not is_dataclass(kind) or not (hasattr(kind, "alpha") or "alpha" in kind.__dataclass_fields__):
        raise InvalidError(
            f"the parameters of {rule.name} are no dataclass with alpha; make one with "
            "keyhole.learners.parameters"
        )
    if not callable(rule.state):
        raise InvalidError(
            f"{rule.name} does not say what it remembers; give state=, a named tuple of arrays"
        )


def _describe_rule(rule: Rule[...]) -> str:
    listed = describe_fields(rule.parameters)
    takes = f"\n\nParameters\n----------\n{listed}" if listed else ""
    about = rule.about
    return (
        f"{rule.name}: {about.summary}.\n\nIt needs {Needs(rule.needs).value!r}. It promises: "
        f"{about.guarantee}.\nSource: {about.source}.{takes}\n\nExamples\n--------\n"
        ">>> import keyhole\n" + rule.kind.example.format(rule.name)
    )


@lru_cache(maxsize=4096)
def _share(rule: Rule[...], parameters: object) -> "Learner":
    return Learner(rule, parameters)


@dataclass(frozen=True)
class Learner:
    """A rule with its parameters: immutable, so that many predictors and runs share it.

    ``needs`` is the least feedback that it can work with, ``horizon`` the rounds it is tuned for, if it
    is; ``features`` and ``groups`` say how many of them it takes, ``context`` both together. An
    ``informed`` one uses every score that it is told, and at first the model's word: before each round
    it observes the probability of each label, as an answer whose miss is NaN. One that weighs size
    needs ``answer.cost``: its memo begins with the two thresholds whose sets are compared.
    ``choose_into(state, memo, ask)`` returns the threshold to play; ``observe(state, memo, answer)``
    changes the state by what the round of this memo brought. A rule with a few numbers of state runs
    interpreted, on lists; the others compiled, on arrays, where numba is there.

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
    blank: Any = field(init=False, compare=False)
    context: int = field(init=False, compare=False)
    needs: Needs = field(init=False, compare=False)
    features: int = field(init=False, compare=False)
    groups: int = field(init=False, compare=False)
    weighs_size: bool = field(init=False, compare=False)
    reads_ask: bool = field(init=False, compare=False)
    informed: bool = field(init=False, compare=False)
    horizon: int | None = field(init=False, compare=False)
    choose_into: Callable[[Any, Any, Ask], float] = field(init=False, compare=False)
    observe: Callable[[Any, Any, Answer], None] = field(init=False, compare=False)
    layout: Layout = field(init=False, compare=False)

    def __post_init__(self) -> None:
        rule, given, fill = self.rule, self.parameters, object.__setattr__
        settings = prepare_settings(given)
        first = rule.start_state(settings)
        features, groups = int(getattr(given, "features", 0)), int(getattr(given, "groups", 0))
        is_small = all(part.size == 1 for part in first) or getattr(given, "interpreted", False)
        is_small = is_small and features + groups == 0
        fill(self, "settings", settings)
        fill(self, "alpha", float(given.alpha))
        fill(self, "runs_interpreted", is_small)
        fill(self, "memory", rule.count_memory(settings))
        fill(self, "blank", [0.0] * self.memory if is_small else np.zeros(self.memory))
        fill(self, "context", features + groups)
        fill(self, "needs", getattr(given, "needs", None) or rule.needs)
        fill(self, "features", features)
        fill(self, "groups", groups)
        fill(self, "weighs_size", getattr(given, "size_weight", 0.0) > 0.0)
        fill(self, "reads_ask", rule.draws or features + groups > 0)
        fill(self, "informed", getattr(given, "informed", False))
        fill(self, "horizon", getattr(given, "horizon", None))
        kernels = partial(rule.choose, settings), partial(rule.observe, settings)
        choose_into, observe = kernels if is_small else bind_entries(self)
        fill(self, "choose_into", choose_into)
        fill(self, "observe", observe)
        limits = rule.list_limits(settings)
        layout = Layout(rule.name, first, self.memory, interpreted=is_small, limits=limits)
        fill(self, "layout", layout)

    def __repr__(self) -> str:
        return f"<{self.name}: {', '.join(f'{k}={v!r}' for k, v in self._list_given())}>"

    def _repr_html_(self) -> str:
        given = self._list_given()
        rows = "".join(f"<tr><td>{name}</td><td>{value!r}</td></tr>" for name, value in given)
        return f"<b>{self.name}</b>: {self.rule.about.summary}<table>{rows}</table>"

    def _list_given(self) -> list[tuple[str, Any]]:
        """Return the parameters that have a value, each by its name."""
        given = self.parameters
        known = [(one.name, getattr(given, one.name)) for one in fields(given) if one.repr]
        return [(name, value) for name, value in known if value is not None]

    def __reduce__(self) -> tuple[Any, ...]:
        return _share, (self.rule, self.parameters)

    @property
    def name(self) -> str:
        """The name of the rule in the table."""
        return self.rule.name

    @property
    def thresholds(self) -> Array | None:
        """The grid the rule chooses from, if it has one."""
        grid = getattr(self.settings, "grid", None)
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
        return self.blank.copy()

    def choose(self, state: object, draw: float = 0.5, context: Array = _NOTHING) -> tuple[float, Any]:
        """Return the threshold to play, and the memo of what the round must remember."""
        memo = self.new_memo()
        return self.choose_into(state, memo, Ask(draw, context)), memo

    def make_unknown_context(self) -> Array:
        """Return the context of a case of which nothing is known: all features missing, no group."""
        if self.context == 0:
            return _NOTHING
        return np.concatenate((np.full(self.features, np.nan), np.zeros(self.groups)))

    def distribution(self, state: object) -> Distribution:
        """Return the thresholds that may be played next and their probabilities."""
        if self.rule.distribution is None:
            threshold, _ = self.choose(state, context=self.make_unknown_context())
            return Distribution(np.array([threshold]), np.ones(1))
        thresholds, probabilities = self.rule.distribution(self.settings, state)
        return Distribution(thresholds.copy(), probabilities)

    def pack(self, state: object) -> bytes:
        """Return a state as bytes, without a file format around it."""
        return self.layout.pack(state)

    def unpack(self, content: bytes) -> Any:
        """Return the state that was packed, narrow or not, or raise if it does not fit."""
        return self.layout.unpack(content)

    def pack_memo(self, memo: Any) -> bytes:
        """Return what a round remembers as bytes."""
        return self.layout.pack_memo(memo)

    def unpack_memo(self, content: bytes) -> Any:
        """Return the memo that was packed, or raise if it does not fit."""
        return self.layout.unpack_memo(content)

    def dump(self) -> dict[str, Any]:
        """Return name and parameters, of which ``keyhole.learners.rebuild`` makes it again."""
        return {"learner": self.name, "parameters": asdict(self.parameters)}


def check_learner(given: object) -> Learner:
    """Return the learner, or raise if it is only the name of one, a rule, or something else."""
    if isinstance(given, Learner):
        return given
    example = given if isinstance(given, str) else getattr(given, "name", "kt")
    raise InvalidError(f"{given!r} is not a learner; make one: keyhole.make({example!r}, alpha=0.1)")
