"""What is known of a case, as the numbers a rule reads: the one door for features and groups."""

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keyhole.checks import find_near, is_whole
from keyhole.errors import InvalidError
from keyhole.learners import Excess, Learner
from keyhole.numeric import Array

if TYPE_CHECKING:
    from keyhole.predictor.setup import Setup

Features = Mapping[str, Any] | Sequence[Any] | Array
Groups = Iterable[str | int]
NOTHING_KNOWN = np.zeros(0)


class Names(NamedTuple):
    """What the features and the groups are called; empty where they are only counted."""

    features: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


UNNAMED = Names()


class Known(NamedTuple):
    """What was known of a case: features by name, or in order where they have none; its groups."""

    features: dict[str, float | None] | list[float | None] | None = None
    groups: tuple[str | int, ...] = ()


class Group(NamedTuple):
    """How a group of rounds has fared.

    ``excess`` is misses - alpha rounds, and lies within ``bound``, which is None where no theorem says
    so. ``rounds`` of decisions are the accepted answers, an audited one counted for the 1 / chance
    that it stands for.
    """

    rounds: float
    misses: float
    excess: float
    bound: Excess | None

    @property
    def miss_rate(self) -> float:
        """The share of the group's rounds that missed; NaN before its first answer."""
        return self.misses / self.rounds if self.rounds else float("nan")


def read_names(given: int | Iterable[str] | None, kind: str) -> tuple[int, tuple[str, ...]]:
    """Return how many features or groups there are, and what they are called, or raise."""
    if given is None:
        return 0, ()
    if is_whole(given, least=0):
        return int(given), ()  # type: ignore[arg-type]
    if isinstance(given, str) or not isinstance(given, Iterable):
        example = [given] if isinstance(given, str) else 2
        fault = f"{kind} {given!r} are neither names nor how many; try {example!r}"
        raise InvalidError(fault, field=kind)
    names = tuple(given)
    check_names(names, kind, count=len(names))
    return len(names), names


def check_names(names: tuple[object, ...], kind: str, *, count: int) -> None:
    if strange := [name for name in names if not isinstance(name, str) or not name]:
        raise InvalidError(f"{strange[0]!r} does not name one of the {kind}; use text", field=kind)
    if twice := [name for name in names if names.count(name) > 1]:
        fault = f"{twice[0]!r} is twice among the {kind}; give each a name of its own"
        raise InvalidError(fault, field=kind)
    if names and len(names) != count:
        raise InvalidError(f"{len(names)} {kind} are named, but the learner takes {count}", field=kind)


def list_groups(learner: Learner, context: Array) -> tuple[int, ...]:
    return tuple(np.flatnonzero(context[learner.features :]).tolist())


def read_context(setup: "Setup", features: Features | None = None, groups: Groups | None = ()) -> Array:
    if features is None and not groups and not setup.context:
        return NOTHING_KNOWN
    learner, context = setup.learner, _know_nothing(setup)
    if features is not None:
        setup.kind.check_features(features)
        context[: learner.features] = _read_features(learner, features, setup.names.features)
    if isinstance(groups, Mapping):
        raise InvalidError(
            f"groups {groups!r} are not a list; give the names of those it is in", field="groups"
        )
    if isinstance(groups, str) or (groups is not None and not isinstance(groups, Iterable)):
        raise InvalidError(f"groups {groups!r} are not a list; give [{groups!r}]", field="groups")
    for group in () if groups is None else groups:
        context[learner.features + _find_group(setup, group)] = 1.0
    return context


def _know_nothing(setup: "Setup") -> Array:
    return np.concatenate((np.full(setup.learner.features, np.nan), np.zeros(setup.groups)))


def pack_context(context: Array) -> bytes | None:
    """Return what is known of a case as bytes, None if nothing is asked for."""
    return context.tobytes() if context.size else None


def unpack_context(setup: "Setup", content: bytes | None) -> Array:
    """Return the context that ``pack_context`` wrote, or raise if it is another predictor's."""
    size = 8 * setup.context
    if content is None:
        return _know_nothing(setup) if size else NOTHING_KNOWN
    if len(content) != size:
        raise InvalidError(
            f"{len(content)} bytes are not what is known of a case: the stream takes "
            f"{size}; restore the database from a copy"
        )
    return np.frombuffer(content)


def show_context(setup: "Setup", context: Array) -> Known:
    """Return what a context says, as ``read_context`` takes it; a missing feature is None."""
    learner, names = setup.learner, setup.names
    if context.size == 0:
        return Known()
    known = [None if value != value else value for value in context[: learner.features].tolist()]
    members = list_groups(learner, context)
    named = dict(zip(names.features, known, strict=True)) if names.features else known
    return Known(
        named if known else None, tuple(names.groups[k] if names.groups else k for k in members)
    )


def _read_features(learner: Learner, given: Features, names: tuple[str, ...]) -> Array:
    values: list[Any] | Array
    if isinstance(given, Mapping):
        for name in given:
            if name not in names:
                raise InvalidError(
                    f"there is no feature {name!r}; {_suggest(name, names, 'feature')}",
                    field="features",
                )
        values = [given.get(name) for name in names]
    elif isinstance(given, Iterable):
        values = given if isinstance(given, np.ndarray) else list(given)
    else:
        raise InvalidError(
            f"features {given!r} are not a list; give [{given!r}], or a dict of names", field="features"
        )
    for value in values:
        if not _is_number(value):
            raise InvalidError(
                f"feature {value!r} is not a number; encode it, or give NaN or None where it is "
                "missing",
                field="features",
            )
    read = np.array([np.nan if one is None else one for one in values], dtype=np.float64)
    if read.shape != (learner.features,):
        raise InvalidError(
            f"features have shape {read.shape}; {learner.name} takes {learner.features} of them",
            field="features",
        )
    return read


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return False
    try:
        float(np.nan if value is None else value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _find_group(setup: "Setup", group: str | int) -> int:
    names = setup.names.groups
    if group in names:
        return names.index(group)
    if is_whole(group, least=0, most=setup.groups - 1):
        return int(group)
    counted = (
        f"{setup.learner.name} tells {setup.groups} groups apart, numbered from 0; "
        f"{setup.kind.rules.player}(groups=...) names them, or says how many"
    )
    hint = _suggest(group, names, "group") if names else counted
    raise InvalidError(f"there is no group {group!r}; {hint}", field="groups")


def _suggest(name: object, names: tuple[str, ...], kind: str) -> str:
    if near := find_near(name, names):
        return f"did you mean {near!r}?"
    if names:
        return f"there are {', '.join(map(repr, names))}"
    return f"none has a name: give an array, or names to Predictor({kind}s=[...])"


def read_contexts(
    setup: "Setup",
    count: int,
    features: Mapping[str, Sequence[object]] | Sequence[Features] | Array | None,
    groups: Sequence[Groups] | None,
) -> list[Array]:
    """Return the contexts of a batch: one row of features, or one column a name, and groups a case."""
    rows, members = read_rows(count, features, groups)
    return [read_context(setup, row, own) for row, own in zip(rows, members, strict=True)]


def read_rows(
    count: int,
    features: Mapping[str, Sequence[object]] | Sequence[Features] | Array | None,
    groups: Sequence[Groups] | None,
) -> tuple[Any, Sequence[Groups]]:
    """Return the features and the groups of a batch case by case, or raise if they are not as many."""
    rows: Any = [None] * count
    if isinstance(features, Mapping):
        for name, column in features.items():
            _check_count(column, count, f"feature {name!r}", field="features")
        rows = [{name: column[n] for name, column in features.items()} for n in range(count)]
    elif features is not None:
        rows = features
    members: Sequence[Groups] = [()] * count if groups is None else groups
    for kind, given in (("features", rows), ("groups", members)):
        _check_count(given, count, kind, field=kind)
    return rows, members


def _check_count(given: object, count: int, what: str, *, field: str) -> None:
    if not isinstance(given, Sized):
        fault = f"{what} {given!r} are not one for each of {count} cases; give a list"
        raise InvalidError(fault, field=field)
    if len(given) != count:
        fault = f"{what} are given for {len(given)} cases, outputs for {count}"
        raise InvalidError(fault, field=field)
