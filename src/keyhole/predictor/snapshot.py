"""A predictor or a gate as the bytes of a file, and back: setup, open rounds and progress."""

from typing import Any, NamedTuple

from keyhole.checks import is_whole
from keyhole.errors import InvalidError, SnapshotError
from keyhole.predictor import file
from keyhole.predictor.open_rounds import OpenRounds
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import Round
from keyhole.predictor.setup import Setup
from keyhole.scores import Case, Score


class Parts(NamedTuple):
    """What is kept of a predictor or a gate."""

    setup: Setup[Any]
    progress: Progress[Any]
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


def restore(content: bytes, *, holder: str, score: Score[Any] | None = None) -> Parts:
    """Return the parts that ``dump`` wrote of such a holder, or raise ``SnapshotError``."""
    header, rest = file.unpack(content)
    try:
        setup: Setup[Any] = Setup.load(header["setup"], score=score)
        waiting, place = _restore_rounds(setup, header["open"], rest)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise SnapshotError(f"the snapshot lacks or mistypes {error}; restore a copy") from error
    if setup.kind.holder != holder:
        right = setup.kind.holder
        raise SnapshotError(f"this is a snapshot of a {right}; restore it with keyhole.{right}")
    progress = Progress.unpack(rest[place:], setup=setup)
    return Parts(setup, progress, OpenRounds(setup.open_limit, progress, waiting))


def _restore_rounds(
    setup: Setup[Any], rows: list[Any], content: bytes
) -> tuple[dict[int, Round[Any]], int]:
    """Return the open rounds, and where in the content their memos end."""
    place = 0
    waiting: dict[int, Round[Any]] = {}
    for number, threshold, then, packed, labels, listed in rows:
        groups = tuple(listed)
        _check_round(setup, number, then, groups)
        case = setup.score.unpack(bytes.fromhex(packed), labels)
        end = place + setup.kind.measure_memo(setup, len(groups))
        try:
            memo = setup.kind.unpack_memo(setup, content[place:end], len(groups))
        except InvalidError as error:
            raise SnapshotError(f"{error}; restore it from a copy") from None
        waiting[number] = Round(case.region(number, threshold), case, memo, then, groups)
        place = end
    return waiting, place


def _check_round(setup: Setup[Any], number: Any, then: Any, groups: tuple[Any, ...]) -> None:
    """Raise unless these are the numbers of a round, and of groups that there are."""
    if not is_whole(number, least=0) or not is_whole(then, least=0):
        raise SnapshotError(f"an open round is numbered {number!r}, {then!r}; restore a copy")
    if not all(is_whole(group, least=0, most=setup.groups - 1) for group in groups):
        raise SnapshotError(f"open round {number} is of groups {list(groups)}; restore a copy")
