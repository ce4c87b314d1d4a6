"""Classifier outputs on ImageNet, or any such pool of images: drawn with replacement, scored, counted.

The outputs come from a file that the user has (``load``), mapped instead of copied where it can be, or
from ``imagenet_like``.
"""

import hashlib
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import InvalidError
from keyhole.numeric import Array
from keyhole.scenarios import find_changes

POWER = 1 / 3
SCHEDULE = (1 / 6, 1 / 4, 1 / 2, 1 / 1.2, 1 / 3)  # the exponents of the shift
SEGMENT = 10_000  # how many rounds each lasts, as the paper writes it for 50,000 of them
_LOGITS = ("logits",)
_PROBABILITIES = ("probabilities", "probs")
_BLOCK = 1024
_LOCAL_HEADER, _LENGTHS = 30, slice(26, 30)  # of a file in a zip archive
_SUM_TOLERANCE = 0.02  # 1,000 half-precision probabilities may be this far from 1 in sum

Numbers = NDArray[np.floating[Any]] | NDArray[np.integer[Any]]  # as a file has them
Kept = TypeVar("Kept", bound=np.generic)
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ClassifierOutputs:
    """What a classifier said of every image of a pool, and what each image was.

    Parameters
    ----------
    values
        Logits or probabilities, of shape (images, classes), in single or double precision; they may
        be mapped from a file.
    labels
        The true class of each image.
    normalisers
        The logarithm of the sum of exponentials of each row of logits; None for probabilities.
    """

    values: Numbers
    labels: Labels
    normalisers: Array | None

    @staticmethod
    def of_logits(values: Numbers, labels: Labels) -> "ClassifierOutputs":
        return ClassifierOutputs(values, labels, _by_blocks(values, _log_sum_exp))

    @property
    def images(self) -> int:
        return len(self.values)

    def scores(self, rows: NDArray[np.int64], powers: Array) -> Array:
        """Return the true label's probability, raised to the power, for each of these rows."""
        true = self.values[rows, self.labels[rows]].astype(np.float64)
        if self.normalisers is None:
            return true**powers
        return np.exp(powers * (true - self.normalisers[rows]))

    def sizes(self, rows: NDArray[np.int64], powers: Array, thresholds: Array) -> Array:
        return self._count(rows, self._cuts(rows, powers, np.maximum(thresholds, 0.0)))

    def _count(self, rows: NDArray[np.int64], cuts: Numbers) -> Array:
        counts = np.empty(rows.size)
        for n in range(0, rows.size, _BLOCK):
            part = slice(n, n + _BLOCK)
            counts[part] = np.count_nonzero(self.values[rows[part]] >= cuts[part, None], axis=1)
        return counts

    def _cuts(self, rows: NDArray[np.int64], powers: Array, thresholds: Array) -> Numbers:
        """Return the least value in the set, as a number of the values' own precision."""
        if self.normalisers is None:
            exact = thresholds ** (1.0 / powers)
        else:
            with np.errstate(divide="ignore"):
                exact = self.normalisers[rows] + np.log(thresholds) / powers
        rounded = exact.astype(self.values.dtype)
        upper = np.nextafter(rounded, np.array(np.inf, dtype=rounded.dtype))
        return np.where(rounded < exact, upper, rounded)

    def accuracy(self, top: int) -> float:
        true = np.asarray(self.values[np.arange(self.images), self.labels])
        cuts = np.nextafter(true, np.array(np.inf, dtype=true.dtype))
        above = self._count(np.arange(self.images), cuts)
        return float((above < top).mean())


@dataclass(frozen=True, eq=False)
class ImagenetScenario:
    """Rows drawn from a pool, each with the exponent of its round."""

    outputs: ClassifierOutputs
    rows: NDArray[np.int64]
    powers: Array

    @property
    def scores(self) -> Array:
        return self.outputs.scores(self.rows, self.powers)

    @property
    def changes(self) -> tuple[int, ...]:
        return find_changes(self.powers)

    def sizes(self, thresholds: Array) -> Array:
        return self.outputs.sizes(self.rows, self.powers, thresholds)


def imagenet(
    outputs: ClassifierOutputs,
    rounds: int,
    *,
    seed: int,
    shift: bool = False,
    segment: int | None = None,
) -> ImagenetScenario:
    """Return images drawn with replacement.

    Parameters
    ----------
    outputs
        The pool.
    rounds
        How many rounds.
    seed
        Fixes the images drawn.
    shift
        Change the score's exponent, as the paper does.
    segment
        After how many rounds it changes, the last exponent staying to the end; every fifth of the
        rounds unless told.
    """
    rows = np.random.default_rng(seed).integers(outputs.images, size=rounds)
    if not shift:
        return ImagenetScenario(outputs, rows, np.full(rounds, POWER))
    if segment is None:
        place = np.arange(rounds) * len(SCHEDULE) // max(1, rounds)
    else:
        place = np.minimum(np.arange(rounds) // segment, len(SCHEDULE) - 1)
    return ImagenetScenario(outputs, rows, np.array(SCHEDULE)[place])


def load(path: Path) -> ClassifierOutputs:
    """Return the outputs in a file, checked; they are mapped from it, not copied, where they can be.

    Parameters
    ----------
    path
        An ``.npz`` with ``logits`` or ``probabilities`` of shape (images, classes) and ``labels``; or
        an ``.npy`` of probabilities or logits, with the labels beside it in ``<name>_labels.npy``.
        Compressed and half-precision arrays are read into memory, others are mapped.

    Raises
    ------
    InvalidError
        If the file is not that; the message says where.
    """
    if not path.is_file():
        raise InvalidError(f"there is no file {path}; see 'keyhole imagenet-file --help' to make one")
    values, labels, are_logits = _read_npy(path) if path.suffix == ".npy" else _read_npz(path)
    _check_shapes(path, values, labels)
    truth = _check_labels(path, labels, values.shape[1])
    numbers = values.astype(np.float32) if values.dtype == np.float16 else values
    _check_values(path, numbers, are_logits=are_logits)
    if are_logits:
        return ClassifierOutputs.of_logits(numbers, truth)
    return ClassifierOutputs(numbers, truth, None)


def digest(path: Path) -> str:
    """Return what tells the contents of a file from others."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_npz(path: Path) -> tuple[Numbers, Numbers, bool]:
    names = _list_arrays(path)
    held = [name for name in (*_LOGITS, *_PROBABILITIES) if name in names]
    if len(held) != 1 or "labels" not in names:
        raise InvalidError(
            f"{path} holds {', '.join(names) or 'nothing'}; it needs 'labels' and either 'logits' or "
            "'probabilities'"
        )
    return _read_array(path, held[0]), _read_array(path, "labels"), held[0] in _LOGITS


def _read_npy(path: Path) -> tuple[Numbers, Numbers, bool]:
    beside = path.with_name(f"{path.stem}_labels.npy")
    if not beside.is_file():
        raise InvalidError(f"there are no labels beside {path}; put them in {beside}")
    values = _map_array(path)
    first = np.asarray(values[:_BLOCK], dtype=np.float64)
    return values, _map_array(beside), bool((first < 0.0).any() or (first > 1.0).any())


def _check_shapes(path: Path, values: Numbers, labels: Numbers) -> None:
    if values.ndim != 2 or 0 in values.shape or values.shape[1] < 2:
        raise InvalidError(
            f"the outputs in {path} have shape {values.shape}; they need one row per image and one "
            "column per class, two classes at least"
        )
    if labels.shape != (len(values),):
        raise InvalidError(
            f"the labels in {path} have shape {labels.shape}; there must be one for each of the "
            f"{len(values)} rows"
        )
    if values.dtype not in (np.float16, np.float32, np.float64):
        raise InvalidError(
            f"the outputs in {path} are {values.dtype}; save them as float16, float32 or float64"
        )


def _check_labels(path: Path, labels: Numbers, classes: int) -> Labels:
    if not np.issubdtype(labels.dtype, np.integer):
        raise InvalidError(f"the labels in {path} are {labels.dtype}; they must be whole numbers")
    wrong = (labels < 0) | (labels >= classes)
    if wrong.any():
        place = int(np.argmax(wrong))
        raise InvalidError(
            f"label {labels[place]} of row {place} in {path} is not a column from 0 to {classes - 1}"
        )
    return labels.astype(np.int64)


def _check_values(path: Path, values: Numbers, *, are_logits: bool) -> None:
    if are_logits:
        wrong = _by_blocks(values, lambda block: np.asarray((~np.isfinite(block)).any(axis=1)))
        fault, remedy = "holds a logit that is not finite", "save the model's raw outputs"
    else:
        wrong = _by_blocks(values, _not_probabilities)
        fault = "is not a row of probabilities"
        remedy = "save softmax outputs, or save them as 'logits'"
    if wrong.any():
        raise InvalidError(f"row {int(np.argmax(wrong))} of {path} {fault}; {remedy}")


def _not_probabilities(block: Numbers) -> NDArray[np.bool_]:
    inside = ((block >= 0.0) & (block <= 1.0)).all(axis=1)
    return ~(inside & (np.abs(block.sum(axis=1, dtype=np.float64) - 1.0) <= _SUM_TOLERANCE))


def _log_sum_exp(block: Numbers) -> Array:
    top = block.max(axis=1, keepdims=True).astype(np.float64)
    return top[:, 0] + np.log(np.exp(block - top).sum(axis=1))


def _by_blocks(values: Numbers, function: Callable[[Numbers], NDArray[Kept]]) -> NDArray[Kept]:
    """Return a function of every row, some rows at a time, so that a mapped file stays one."""
    parts = [function(values[n : n + _BLOCK]) for n in range(0, len(values), _BLOCK)]
    return np.concatenate(parts)


def _list_arrays(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except zipfile.BadZipFile:
        raise InvalidError(f"{path} is not an .npz file; write it with numpy.savez") from None


def _map_array(path: Path) -> Numbers:
    """Return the array of an ``.npy``, mapped, or raise."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InvalidError(f"{path} is not an .npy file of numbers ({error})") from None


def _read_array(path: Path, name: str) -> Numbers:
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


def _map_stored(path: Path, offset: int) -> Numbers:
    with path.open("rb") as file:
        file.seek(offset)
        name, extra = struct.unpack("<HH", file.read(_LOCAL_HEADER)[_LENGTHS])
        file.seek(offset + _LOCAL_HEADER + name + extra)
        try:
            is_first = np.lib.format.read_magic(file) == (1, 0)
            formats = np.lib.format
            read = formats.read_array_header_1_0 if is_first else formats.read_array_header_2_0
            shape, by_columns, kind = read(file)
            order: Literal["F", "C"] = "F" if by_columns else "C"
            return np.memmap(file.name, kind, mode="r", offset=file.tell(), shape=shape, order=order)
        except ValueError as error:
            raise InvalidError(f"an array in {path} cannot be read ({error}); save it again") from None
