"""A file is whole or as it was."""

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from keyhole.errors import MissingExtraError, UnknownStreamError
from keyhole.service.store.log import export
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query
from keyhole.service.wire.responses import show_time
from tests.service.scene import NOW, answered, made, predicted


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_a_file_that_is_there_is_replaced(
    light: Database, one: TestClient, tmp_path: Path, name: str
) -> None:
    made(one)
    answered(one, predicted(one), miss=True)
    (tmp_path / name).write_text("old")
    export.write(light, "pets", tmp_path / name)
    content = (tmp_path / name).read_bytes()
    assert content.startswith(b"PAR1" if name.endswith("parquet") else b"round,id,")


def test_an_export_that_fails_leaves_the_old_file_and_nothing_else(
    light: Database, one: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(one)
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "log.csv").write_text("old")

    def breaks(*_: object) -> Iterator[str]:
        yield "half a line"
        raise OSError("no space left")

    monkeypatch.setattr(export, "csv_lines", breaks)
    with pytest.raises(OSError, match="no space"):
        export.write(light, "pets", folder / "log.csv")
    assert {file.name: file.read_text() for file in folder.iterdir()} == {"log.csv": "old"}


def test_a_stream_that_is_deleted_while_its_log_is_read_is_said_to_be(
    light: Database, one: TestClient
) -> None:
    made(one)
    for _ in range(2):
        one.post("/v1/streams/pets/predictions/batch", json={"predictions": [{"scores": [0.5]}] * 300})
    lines = export.csv_lines(light, "pets")
    next(lines)
    next(lines)
    one.post("/v1/streams/pets/archive")
    one.delete("/v1/streams/pets")
    with pytest.raises(UnknownStreamError, match="was deleted while its log was read"):
        list(lines)


def list_rows(database: Database) -> list[dict[str, str]]:
    return list(csv.DictReader(export.csv_lines(database, "mine")))


def make(database: Database, **given: Any) -> None:
    setup, _ = settings.make_setup(alpha=0.1, seed=7, **given)
    registry.create(database, "mine", setup=setup, now=NOW)


def ask(database: Database, output: Any, reply: Any = None, **more: Any) -> str:
    (opened,) = proposals.predict(database, "mine", asks=[Query(output, **more)], now=NOW)
    if reply is not None:
        answers.answer(database, [Reply(opened.id, reply)], now=NOW + 1.5)
    return opened.id


def test_a_row_tells_a_set_and_its_answer(light: Database) -> None:
    make(light, learner="logit-tracker")
    id_ = ask(light, {"cat": 0.75, "dog": 0.25}, {"label": "cat"}, key="k", metadata='{"shop":1}')
    ask(light, [0.75, 0.25], {"miss": True, "chance": 1.0})
    ask(light, [0.75, 0.25], "skip")
    first, second, skipped = list_rows(light)
    assert (first["round"], first["id"]) == ("0", id_)
    assert (first["predicted_at"], first["answered_at"]) == (show_time(NOW), show_time(NOW + 1.5))
    assert (first["labels"], first["size"]) == ('["cat"]', "1.0")
    assert (first["candidates"], first["scores"]) == ('["cat", "dog"]', "[0.75, 0.25]")
    assert (first["answer"], first["true_label"], first["score"]) == ("label", '"cat"', "0.75")
    assert (first["missed"], first["miss"], first["weight"]) == ("False", "0.0", "1.0")
    assert (first["key"], first["metadata"]) == ('"k"', '{"shop": 1}')
    assert (second["answer"], second["missed"], second["candidates"]) == ("miss", "True", "")
    assert (skipped["answer"], skipped["missed"], skipped["weight"]) == ("skip", "", "0.0")
    assert [first[name] for name in ("lower", "upper", "features", "groups")] == [""] * 4


def test_a_row_tells_an_interval_by_its_ends_and_a_gates_answer(
    light: Database, tmp_path: Path
) -> None:
    make(light, learner="kt", bound=10.0)
    ask(light, 5.0, {"label": 6.0})
    (row,) = list_rows(light)
    assert (float(row["lower"]) + float(row["upper"])) / 2.0 == 5.0
    assert (row["labels"], row["candidates"], row["true_label"]) == ("", "", "6.0")
    gates = Database(f"sqlite:///{tmp_path / 'gates.db'}")
    make(gates, kind="gate", groups=["new", "old"])
    ask(gates, {"invoice": 0.99, "letter": 0.25}, {"right": False}, groups=["old"])
    ask(gates, 0.99)
    first, second = list_rows(gates)
    gates.close()
    assert (first["labels"], first["groups"], first["answer"]) == ('["invoice"]', '["old"]', "right")
    assert (first["missed"], first["score"], second["answer"]) == ("True", "0.99", "")
    assert (second["labels"], second["groups"]) == ("", "")


def test_parquet_holds_every_row_also_where_they_are_written_in_several_blocks(
    light: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    monkeypatch.setattr(export, "_ROWS_AT_ONCE", 3)
    make(light, learner="kt")
    for _ in range(7):
        ask(light, [0.9, 0.1], "hit")
    file = parquet.ParquetFile(
        arrow.BufferReader(b"".join(export.pieces(light, "mine", export.Format.PARQUET)))
    )
    assert file.read().column("round").to_pylist() == list(range(7))
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [3, 3, 1]


def test_without_pyarrow_parquet_says_what_to_install(
    light: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(light, learner="kt")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'keyhole-conformal\[parquet\]'"):
        export.pieces(light, "mine", export.Format.PARQUET)


def test_json_lines_hold_what_the_columns_hold_as_values_and_not_as_text(light: Database) -> None:
    make(light, learner="kt", bound=10.0)
    ask(light, 5.0, {"label": 6.0}, key="k", metadata='{"shop":1}')
    ask(light, 5.0)
    first, second = map(
        json.loads, b"".join(export.pieces(light, "mine", export.Format.JSONL)).splitlines()
    )
    assert list(first) == list(export.COLUMNS)
    assert (first["true_label"], first["metadata"], first["key"]) == (6.0, {"shop": 1}, "k")
    assert (first["round"], first["missed"], first["miss"]) == (0, True, 1.0)
    assert (second["answer"], second["true_label"], second["metadata"]) == (None, None, None)
