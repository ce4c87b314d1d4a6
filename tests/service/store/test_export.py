"""A file is whole or as it was."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from keyhole.errors import UnknownStreamError
from keyhole.service.store import export
from keyhole.service.store.database import Database
from tests.service.scene import answered, made, predicted


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
