"""From a model's output to scores, and back: from a threshold to a set or an interval.

A score (``Probabilities``, ``BoundedResiduals``, ...) reads a model's output into a case; a case gives
the region of any threshold and the score of any label. A score of one's own joins the table ``SCORES``
by ``register``, or by an entry point of the group ``keyhole.scores`` in the package that brings it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any, TypeVar, cast, get_args

from keyhole.errors import InvalidError, LabelError, ScoreError
from keyhole.packages import add_entry_points
from keyhole.scores.decision import BestScore, Decision
from keyhole.scores.intervals import CustomIntervals, QuantileBands
from keyhole.scores.labels import CustomScores, LabelSet, Probabilities
from keyhole.scores.numbers import check_scores
from keyhole.scores.regions import Interval, Label
from keyhole.scores.residuals import BoundedResiduals, ScaledResiduals
from keyhole.scores.score import (
    Case,
    Kind,
    ScaledScore,
    Score,
    TableScore,
    pack_label,
    unpack_label,
)

__all__ = [
    "SCORES", "BestScore", "BoundedResiduals", "Case", "CustomIntervals", "CustomScores", "Decision",
    "Interval", "Kind", "Label", "LabelSet", "Predicted", "Probabilities", "QuantileBands", "Region",
    "ScaledResiduals", "ScaledScore", "Score", "TableScore", "add_labels",
    "check_score", "check_scores", "check_storable", "choose", "dump", "find_labels", "load",
    "register",
]  # fmt: skip

Region = LabelSet | Interval
Predicted = Region | Decision  # what a round shows
R = TypeVar("R", bound=Predicted)
_MEMBERS = ("name", "kind", "read", "unpack")


class _Table(Mapping[str, type[Score[Any]]]):
    """Every score that can be saved and loaded, by its name."""

    def __init__(self, *scores: type[Score[Any]]) -> None:
        self._known = {score.name: score for score in scores}
        self._has_asked_packages = False

    def __getitem__(self, name: str) -> type[Score[Any]]:
        if name not in self._known:
            self._ask_packages()
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        self._ask_packages()
        return iter(tuple(self._known))

    def __len__(self) -> int:
        self._ask_packages()
        return len(self._known)

    def __repr__(self) -> str:
        return f"<{len(self)} scores: {', '.join(self)}>"

    def add(self, score: object) -> None:
        if not isinstance(score, type):
            raise ScoreError(f"{score!r} is not a class; register the class of the score")
        _check_members(score, score.__name__)
        name = score.name  # type: ignore[attr-defined]
        if self._known.get(name, score) is not score:
            raise ScoreError(f"there is a score {name!r} already; choose another name")
        self._known[name] = score

    def _ask_packages(self) -> None:
        if not self._has_asked_packages:
            self._has_asked_packages = True
            add_entry_points("keyhole.scores", "score", self.add)


SCORES = _Table(Probabilities, ScaledResiduals, BoundedResiduals, QuantileBands, BestScore)


def register(score: type[Score[Any]]) -> type[Score[Any]]:
    """Put a score's class in the table, and return it: what is made with it can be saved and served.

    Examples
    --------
    >>> register(Probabilities).name
    'probabilities'
    """
    SCORES.add(score)
    return score


def check_score(score: object) -> None:
    if isinstance(score, type) or not callable(getattr(score, "read", None)):
        raise ScoreError(f"score {score!r} is not a score; try keyhole.Probabilities()")
    _check_members(score, type(score).__name__)


def _check_members(score: Any, name: str) -> None:
    """Raise unless a score, or its class, is a dataclass that follows ``Score``."""
    if missing := [member for member in _MEMBERS if not hasattr(score, member)]:
        raise ScoreError(
            f"score {name} has no {missing[0]}; a score is a dataclass with {', '.join(_MEMBERS)}: see "
            "help(keyhole.scores.Score)"
        )
    if score.kind not in get_args(Kind):
        raise ScoreError(
            f"kind {score.kind!r} of score {name} is none of {', '.join(get_args(Kind))}; say which of "
            "them it proposes"
        )
    if not is_dataclass(score):
        raise ScoreError(f"score {name} is not a dataclass, whose fields can be saved; make it one")


def check_storable(score: Score[Any]) -> None:
    """Raise unless a score can be written down and made again, elsewhere or later."""
    if functions := _list_functions(score):
        raise ScoreError(
            f"{type(score).__name__} holds a function, {functions[0]}, which cannot be saved; write "
            "the score as a class, and make it known: keyhole.register(...)"
        )
    if SCORES.get(score.name) is not type(score):
        raise ScoreError(
            f"{type(score).__name__} is not a registered score; make it known first: "
            f"keyhole.register({type(score).__name__})"
        )
    dump(score)


def dump(score: Score[Any]) -> dict[str, Any]:
    """Return a score as JSON values: its name and its fields; of functions no more than their names."""
    if functions := _list_functions(score):
        return {"name": score.name, "functions": functions}
    try:
        settings = {name: pack_label(value) for name, value in _list_settings(score).items()}
    except LabelError as error:
        raise ScoreError(f"{score.name} cannot be saved: {error}") from None
    return {"name": score.name, **settings}


def load(dumped: Mapping[str, object]) -> Score[Any]:
    name: Any = dumped.get("name")
    settings = {key: dumped[key] for key in dumped if key != "name"}
    if "functions" in settings:
        raise ScoreError(
            f"the file was saved with {name}, and a function cannot be saved; "
            "give it again: Predictor.load(path, score=...)"
        )
    if name not in SCORES:
        raise ScoreError(
            f"no score {name!r} is registered; make its class known first, keyhole.register(...), or "
            "give the score again: Predictor.load(path, score=...)"
        )
    known = _list_fields(SCORES[name])
    if unknown := [key for key in settings if key not in known]:
        raise ScoreError(
            f"score {name!r} takes no {unknown[0]!r}; it takes {', '.join(known) or 'nothing'}"
        )
    if missing := [key for key in known if known[key] and key not in settings]:
        raise ScoreError(f"score {name!r} lacks {missing[0]!r}; give it")
    return SCORES[name](**{key: unpack_label(value) for key, value in settings.items()})


def choose(kind: Kind | None, settings: Mapping[str, object]) -> Score[Any]:
    """Return the first score of this kind that takes these settings, or raise if there is none.

    Where no kind is given, the settings tell it.
    """
    for score in SCORES.values():
        known = _list_fields(score)
        needed = [key for key in known if known[key]]
        if kind in (None, score.kind) and known.keys() >= settings.keys() >= set(needed):
            return score(**settings)
    owners = {key: _find_owner(key) for key in settings}
    wanted = kind or [*owners.values()][-1].kind
    for key, owner in owners.items():
        if owner.kind != wanted:
            raise InvalidError(
                f"{key} is for streams of kind {owner.kind!r}, and this is one of kind {wanted!r}; "
                "leave one of the two out"
            )
    first, *rest = owners
    other = next(key for key in rest if owners[key] is not owners[first])
    raise InvalidError(f"{first} and {other} exclude each other; give one of them")


def _find_owner(setting: str) -> type[Score[Any]]:
    return next(score for score in SCORES.values() if setting in _list_fields(score))


def _list_fields(score: Any) -> dict[str, bool]:
    """Return the names of a score's settings, and which of them must be given."""
    return {one.name: one.default is MISSING is one.default_factory for one in fields(score)}


def _list_settings(score: Any) -> dict[str, Any]:
    return {one.name: getattr(score, one.name) for one in fields(score)}


def _list_functions(score: Score[Any]) -> list[str]:
    return [name for name, value in _list_settings(score).items() if callable(value)]


def find_labels(score: Score[Any]) -> Sequence[Any] | None:
    """Return the labels that a score fixes, by the places of an array of scores; if it does."""
    return getattr(score, "labels", None)


def add_labels(score: Score[R], labels: Sequence[Label]) -> Score[R]:
    """Return a score that fixes more labels, the new ones last; or raise if it fixes none."""
    known = find_labels(score)
    if known is None or "labels" not in _list_fields(score):
        raise LabelError("the stream has no labels of its own; there is nothing to add to")
    changed: Score[R] = replace(cast("Any", score), labels=(*known, *labels))
    return changed
