"""A rule's parameters: frozen, checked once, each field carrying as data which values it may have."""

import math
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from textwrap import fill, indent
from typing import Any, TypeVar, dataclass_transform

import numpy as np

from keyhole.checks import is_real, is_whole
from keyhole.errors import HorizonError, InvalidError, TheoryWarning, warn_user
from keyhole.grid import pick_thresholds
from keyhole.numeric import Array

_KEY, _MEANING = "constraint", "meaning"  # of a field's metadata
_READABLE = (float, int, Array, np.ndarray, "float", "int", "Array", "np.ndarray")
_named: Any = namedtuple
Class = TypeVar("Class")


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """Which numbers a parameter may be, and what is wrong with another.

    ``above`` and ``below`` are ends that are not allowed themselves, ``least`` and ``most`` ends that
    are.
    """

    above: float = -math.inf
    below: float = math.inf
    least: float = -math.inf
    most: float = math.inf
    whole: bool = False
    optional: bool = False
    many: bool = False
    remedy: str = ""
    error: type[InvalidError] = InvalidError

    def __str__(self) -> str:
        if self.whole:
            ends = f" to {self.most:g}" if self.most < 2**63 - 1 else ""
            return f"a whole number from {self.least:g}{ends}"
        if (self.above, self.below, self.least, self.most) == (0.0, math.inf, -math.inf, math.inf):
            return "positive and finite"
        if math.isfinite(self.above) and math.isfinite(self.below):
            return f"a number between {self.above:g} and {self.below:g}"
        if math.isfinite(self.least) and math.isfinite(self.most):
            return f"in [{self.least:g}, {self.most:g}]"
        if math.isfinite(self.above):
            return f"in ({self.above:g}, {self.most:g}]"
        return f"a number of at least {self.least:g}"

    def check(self, name: str, value: object) -> Any:
        if value is None and self.optional:
            return None
        if self.many:
            if isinstance(value, str) or not isinstance(value, Iterable):
                raise self.error(
                    f"{name} {value!r} are not a list of numbers; give several", field=name
                )
            return tuple(self._check_one(name, one) for one in value)
        return self._check_one(name, value)

    def _check_one(self, name: str, value: Any) -> float | int:
        if not self._allows(value):
            remedy = f"; {self.remedy}" if self.remedy else ""
            raise self.error(f"{name} {value!r} is not {self}{remedy}", field=name)
        return int(value) if self.whole else float(value)

    def _allows(self, value: Any) -> bool:
        if self.whole:
            return is_whole(value, least=int(self.least), most=int(min(self.most, 2**63 - 1)))
        return is_real(value) and self.above < value < self.below and self.least <= value <= self.most


def number(
    meaning: str = "",
    *,
    default: object = MISSING,
    above: float = -math.inf,
    below: float = math.inf,
    least: float = -math.inf,
    most: float = math.inf,
    many: bool = False,
    remedy: str = "",
) -> Any:
    """Return a field that holds a number in this range, or ``many``; None too, if that is the default.

    ``meaning`` is what help says of it. The remedy is to try the default unless another is given.
    """
    constraint = Constraint(
        above=above, below=below, least=least, most=most, many=many, optional=default is None,
        remedy=remedy,
    )  # fmt: skip
    return _field(meaning, default, constraint)


def positive(meaning: str = "", *, default: object = MISSING, remedy: str = "") -> Any:
    return number(meaning, default=default, above=0.0, remedy=remedy)


def whole(
    meaning: str = "",
    *,
    default: object = MISSING,
    least: int = 1,
    most: int = 2**63 - 1,
    optional: bool = False,
    remedy: str = "",
) -> Any:
    optional = optional or default is None
    constraint = Constraint(least=least, most=most, whole=True, optional=optional, remedy=remedy)
    return _field(meaning, default, constraint)


def target(meaning: str = "Target miss rate, between 0 and 1/2.", *, below: float = 0.5) -> Any:
    remedy = "it is the share of misses, such as 0.1 for a coverage of 0.9"
    return number(meaning, above=0.0, below=below, remedy=remedy)


HORIZON = Constraint(
    least=1,
    most=10**15,
    whole=True,
    optional=True,
    remedy="give the number of rounds to come, or None if unknown",
    error=HorizonError,
)


def horizon(meaning: str, *, default: int | None) -> Any:
    """Return the field of the number of rounds to come, None if it is not known."""
    return _field(meaning, default, HORIZON)


MOST_ARMS = 20_000
MOST_NUMBERS = 10**7  # of a learner's state: 80 megabytes


def check_room(numbers: int, what: str) -> None:
    """Raise if a state would hold so many numbers that it is more likely a mistake, or an attack."""
    if numbers > MOST_NUMBERS:
        raise InvalidError(
            f"{what} are {numbers:,} numbers to keep; use fewer, up to {MOST_NUMBERS:,}", field="arms"
        )


def arms(meaning: str, *, default: int | None) -> Any:
    """Return the field of the number of thresholds, None for the rule's own default."""
    remedy = "the theorems want at least 5"
    return whole(meaning, default=default, least=2, most=MOST_ARMS, remedy=remedy)


def thresholds(*, default: None) -> Any:
    """Return the field of a grid, which ``complete_grid`` checks."""
    meaning = "A grid of one's own instead: increasing from 0, at most 1."
    return field(default=default, repr=False, metadata={_MEANING: meaning})


def first_threshold(*, default: float) -> Any:
    return number("The first threshold.", default=default, least=0.0, most=1.0)


def _field(meaning: str, default: object, constraint: Constraint) -> Any:
    remedy = constraint.remedy or (f"try {default:g}" if is_real(default) else "")
    if constraint.optional and remedy.startswith("try"):
        remedy += ", or None"
    constraint = replace(constraint, remedy=remedy)
    return field(default=default, metadata={_KEY: constraint, _MEANING: meaning})


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(
        number,
        positive,
        whole,
        target,
        horizon,
        arms,
        thresholds,
        first_threshold,
        field,
    ),
)
def parameters(kind: type[Class]) -> type[Class]:
    """Make a frozen dataclass whose fields are checked, in the order in which they stand.

    A method ``complete`` may then check what belongs together, and return fields to fill in.

    Kernels read, by name, the fields and properties that are annotated as float, int or array; where
    that is not enough a method ``prepare`` returns a named tuple of what they read instead.

    Methods say what is proven: ``excess(rounds)`` bounds the excess of misses if answers come
    at once, ``late_excess(rounds, lateness)`` if they are late, and ``bound_groups(state, lateness)``
    bounds |state.excess| of all rounds and of every group.
    """
    kind.__post_init__ = _check  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(kind)


def _check(given: Any) -> None:
    for one in fields(given):
        constraint = one.metadata.get(_KEY)
        if constraint is not None:
            checked = constraint.check(one.name, getattr(given, one.name))
            object.__setattr__(given, one.name, checked)
    complete: Callable[[], Mapping[str, object] | None] = getattr(given, "complete", dict)
    for name, value in (complete() or {}).items():
        object.__setattr__(given, name, value)


def describe_fields(kind: Any) -> str:
    """Return what the fields mean, in the form in which docstrings list parameters."""
    meanings = {one.name: one.metadata.get(_MEANING) for one in fields(kind)}
    return "\n".join(
        f"{name}\n{indent(fill(text, 92), '    ')}" for name, text in meanings.items() if text
    )


def prepare_settings(given: object) -> Any:
    """Return what kernels read of the parameters: what ``prepare`` says, or numbers and arrays."""
    if hasattr(given, "prepare"):
        return given.prepare()
    kind = find_settings(type(given))
    return kind(*(getattr(given, name) for name in kind._fields))


def find_settings(kind: Any) -> Any:
    """Return the named tuple of the fields and properties that are always a number or an array."""
    typed = {one.name: one.type for one in fields(kind)}
    for name, held in vars(kind).items():
        if isinstance(held, property) and held.fget is not None:
            typed[name] = held.fget.__annotations__.get("return")
    names = [name for name, type_ in typed.items() if type_ in _READABLE and name[0] != "_"]
    return derive_tuple(kind, "Settings", names)


def derive_tuple(owner: Any, name: str, parts: Iterable[str]) -> Any:
    """Return a named tuple of these parts that belongs to a class: made once, and kept there.

    Numba's cache finds a class again by its module and name, so that it must be an attribute.
    """
    if name not in vars(owner):
        title = f"{owner.__name__.removesuffix('Parameters')}{name}"
        made = _named(title, parts, module=owner.__module__)
        made.__qualname__ = f"{owner.__qualname__}.{name}"
        setattr(owner, name, made)
    return vars(owner)[name]


@parameters
class AlphaParameters:
    """The one parameter of a rule that tunes itself."""

    alpha: float = target()


def complete_grid(
    thresholds: Sequence[float] | None, arms: int | None, *, default: int, theorem: int = 2
) -> dict[str, object]:
    """Return the thresholds and their number; say so if the rule's theorem wants more of them."""
    values = pick_thresholds(thresholds, arms, default=default)
    if values.size < theorem:
        warn_user(f"{values.size} arms work, but the theorem begins at {theorem}", TheoryWarning)
    return {"arms": values.size, "thresholds": tuple(values.tolist())}
