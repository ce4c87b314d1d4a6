"""The streams by name, each with the rounds at which it is known to change."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keyhole.errors import InvalidError
from keyhole.streams import Stream, digits, imagenet, log
from keyhole.streams.adversaries import ADVERSARIES
from keyhole.streams.airfoil import airfoil
from keyhole.streams.drifts import DRIFTS
from keyhole.streams.imagenet_like import imagenet_like

_PIECES = 10


class Staged(NamedTuple):
    """A stream, and the rounds at which its segments begin."""

    stream: Stream
    changes: tuple[int, ...]


@dataclass(frozen=True)
class Listed:
    """A stream that can be asked for by name; an adversary has none before it is played."""

    name: str
    about: str
    unit: str
    build: Callable[[int, int], Staged] | None = None
    rounds: int | None = None  # how many there are, if they are counted


def listing(*, imagenet_file: Path | None = None) -> dict[str, Listed]:
    """Return every stream by name; the real ImageNet ones need a file of classifier outputs."""
    streams = [*_drifts(), *_measured(), *_pictures(imagenet_file), *_adversaries()]
    return {listed.name: listed for listed in streams}


def logged(path: Path) -> Listed:
    """Return the stream of a user's own log."""
    stream = log.load(path)
    unit = "1 - threshold" if stream.labels is None else "labels"

    def build(rounds: int, _seed: int) -> Staged:
        part = log.LogStream(
            stream.scores[:rounds], None if stream.labels is None else stream.labels[:rounds]
        )
        return Staged(part, _even(part.scores.size))

    return Listed(path.name, "a log", unit, build, rounds=stream.scores.size)


def chosen(names: Iterable[str], streams: dict[str, Listed]) -> list[Listed]:
    """Return the streams of these names, or raise with those there are."""
    unknown = [name for name in names if name not in streams]
    if unknown:
        raise InvalidError(f"there is no stream {unknown[0]!r}; there are {', '.join(streams)}")
    return [streams[name] for name in names]


def _even(rounds: int, pieces: int = _PIECES) -> tuple[int, ...]:
    return tuple(sorted({rounds * piece // pieces for piece in range(pieces)}))


def _drifts() -> list[Listed]:
    def builder(name: str) -> Callable[[int, int], Staged]:
        def build(rounds: int, seed: int) -> Staged:
            stream = DRIFTS[name](rounds, seed=seed)
            return Staged(stream, stream.changes)

        return build

    about = {
        "steady": "synthetic scores that do not drift",
        "fall": "scores fall at once, halfway",
        "rise": "scores rise at once, halfway",
        "slope": "scores fall all the time",
        "waves": "scores fall and rise five times",
        "seasons": "easy and hard rounds in turn, ten times",
        "lumps": "many tied scores",
    }
    return [Listed(name, about[name], "1 - threshold", builder(name)) for name in DRIFTS]


def _measured() -> list[Listed]:
    def still(rounds: int, seed: int) -> Staged:
        return Staged(airfoil(rounds, seed=seed), (0,))

    def shifted(rounds: int, seed: int) -> Staged:
        return Staged(airfoil(rounds, seed=seed, shift=True), (0, rounds // 3))

    def ordered(rounds: int, seed: int) -> Staged:
        return Staged(airfoil(rounds, seed=seed, in_order=True), _even(rounds))

    return [
        Listed("airfoil", "airfoil self-noise, rows at random", "dB", still),
        Listed("airfoil-shift", "airfoil self-noise, the paper's covariate shift", "dB", shifted),
        Listed("airfoil-in-order", "airfoil self-noise, one experiment after another", "dB", ordered),
    ]


def _pictures(file: Path | None) -> list[Listed]:
    def drawn(rounds: int, seed: int) -> Staged:
        return Staged(digits.digits(rounds, seed=seed), (0,))

    def sorted_by_label(rounds: int, seed: int) -> Staged:
        stream = digits.digits(rounds, seed=seed, by_label=True)
        starts = np.flatnonzero(np.diff(stream.digits, prepend=-1))
        return Staged(stream, tuple(int(start) for start in starts))

    streams = [
        Listed("digits", "handwritten digits at random", "labels", drawn),
        Listed("digits-by-label", "handwritten digits, first all zeros", "labels", sorted_by_label),
        *_classified("imagenet-like", "generated ImageNet outputs", imagenet_like),
    ]
    if file is not None:
        streams += _classified("imagenet", f"classifier outputs in {file.name}", lambda: _loaded(file))
    return streams


@cache
def _loaded(path: Path) -> imagenet.Outputs:
    return imagenet.load(path)


def _classified(name: str, about: str, outputs: Callable[[], imagenet.Outputs]) -> list[Listed]:
    def still(rounds: int, seed: int) -> Staged:
        return Staged(imagenet.imagenet(outputs(), rounds, seed=seed), (0,))

    def shifted(rounds: int, seed: int) -> Staged:
        stream = imagenet.imagenet(outputs(), rounds, seed=seed, shift=True)
        starts = np.flatnonzero(np.diff(stream.powers, prepend=-1.0))
        return Staged(stream, tuple(int(start) for start in starts))

    return [
        Listed(name, about, "labels", still),
        Listed(
            f"{name}-shift", f"{about}, the score's exponent changing four times", "labels", shifted
        ),
    ]


def _adversaries() -> list[Listed]:
    return [Listed(name, adversary.about, "1 - threshold") for name, adversary in ADVERSARIES.items()]
