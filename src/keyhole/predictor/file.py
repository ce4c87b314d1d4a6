"""The file a predictor is saved in: a line of JSON, then bytes, behind a digest, versioned."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from keyhole.errors import SnapshotError

VERSION = 2
_MAGIC = "keyhole predictor"
_DIGEST_SIZE = 16


def pack(header: dict[str, Any], content: bytes) -> bytes:
    """Return header and content as the bytes of a file; floats keep every bit."""
    body = json.dumps(header).encode() + b"\n" + content
    return f"{_MAGIC} {VERSION}\n".encode() + _digest(body) + body


def unpack(file: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header and the content, or raise if the file is damaged or too new."""
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
    return json.loads(header), content


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
    """Return the mode of a file that is made the ordinary way."""
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
