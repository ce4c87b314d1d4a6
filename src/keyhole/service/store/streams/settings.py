"""What a stream is made with: a predictor's setup, a name, and how long its rounds may wait."""

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

from keyhole import scores
from keyhole.errors import InvalidError
from keyhole.learners import Learner
from keyhole.predictor import setup as setups
from keyhole.predictor.levels import read_alphas
from keyhole.predictor.setup import Setup
from keyhole.scores import Kind, Score
from keyhole.scores.score import write_json

DAY = 86_400.0
LIFETIME = 7 * DAY
LABELS = 10_000  # of an array of scores, at the most
WINDOW = 1000
LONGEST = 2000  # characters of a description
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OF_SCORE = ("labels", "power", "at_least", "at_most", "bound", "scale", "side")


def dump_setup(setup: Setup) -> str:
    """Return a setup as JSON, without its seed: streams are often alike but for that."""
    return write_json({name: value for name, value in setup.dump().items() if name != "seed"})


@lru_cache(maxsize=1024)
def load_setup(text: str, seed: str) -> Setup:
    # What is alike is checked once and kept once, however many streams there are: a cache of whole
    # setups is of no use to who goes through all of them.
    return replace(_load_alike(text), seed=int(seed))


@lru_cache(maxsize=256)
def _load_alike(text: str) -> Setup:
    return Setup.load({**json.loads(text), "seed": 0})


def make_setup(
    learner: str | None = None,
    *,
    kind: Kind | None = None,
    score: Mapping[str, object] | None = None,
    **given: Any,
) -> tuple[Setup, list[str]]:
    """Return the setup of these settings, and what Keyhole warns of about them.

    They are those of a setup, and those of the score: by its name, or by what its kind takes.
    """
    of_score = {name: given.pop(name) for name in _OF_SCORE if name in given}
    with collect_notes() as notes:
        setup = setups.make_setup(learner, score=_make_score(kind, score, of_score), **given)
    return setup, notes


@contextmanager
def collect_notes() -> Iterator[list[str]]:
    """Give a list of what was warned of in the block, once it is left."""
    notes = list[str]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    notes += [str(warning.message) for warning in caught]


def make_setups(
    *, alpha: float | Sequence[float], **given: Any
) -> tuple[Setup, list[str], list[Learner]]:
    """Return as ``make_setup`` does; of several alphas for the smallest, and the others' learners."""
    if not isinstance(alpha, Sequence):
        return *make_setup(alpha=alpha, **given), []
    outermost, *inner = read_alphas(given.get("learner"), alpha)
    setup, notes = make_setup(alpha=outermost, **given)
    setup.kind.check_levels(setup)
    return setup, notes, [make_setup(alpha=one, **given)[0].learner for one in inner]


def check_limits(*, lifetime: float, window: int, retention: float | None = None) -> None:
    """Raise if rounds would wait, or be kept, or the recent miss rate run, longer than they may."""
    if retention and not 1.0 <= retention <= 36_500 * DAY:
        raise InvalidError(
            f"retention {retention} is not from a second to a hundred years, in seconds; 0 keeps all"
        )
    if not 1.0 <= lifetime <= 3650 * DAY:
        raise InvalidError(f"lifetime {lifetime} is not from a second to ten years, in seconds")
    if not 20 <= window <= 10**5:
        raise InvalidError(f"window {window} is not from 20 to {10**5}")


def check_description(text: str | None) -> None:
    """Raise if people say more of a stream than is kept, or what PostgreSQL cannot keep."""
    if text is not None and len(text) > LONGEST:
        raise InvalidError(f"the description is longer than {LONGEST} characters; shorten it")
    if text is not None and "\0" in text:
        raise InvalidError(
            "the description holds a null character, which no database keeps; leave it out"
        )


def check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise InvalidError(
            f"{name!r} cannot name a stream; use up to 64 letters, digits, dots, dashes and "
            "underscores, a letter or digit first",
            field="name",
        )
    return name


def _make_score(
    kind: Kind | None, score: Mapping[str, object] | None, settings: Mapping[str, object]
) -> Score[Any]:
    given = {name: value for name, value in settings.items() if value is not None}
    if score is None:
        return scores.choose(kind, given)
    if kind is not None or given:
        other = next(iter(given), "kind")
        raise InvalidError(f"score and {other} exclude each other; give one of them")
    return scores.load(score)
