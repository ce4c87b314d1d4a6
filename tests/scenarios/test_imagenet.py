from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from keyhole.errors import InvalidError
from keyhole.scenarios.imagenet import POWER, SCHEDULE, imagenet, load

Writer = Callable[..., Path]


@pytest.fixture
def logits() -> NDArray[np.float32]:
    return np.random.default_rng(1).normal(0.0, 3.0, size=(60, 12)).astype(np.float32)


@pytest.fixture
def labels() -> NDArray[np.int16]:
    return np.random.default_rng(2).integers(12, size=60).astype(np.int16)


def softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.fixture
def save(tmp_path: Path) -> Writer:
    def write(*, compressed: bool = False, **arrays: Any) -> Path:
        path = tmp_path / f"{'-'.join(arrays)}.npz"
        (np.savez_compressed if compressed else np.savez)(path, **arrays)
        return path

    return write


def test_scores_and_sizes_are_those_of_the_probabilities(
    save: Writer, logits: NDArray[np.float32], labels: NDArray[np.int16]
) -> None:
    scenario = imagenet(load(save(logits=logits, labels=labels)), 500, seed=3, shift=True)
    rows = np.random.default_rng(3).integers(60, size=500)
    powers = np.repeat(SCHEDULE, 100)
    scores = softmax(logits)[rows] ** powers[:, None]
    assert scenario.scores == pytest.approx(scores[np.arange(500), labels[rows]], rel=1e-12)
    thresholds = np.random.default_rng(4).choice(np.linspace(0.0, 1.0, 21), size=500)
    counted = (scores >= thresholds[:, None]).sum(axis=1)
    assert scenario.sizes(thresholds).tolist() == counted.tolist()


def test_probabilities_and_logits_give_the_same_rounds(
    save: Writer, logits: NDArray[np.float32], labels: NDArray[np.int16]
) -> None:
    thresholds = np.linspace(0.0, 1.0, 300)
    of_logits = imagenet(load(save(logits=logits, labels=labels)), 300, seed=3)
    of_chances = imagenet(load(save(probabilities=softmax(logits), labels=labels)), 300, seed=3)
    assert of_chances.scores == pytest.approx(of_logits.scores, rel=1e-9)
    assert (of_chances.sizes(thresholds) == of_logits.sizes(thresholds)).all()


def test_a_hit_has_its_label_in_the_set_and_threshold_zero_has_them_all(
    save: Writer, logits: NDArray[np.float32], labels: NDArray[np.int16]
) -> None:
    certain = logits.copy()
    certain[np.arange(60), labels] = 60.0  # so sure that its probability rounds to 1
    scenario = imagenet(load(save(logits=certain, labels=labels)), 200, seed=3)
    assert (scenario.scores == 1.0).all()
    assert (scenario.sizes(np.ones(200)) == 1.0).all()
    assert (scenario.sizes(np.zeros(200)) == 12.0).all()
    assert (scenario.sizes(np.full(200, 1.5)) == 0.0).all()


def test_power_changes_after_every_fifth_only_under_shift(
    save: Writer, logits: NDArray[np.float32], labels: NDArray[np.int16]
) -> None:
    outputs = load(save(logits=logits, labels=labels))
    assert (imagenet(outputs, 10, seed=0).powers == POWER).all()
    assert imagenet(outputs, 10, seed=0, shift=True).powers.tolist() == np.repeat(SCHEDULE, 2).tolist()


def test_segments_of_a_given_length_leave_the_last_power_to_the_end(
    save: Writer, logits: NDArray[np.float32], labels: NDArray[np.int16]
) -> None:
    outputs = load(save(logits=logits, labels=labels))
    powers = imagenet(outputs, 13, seed=0, shift=True, segment=2).powers
    assert powers.tolist() == [*np.repeat(SCHEDULE, 2), *[SCHEDULE[-1]] * 3]


@pytest.mark.parametrize("compressed", [False, True])
def test_plain_arrays_are_mapped_and_compressed_ones_read(
    save: Writer,
    logits: NDArray[np.float32],
    labels: NDArray[np.int16],
    compressed: bool,  # noqa: FBT001
) -> None:
    outputs = load(save(logits=logits, labels=labels, compressed=compressed))
    assert isinstance(outputs.values, np.memmap) is not compressed
    assert (outputs.values == logits).all()


def test_npy_has_its_labels_beside_it(
    tmp_path: Path, logits: NDArray[np.float32], labels: NDArray[np.int16]
) -> None:
    path = tmp_path / "outputs.npy"
    np.save(path, logits)
    with pytest.raises(InvalidError, match=r"outputs_labels\.npy"):
        load(path)
    np.save(tmp_path / "outputs_labels.npy", labels)
    assert isinstance(load(path).values, np.memmap)
    assert load(path).normalisers is not None
    np.save(path, softmax(logits))
    assert load(path).normalisers is None


def test_half_precision_is_widened(
    save: Writer, logits: NDArray[np.float32], labels: NDArray[np.int16]
) -> None:
    outputs = load(save(logits=logits.astype(np.float16), labels=labels))
    assert outputs.values.dtype == np.float32


def spoilt(values: NDArray[Any], row: int, value: float) -> NDArray[Any]:
    values = values.copy()
    values[row, 0] = value
    return values


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x, y: {"logits": spoilt(x, 7, np.nan), "labels": y}, "row 7 .* not finite"),
        (lambda x, y: {"probabilities": x, "labels": y}, "row 0 .* not a row of probabilities"),
        (
            lambda x, y: {"probabilities": spoilt(softmax(x), 9, np.nan), "labels": y},
            "row 9 .* not a row of probabilities",
        ),
        (lambda x, y: {"logits": x, "labels": y[:-1]}, r"shape \(59,\)"),
        (lambda x, y: {"logits": x, "labels": y + 5}, "is not a column from 0 to 11"),
        (lambda x, y: {"logits": x, "labels": y.astype(float)}, "whole numbers"),
        (lambda x, y: {"logits": x[:, 0], "labels": y}, r"shape \(60,\)"),
        (lambda x, y: {"logits": x.astype(np.int64), "labels": y}, "int64"),
        (lambda x, y: {"logits": x, "probabilities": x, "labels": y}, "either"),
        (lambda x, y: {"logits": x}, "needs 'labels'"),  # noqa: ARG005
    ],
)
def test_a_file_that_is_not_right_is_refused_with_the_place(
    save: Writer,
    logits: NDArray[np.float32],
    labels: NDArray[np.int16],
    spoil: Callable[..., dict[str, Any]],
    message: str,
) -> None:
    with pytest.raises(InvalidError, match=message):
        load(save(**spoil(logits, labels)))


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "outputs.npz"
    with pytest.raises(InvalidError, match="there is no file"):
        load(path)
    path.write_text("not an archive")
    with pytest.raises(InvalidError, match=r"not an \.npz file"):
        load(path)


def test_a_file_cut_short_is_refused(
    save: Writer, logits: NDArray[np.float32], labels: NDArray[np.int16]
) -> None:
    path = save(logits=logits, labels=labels)
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(InvalidError):
        load(path)


def test_seeds_give_different_rows_and_the_same_seed_the_same(
    save: Writer, logits: NDArray[np.float32], labels: NDArray[np.int16]
) -> None:
    outputs = load(save(logits=logits, labels=labels))
    first, again, other = (imagenet(outputs, 100, seed=seed).rows for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
