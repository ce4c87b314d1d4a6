"""A learner at work as a file and back: a line of JSON, then bytes, behind a digest, versioned."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from keyhole.checks import is_whole
from keyhole.errors import InvalidError, KeyholeError, SnapshotError
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import Round
from keyhole.predictor.setup import Setup
from keyhole.scores import Score

_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
VERSION = 2
_MAGIC = "keyhole predictor"
_DIGEST_SIZE = 16


def pack(header: dict[str, Any], content: bytes) -> bytes:
    """Return header and content as the bytes of a file; floats keep every bit."""
    body = json.dumps(header).encode() + b"\n" + content
    return f"{_MAGIC} {VERSION}\n".encode() + _digest(body) + body


def unpack(file: bytes) -> tuple[dict[str, Any], bytes]:
    if not isinstance(file, (bytes, bytearray, memoryview)):
        raise SnapshotError(
            f"{file!r} is not a snapshot, which is bytes; restore what dump returned, or load a file"
        )
    first, _, rest = bytes(file).partition(b"\n")
    kind, _, version = first.decode("utf-8", "replace").rpartition(" ")
    if kind != _MAGIC or not version.isdecimal():
        raise SnapshotError("this is not a whole snapshot of a predictor; restore it from a copy")
    if int(version) > VERSION:
        raise SnapshotError(
            f"the snapshot has format version {version}, this Keyhole reads up to {VERSION}; "
            "upgrade keyhole-conformal"
        )
    digest, body = rest[:_DIGEST_SIZE], rest[_DIGEST_SIZE:]
    header, found, content = body.partition(b"\n")
    if not found or digest != _digest(body):
        raise SnapshotError(
            "this is not a whole snapshot of a predictor: bytes are missing or changed; "
            "restore it from a copy"
        )
    try:
        return json.loads(header), content
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"the snapshot's head is not JSON ({error}); restore a copy") from None


def _digest(body: bytes) -> bytes:
    from hashlib import blake2b

    return blake2b(body, digest_size=_DIGEST_SIZE).digest()


def write(path: Path, content: bytes) -> None:
    """Put the content at the path, whole or not at all: a crash leaves what was there before."""
    import tempfile

    path = path.resolve()
    folder = path.parent
    handle, name = tempfile.mkstemp(dir=folder, prefix=f".{path.name}.")
    try:
        Path(name).chmod(path.stat().st_mode if path.exists() else _usual_mode())
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise
    _sync_folder(folder)


def _usual_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return  # Elsewhere a folder cannot be opened.
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def dump(setup: Setup, progress: Progress, waiting: Sequence[Round[Any]]) -> bytes:
    """Return setup, open rounds and progress as bytes; floats keep every bit."""
    rows = []
    for one in waiting:
        content, labels = one.case.pack()
        shown = one.prediction
        rows.append([shown.id, shown.threshold, one.then, content.hex(), labels, list(one.groups)])
    memos = b"".join(setup.learner.pack_memo(one.memo) for one in waiting)
    return pack({"setup": setup.dump(), "open": rows}, memos + progress.pack(setup.learner))


def restore(
    content: bytes, *, holder: str, score: Score[Any] | None = None
) -> tuple[Setup, Progress, dict[int, Round[Any]]]:
    """Return what ``dump`` wrote of such a holder, or raise ``SnapshotError``."""
    header, rest = unpack(content)
    try:
        setup: Setup = Setup.load(header["setup"], score=score)
        waiting, place = _restore_rounds(setup, header["open"], rest)
    except KeyholeError:
        raise
    except _UNREADABLE as error:
        found = f"{type(error).__name__}: {error}"
        raise SnapshotError(f"the snapshot lacks or mistypes {found}; restore a copy") from error
    if setup.kind.rules.player != holder:
        right = setup.kind.rules.player
        raise SnapshotError(f"this is a snapshot of a {right}; restore it with keyhole.{right}")
    return setup, Progress.unpack(rest[place:], setup=setup), waiting


def _restore_rounds(setup: Setup, rows: list[Any], content: bytes) -> tuple[dict[int, Round[Any]], int]:
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


def _check_round(setup: Setup, number: object, then: object, groups: tuple[object, ...]) -> None:
    if not is_whole(number, least=0) or not is_whole(then, least=0):
        raise SnapshotError(f"an open round is numbered {number!r}, {then!r}; restore a copy")
    if not all(is_whole(group, least=0, most=setup.groups - 1) for group in groups):
        raise SnapshotError(f"open round {number} is of groups {list(groups)}; restore a copy")
