"""Arrays mapped from a file instead of copied, out of ``.npy`` and out of uncompressed ``.npz``."""

import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import InvalidError

_LOCAL_HEADER = 30
_LENGTHS = slice(26, 30)


def names(path: Path) -> list[str]:
    """Return the names of the arrays in an ``.npz``, or raise."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except zipfile.BadZipFile:
        raise InvalidError(f"{path} is not an .npz file; write it with numpy.savez") from None


def map_array(path: Path) -> NDArray[Any]:
    """Return the array of an ``.npy``, mapped, or raise."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InvalidError(f"{path} is not an .npy file of numbers ({error})") from None


def array(path: Path, name: str) -> NDArray[Any]:
    """Return one array of an ``.npz``: mapped if it is stored plainly, read if compressed."""
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(f"{name}.npy")
    if member.compress_type == zipfile.ZIP_STORED:
        return _map_stored(path, member.header_offset)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return arrays[name]
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidError(f"{name!r} in {path} cannot be read ({error}); save it again") from None


def _map_stored(path: Path, offset: int) -> NDArray[Any]:
    with path.open("rb") as file:
        file.seek(offset)
        name, extra = struct.unpack("<HH", file.read(_LOCAL_HEADER)[_LENGTHS])
        file.seek(offset + _LOCAL_HEADER + name + extra)
        try:
            version = np.lib.format.read_magic(file)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, by_columns, kind = read(file)
            return np.memmap(
                file.name,
                kind,
                mode="r",
                offset=file.tell(),
                shape=shape,
                order="F" if by_columns else "C",
            )
        except ValueError as error:
            raise InvalidError(f"an array in {path} cannot be read ({error}); save it again") from None
