"""What happened can be seen: curves, last rounds, files, events."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from keyhole.cli import main
from keyhole.scenarios import log
from keyhole.service.store.log import export, history, replay
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry
from keyhole.service.wire.responses import Receipt
from tests.service.scene import NOW, answered, made, predicted

NASTY = '=HYPERLINK("http://evil"),"\n<b>'


def lived(database: Database, name: str, rounds: int) -> tuple[list[bool], list[float]]:
    """Play rounds through the store; return what they came to."""
    misses, sizes = [], []
    rng = np.random.default_rng(2)
    for start in range(0, rounds, 500):
        rows = rng.dirichlet(np.ones(4), size=min(500, rounds - start))
        asks = [proposals.Query(row.tolist()) for row in rows]
        opened = proposals.predict(database, name, asks=asks, now=NOW)
        replies = [answers.Reply(o.id, {"label": 0} if 0 in o else "miss") for o in opened]
        counted = answers.answer(database, replies, now=NOW)
        misses += [bool(c.missed) for c in counted if isinstance(c, Receipt)]
        sizes += [o.size for o in opened]
    return misses, sizes


@pytest.mark.parametrize("rounds", [1, 30, 2000, 2350])
def test_the_curve_is_the_mean_so_far(http: TestClient, database: Database, rounds: int) -> None:
    made(http, horizon=5000)
    misses, sizes = lived(database, "pets", rounds)
    curve = http.get("/v1/streams/pets/history?points=17").json()
    places = curve["rounds"]
    assert places[-1] == rounds
    assert len(places) == len(set(places)) <= 17
    assert curve["miss_rate"] == pytest.approx([np.mean(misses[:n]) for n in places])
    assert curve["mean_size"] == pytest.approx([np.mean(sizes[:n]) for n in places])
    assert all(low <= 0.1 <= high for low, high in curve["band"])


@pytest.mark.parametrize("window", [20, 500])
def test_the_last_200_rounds_are_told_whatever_the_window(
    one: TestClient, light: Database, window: int
) -> None:
    """Kills: only as many as the window holds."""
    made(one, horizon=5000, window=window)
    misses, _ = lived(light, "pets", 150)
    assert one.get("/v1/streams/pets/history").json()["last"] == misses
    misses += lived(light, "pets", 100)[0]
    told = one.get("/v1/streams/pets/history").json()
    assert (told["last"], told["on_target"]) == (misses[-200:], 200)


def test_rounds_that_had_another_target_are_not_held_to_todays(
    http: TestClient, database: Database
) -> None:
    """Kills: recent misses of before counted against the new alpha, in a stream, a list or metrics."""
    made(http, learner="logit-tracker", horizon=None, window=50)
    misses, _ = lived(database, "pets", 60)
    changed = http.patch("/v1/streams/pets", json={"alpha": 0.3}).json()
    assert (changed["recent"]["rounds"], changed["recent"]["miss_rate"]) == (0, None)
    misses += lived(database, "pets", 30)[0]
    expected = {"window": 50, "rounds": 30, "misses": sum(misses[-30:])}
    (listed,) = http.get("/v1/streams").json()["streams"]
    for shown in (http.get("/v1/streams/pets").json(), listed):
        assert expected.items() <= shown["recent"].items()
        assert shown["recent"]["miss_rate"] == pytest.approx(sum(misses[-30:]) / 30)
    wider = http.patch("/v1/streams/pets", json={"window": 60}).json()
    assert (wider["recent"]["rounds"], wider["recent"]["misses"]) == (30, sum(misses[-30:]))
    http.patch("/v1/streams/pets", json={"window": 50})
    told = http.get("/v1/streams/pets/history").json()
    assert (told["last"], told["on_target"]) == (misses, 30)
    assert told["changes"][0]["content"] == {"alpha": 0.3}
    rate = f'keyhole_recent_miss_rate{{stream="pets"}} {sum(misses[-30:]) / 30}'
    assert rate in http.get("/metrics").text
    misses += lived(database, "pets", 50)[0]
    assert http.get("/v1/streams/pets").json()["recent"]["misses"] == sum(misses[-50:])
    assert replay.replay(database, "pets").difference is None


def test_a_stream_without_rounds_has_an_empty_curve(one: TestClient) -> None:
    made(one)
    assert one.get("/v1/streams/pets/history").json()["rounds"] == []


def test_the_last_rounds_come_newest_first(one: TestClient) -> None:
    made(one)
    first, second = predicted(one), predicted(one)
    answered(one, first, miss=True)
    rows = one.get("/v1/streams/pets/rounds?limit=5").json()["rounds"]
    assert [row["id"] for row in rows] == [second["id"], first["id"]]
    assert (rows[0]["answer"], rows[1]["answer"], rows[1]["missed"]) == (None, "miss", True)
    assert rows[1]["labels"] == first["labels"]


def test_an_export_holds_every_round_and_no_formula(http: TestClient) -> None:
    made(http, learner="ocp-unlock+", feedback="full")
    scores = {NASTY: 1.0, "3": 0.4}
    told = predicted(http, scores)
    answered(http, told, label=NASTY)
    missed = predicted(http, scores)
    answered(http, missed, miss=True)
    predicted(http, [0.2, 0.9])
    response = http.get("/v1/streams/pets/export")
    rows = list(csv.DictReader(io.StringIO(response.text, newline="")))
    assert [row["round"] for row in rows] == ["0", "1", "2"]
    assert [row["answer"] for row in rows] == ["label", "miss", ""]
    assert json.loads(rows[0]["true_label"]) == NASTY
    assert (rows[0]["score"], rows[1]["score"]) == ("1.0", "")
    assert [float(row["threshold"]) for row in rows[:2]] == [told["threshold"], missed["threshold"]]
    assert not any(cell.startswith(("=", "+", "@", "\t")) for row in rows for cell in row.values())
    assert response.headers["content-disposition"] == 'attachment; filename="pets.csv"'


def test_parquet_holds_what_csv_holds(light: Database, one: TestClient) -> None:
    made(one)
    lived(light, "pets", 700)
    import pyarrow as arrow
    from pyarrow import parquet

    content = one.get("/v1/streams/pets/export?format=parquet").content
    table = parquet.read_table(arrow.BufferReader(content))
    rows = list(csv.DictReader(export.csv_lines(light, "pets")))
    assert table.column_names == list(export.COLUMNS)
    assert table.column("threshold").to_pylist() == [float(row["threshold"]) for row in rows]
    assert [str(missed) for missed in table.column("missed").to_pylist()] == [
        row["missed"] for row in rows
    ]


def test_an_export_says_how_much_of_the_truth_it_holds(light: Database, one: TestClient) -> None:
    made(one)
    answered(one, predicted(one), miss=True)
    predicted(one)
    assert (
        export.describe_scores(light, "pets")
        == "2 rounds; the true label's score is known in 0 of them (0.0%)"
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_another_learner_can_be_tried_on_the_rounds_that_tell(
    light: Database, one: TestClient, tmp_path: Path, suffix: str
) -> None:
    made(one)
    misses, _ = lived(light, "pets", 300)
    path = tmp_path / f"log{suffix}"
    assert (
        main(["export", "pets", str(path), "--database", f"sqlite:///{tmp_path / 'keyhole.db'}"]) == 0
    )
    answered = [entry.answered for entry in history.log(light, "pets")]
    known = [row.score for row in answered if row is not None and row.score is not None]
    most, fewest = log.read_log(path)
    assert len(known) == misses.count(False)
    assert f"{len(known)} of 300 scores told" in most.about
    hit = ~np.array(misses)
    assert most.scores[hit].tolist() == fewest.scores[hit].tolist() == known
    assert (most.scores[~hit] == 0.0).all()
    played = np.array([entry.row.threshold for entry in history.log(light, "pets")])
    assert (fewest.scores[~hit] < played[~hit]).all()


def test_the_log_is_whole_across_pages(light: Database, one: TestClient) -> None:
    made(one)
    lived(light, "pets", 1203)
    assert [entry.row.number for entry in history.log(light, "pets")] == list(range(1203))
    assert registry.get(light, "pets").tally.answered == 1203


def test_an_interval_is_exported_by_its_ends(one: TestClient) -> None:
    made(one, bound=10.0)
    prediction = one.post("/v1/streams/pets/predictions", json={"centre": 5.0}).json()
    row = next(csv.DictReader(io.StringIO(one.get("/v1/streams/pets/export").text)))
    assert [float(row["lower"]), float(row["upper"])] == prediction["interval"]
    assert row["labels"] == ""
