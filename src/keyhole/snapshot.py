"""The file a predictor is saved in: a zip of arrays and one JSON header, checked and versioned."""

import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import NewerSnapshotError, SnapshotError

VERSION = 1
_MAGIC = "keyhole predictor"


def pack(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return header and arrays as bytes; floats keep every bit."""
    text = json.dumps({"format": _MAGIC, "version": VERSION, **header})
    buffer = io.BytesIO()
    np.savez(buffer, header=np.frombuffer(text.encode(), dtype=np.uint8), **dict(arrays))  # type: ignore[arg-type]
    return buffer.getvalue()


def unpack(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays, or raise if the content is damaged or too new."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays.pop("header").tobytes())
        if header["format"] != _MAGIC:
            raise SnapshotError(f"this is a {header['format']!r} file, not a {_MAGIC!r} file")
        version = int(header["version"])
    except (
        ValueError, KeyError, TypeError, OSError, EOFError, RuntimeError, zipfile.BadZipFile
    ) as error:  # fmt: skip
        if isinstance(error, SnapshotError):
            raise
        raise SnapshotError(
            f"this is not a whole snapshot of a predictor ({error}); restore it from a copy"
        ) from error
    if version > VERSION:
        raise NewerSnapshotError(
            f"the snapshot has format version {version}, this Keyhole reads up to {VERSION}; "
            "upgrade keyhole"
        )
    return header, arrays


def write(path: Path, content: bytes) -> None:
    """Put the content at the path, whole or not at all: a crash leaves what was there before."""
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
