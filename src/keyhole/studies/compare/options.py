"""Which options of ``keyhole compare`` go together; what would change nothing is refused by name."""

import argparse
from collections.abc import Iterable

from keyhole.errors import InvalidError
from keyhole.learners import find, takes
from keyhole.studies.compare.late import CHANNELS

_CHANNEL = ("delay", "batch", "geometric", "lost", "wrong")
_OF_SETS = ("feedback", "arms", "late", *_CHANNEL)
_OF_FILE = ("imagenet", "imagenet-shift")


def list_given(options: argparse.Namespace, parser: argparse.ArgumentParser) -> list[str]:
    """Return the names of the options that are not what they are by default."""
    return [name for name, value in vars(options).items() if value != parser.get_default(name)]


def refuse_unused(options: argparse.Namespace, given: list[str]) -> None:
    """Raise if an option was given that would change nothing beside the others."""
    if options.gates:
        _refuse(given, ["scores"], "a log of a gate's is read by keyhole gate --scores FILE")
        _refuse(given, _OF_SETS, "it is for sets, and not for gates (--gates); leave it out")
    if options.scores is not None:
        played = "a log of your own (--scores) is played instead; give one of the two"
        _refuse(given, ["scenarios", "imagenet"], played)
    if options.late:
        _refuse(given, _CHANNEL, f"--late plays {len(CHANNELS)} kinds of its own; give one of the two")
    if options.delay == 0.0:
        _refuse(given, ["geometric"], "it lets delays vary around --delay, which is 0; give one")
    if not _plays_file(options.scenarios or _OF_FILE):
        _refuse(given, ["imagenet"], "none of the scenarios is of that file; add imagenet to them")


def _plays_file(scenarios: Iterable[str]) -> bool:
    """Return whether one of the scenarios is of a file of classifier outputs."""
    return any(name in _OF_FILE for name in scenarios)


def _refuse(given: list[str], names: Iterable[str], reason: str) -> None:
    for name in names:
        if name in given:
            raise InvalidError(f"--{name} would change nothing: {reason}")


def list_gridless(names: Iterable[str]) -> list[str]:
    """Return the learners that ``--arms`` tells nothing, or raise if that is all of them."""
    names = list(names)
    gridless = [name for name in names if "arms" not in takes(find(name))]
    if gridless == names:
        raise InvalidError(
            f"--arms would change nothing: {', '.join(names)} chooses from no grid; leave it out"
        )
    return gridless
