"""A predictor or a gate as the bytes of a file, and back: setup, open rounds and progress."""

from collections.abc import Callable
from typing import Any, NamedTuple

from keyhole.checks import is_whole
from keyhole.errors import InvalidError, SnapshotError
from keyhole.learners import Learner
from keyhole.predictor import file
from keyhole.predictor.open_rounds import OpenRounds
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import Round
from keyhole.predictor.setup import Setup
from keyhole.scores import Case, Score


class Parts(NamedTuple):
    """What is kept of a predictor or a gate."""

    setup: Setup[Any]
    progress: Progress
    rounds: OpenRounds


def dump(parts: Parts) -> bytes:
    """Return the parts as bytes; floats keep every bit."""
    setup, progress, rounds = parts
    with rounds.lock:
        learner, waiting = setup.learner, list(rounds)
        rows = [
            [w.prediction.id, w.prediction.threshold, w.then, *_dump_case(w.case), list(w.groups)]
            for w in waiting
        ]
        memos = b"".join(learner.pack_memo(w.memo) for w in waiting)
        header = {"setup": setup.dump(), "open": rows}
        return file.pack(header, memos + progress.pack(learner))


def _dump_case(case: Case[Any]) -> tuple[str, str | None]:
    content, labels = case.pack()
    return content.hex(), labels


def restore(content: bytes, *, kind: str, score: Score[Any] | None = None) -> Parts:
    """Return the parts that ``dump`` wrote of a rule of this kind, or raise ``SnapshotError``."""
    header, rest = file.unpack(content)
    try:
        setup: Setup[Any] = Setup.load(header["setup"], score=score)
        waiting, place = _restore_rounds(setup, header["open"], rest)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise SnapshotError(f"the snapshot lacks or mistypes {error}; restore a copy") from error
    learner = setup.learner
    if learner.rule.kind != kind:
        holder = "Gate" if learner.rule.kind == "gate" else "Predictor"
        raise SnapshotError(f"this is a snapshot of a {holder}; restore it with keyhole.{holder}")
    progress = Progress.unpack(rest[place:], learner=learner).check_states(setup.states)
    return Parts(setup, progress, OpenRounds(setup.open_limit, progress, waiting))


def _restore_rounds(
    setup: Setup[Any], rows: list[Any], content: bytes
) -> tuple[dict[int, Round[Any]], int]:
    """Return the open rounds, and where in the content their memos end."""
    learner, place = setup.learner, 0
    waiting: dict[int, Round[Any]] = {}
    for number, threshold, then, packed, labels, listed in rows:
        groups = tuple(listed)
        _check_round(setup, number, then, groups)
        case = setup.score.unpack(bytes.fromhex(packed), labels)
        memo, place = _restore_memo(learner, content, place, len(groups))
        waiting[number] = Round(case.region(number, threshold), case, memo, then, groups)
    return waiting, place


def _check_round(setup: Setup[Any], number: Any, then: Any, groups: tuple[Any, ...]) -> None:
    """Raise unless these are the numbers of a round, and of groups that there are."""
    most = setup.states if setup.learner.rule.kind == "gate" else setup.learner.groups - 1
    if not is_whole(number, least=0) or not is_whole(then, least=0):
        raise SnapshotError(f"an open round is numbered {number!r}, {then!r}; restore a copy")
    if not all(is_whole(group, least=0, most=most) for group in groups):
        raise SnapshotError(f"open round {number} is of groups {list(groups)}; restore a copy")


def _restore_memo(learner: Learner, content: bytes, place: int, groups: int) -> tuple[Any, int]:
    """Return what a round remembers, of a gate for each of its groups, and where that ends."""
    size = 8 * learner.memory
    if learner.rule.kind != "gate":
        return _read(learner.unpack_memo, content, place, size), place + size
    memos = [_read(learner.unpack_memo, content, place + size * n, size) for n in range(groups)]
    return memos, place + size * groups


def _read(unpack: Callable[[bytes], Any], content: bytes, place: int, size: int) -> Any:
    try:
        return unpack(content[place : place + size])
    except InvalidError as error:
        raise SnapshotError(f"{error}; restore it from a copy") from None
