"""Rounds that are erased: what they held is gone, what they count for stays, and their places."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from keyhole.service.http.retention import Retention
from keyhole.service.store.log import export, replay
from keyhole.service.store.sql import schema, statements
from keyhole.service.store.sql.database import Database
from tests.service.scene import Clock, answered, client_of, made, predicted, read_table, run_sql

NAME, ILLNESS = "Maria-Musterfrau", "HIV-positive"
SCORES = {ILLNESS: 0.9, "flu": 0.5}


def play(http: TestClient, rounds: int, *, first: int = 0, **settings: Any) -> list[Any]:
    """Make a stream of cases, each of a person of its own, and answer all but the last."""
    if not first:
        made(http, learner="logit-tracker", horizon=None, feedback="full", **settings)
    shown = []
    for n in range(first, first + rounds):
        body = {"scores": SCORES, "metadata": {"user": f"{NAME}-{n}", "ward": n % 2}}
        key = {"Idempotency-Key": f"{NAME}-{n}"}
        shown.append(http.post("/v1/streams/pets/predictions", json=body, headers=key).json())
        if n % 3 == 2:
            answered(http, shown[-1], label="flu")
        elif n < first + rounds - 1:
            answered(http, shown[-1], label=ILLNESS)
    return shown


def erase(http: TestClient, **metadata: Any) -> Any:
    return http.request("DELETE", "/v1/streams/pets/rounds", params={"metadata": json.dumps(metadata)})


def statistics(http: TestClient) -> dict[str, Any]:
    names = ("predicted", "rounds", "misses", "open", "skipped", "miss_rate", "mean_size")
    found = http.get("/v1/streams/pets").json()
    return {name: found[name] for name in names}


def test_an_erased_round_tells_nothing_and_counts_as_before(
    http: TestClient, database: Database
) -> None:
    shown = play(http, 7)
    before = statistics(http)
    response = http.delete(f"/v1/streams/pets/rounds/{shown[2]['id']}")
    assert (response.status_code, response.json()) == (200, {"erased": 1})
    assert statistics(http) == before
    rounds = {one["round"]: one for one in http.get("/v1/streams/pets/rounds").json()["rounds"]}
    gone, kept = rounds[2], rounds[1]
    assert (gone["erased"], kept["erased"]) == (True, False)
    empty = ("labels", "interval", "answer", "first_answer", "score", "key", "metadata", "features")
    assert {name: gone[name] for name in empty} == dict.fromkeys(empty)
    assert gone["answered_at"] == kept["answered_at"]
    assert (gone["missed"], gone["weight"], gone["size"] > 0) == (True, 1.0, True)
    assert kept["metadata"]["user"] == f"{NAME}-1"
    found = replay.replay(database, "pets")
    assert (found.difference, found.rounds, found.answers, found.erased) == (None, 7, 6, 1)
    again = http.delete(f"/v1/streams/pets/rounds/{shown[2]['id']}")
    assert (again.status_code, again.json()) == (200, {"erased": 0})


def test_all_rounds_of_a_person_are_erased_by_metadata_and_found_by_it_no_more(
    http: TestClient, database: Database
) -> None:
    play(http, 8)
    assert erase(http, ward=1, user=f"{NAME}-3").json() == {"erased": 1}
    assert erase(http, ward=1).json() == {"erased": 3}
    assert erase(http, ward=1).json() == {"erased": 0}
    left = http.get("/v1/streams/pets/rounds", params={"metadata": '{"ward": 1}'}).json()["rounds"]
    assert left == []
    assert [row.number % 2 for row in read_table(database, schema.metadata)] == [0] * 8
    assert replay.replay(database, "pets").difference is None
    rows = [row for row in read_table(database, schema.rounds) if row.number % 2]
    hidden = {(row.output, row.labels, row.key, row.context, row.metadata, row.salt) for row in rows}
    assert hidden == {(b"", None, None, None, None, b"")}


def test_an_erased_round_that_was_open_is_closed_and_takes_no_answer_and_no_amendment(
    http: TestClient, database: Database
) -> None:
    shown = play(http, 5)
    before = statistics(http)
    erase(http, user=f"{NAME}-4")
    after = statistics(http)
    assert (before["open"], after["open"], after["skipped"]) == (1, 0, before["skipped"] + 1)
    for what in ("feedback", "amendment"):
        refused = http.post(f"/v1/predictions/{shown[4]['id']}/{what}", json={"label": "flu"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (410, "erased")
    erase(http, user=f"{NAME}-0")
    refused = http.post(f"/v1/predictions/{shown[0]['id']}/amendment", json={"label": "flu"})
    assert refused.status_code == 410
    assert replay.replay(database, "pets").difference is None


def test_amended_answers_are_erased_with_their_rounds_and_the_accounts_stay_amended(
    http: TestClient, database: Database
) -> None:
    shown = play(http, 6)
    assert (
        http.post(f"/v1/predictions/{shown[0]['id']}/amendment", json={"label": "x"}).status_code == 200
    )
    before = statistics(http)
    erase(http, user=f"{NAME}-0")
    assert statistics(http) == before
    assert [row.answer for row in read_table(database, schema.amendments)] == [""]
    assert replay.replay(database, "pets").difference is None
    predicted(http, SCORES)
    assert replay.replay(database, "pets").difference is None


def test_the_replay_finds_the_way_back_at_the_next_snapshot(one: TestClient, light: Database) -> None:
    play(one, 130)
    erase(one, user=f"{NAME}-40")
    found = replay.replay(light, "pets")
    # From the erased round to the snapshot after 100 answers, and none after it.
    assert (found.difference, found.erased, found.unplayed) == (None, 1, 60)
    run_sql(light, "UPDATE rounds SET threshold = 0.5 WHERE number = 50")
    assert "round 50 is not what was written" in str(replay.replay(light, "pets").difference)


@pytest.mark.parametrize(
    ("tampered", "said"),
    [
        ("UPDATE rounds SET digest = x'00' WHERE number = 3", "round 3 is not what was written"),
        ("UPDATE answers SET miss = 1.0 WHERE number = 3", "answer to round 3 is not what was"),
        ("UPDATE answers SET miss = 1.0 WHERE number = 4", "answer to round 4"),
    ],
)
def test_what_stays_of_erased_rounds_cannot_be_changed_unnoticed(
    one: TestClient, light: Database, tampered: str, said: str
) -> None:
    play(one, 7)
    erase(one, user=f"{NAME}-3")
    run_sql(light, tampered)
    assert said in str(replay.replay(light, "pets").difference)


def test_a_round_that_is_empty_without_an_erasure_in_the_log_is_a_difference(
    one: TestClient, light: Database
) -> None:
    play(one, 7)
    (row,) = read_table(light, schema.rounds, "WHERE number = 3")
    from keyhole.service.store.log.chain import make_digest

    run_sql(
        light,
        'UPDATE rounds SET output = ?, labels = NULL, "key" = NULL, metadata = NULL, salt = ?, '
        "digest = ? WHERE number = 3",
        b"", b"", make_digest(row),
    )  # fmt: skip
    run_sql(light, "DELETE FROM metadata WHERE number = 3")
    assert "rounds that are erased" in str(replay.replay(light, "pets").difference)


def test_decisions_are_erased_too_and_their_accounts_replayed(one: TestClient, light: Database) -> None:
    one.post("/v1/streams", json={"name": "pets", "kind": "gate", "alpha": 0.1, "seed": 1})
    for n in range(12):
        body = {"score": 0.99 - 0.05 * (n % 3), "metadata": {"user": n}}
        shown = one.post("/v1/streams/pets/decisions", json=body).json()
        if shown["accepted"] and n < 10:
            assert answered(one, shown, right=n % 4 > 0).status_code == 200
    before = statistics(one)
    for n in (1, 2, 11):
        assert erase(one, user=n).json() == {"erased": 1}
    after = statistics(one)
    assert (after["misses"], after["rounds"], after["predicted"]) == (
        before["misses"], before["rounds"], before["predicted"],
    )  # fmt: skip
    found = replay.replay(light, "pets")
    assert (found.difference, found.erased) == (None, 3)


def test_erasing_nothing_in_particular_is_refused(one: TestClient) -> None:
    shown = play(one, 2)
    refused = erase(one)
    assert (refused.status_code, "every round" in refused.text) == (422, True)
    wrong = shown[0]["id"][:-1] + ("0" if shown[0]["id"][-1] != "0" else "1")
    assert one.delete(f"/v1/streams/pets/rounds/{wrong}").status_code == 404
    assert one.delete("/v1/streams/pets/rounds/nonsense").status_code == 404
    assert one.delete(f"/v1/streams/other/rounds/{shown[0]['id']}").status_code == 404


def test_the_export_has_the_accounts_of_an_erased_round_and_says_that_it_is_erased(
    one: TestClient, light: Database
) -> None:
    play(one, 4)
    erase(one, user=f"{NAME}-2")
    rows = list(csv.DictReader(io.StringIO("".join(export.csv_lines(light, "pets")))))
    assert [row["erased"] for row in rows] == ["False", "False", "True", "False"]
    gone = rows[2]
    assert (gone["missed"], gone["answer"], gone["true_label"], gone["scores"]) == (
        rows[2]["missed"], "label", "", "",
    )  # fmt: skip
    for format_ in export.Format:
        content = b"".join(export.pieces(light, "pets", format_))
        assert f"{NAME}-2".encode() not in content


def read_files(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob("keyhole.db*"))


def test_what_is_erased_or_deleted_cannot_be_read_in_the_file(
    one: TestClient, light: Database, tmp_path: Path
) -> None:
    play(one, 60)
    assert f"{NAME}-7".encode() in read_files(tmp_path)
    erase(one, ward=1)
    light.backend.vacuum()
    content = read_files(tmp_path)
    assert not any(f'{NAME}-{n}"'.encode() in content for n in range(1, 60, 2))
    assert f'{NAME}-8"'.encode() in content
    one.post("/v1/streams/pets/archive")
    assert one.delete("/v1/streams/pets").status_code == 204
    assert light.must_scrub is False
    light.backend.vacuum()
    assert NAME.encode() not in read_files(tmp_path)
    assert ILLNESS.encode() not in read_files(tmp_path)


def test_a_deleted_stream_leaves_no_name_in_the_log_beside_the_file(
    one: TestClient, tmp_path: Path
) -> None:
    """The write-ahead log kept them until the next thousand pages were written."""
    play(one, 60)
    one.post("/v1/streams/pets/archive")
    one.delete("/v1/streams/pets")
    assert NAME.encode() not in (tmp_path / "keyhole.db-wal").read_bytes()
    assert NAME.encode() not in (tmp_path / "keyhole.db").read_bytes()


def test_whoever_reads_meanwhile_only_delays_that(one: TestClient, light: Database) -> None:
    play(one, 3)
    with light.read() as transaction:
        transaction.fetch(statements.LIST_NAMES)
        erase(one, user=f"{NAME}-1")
        assert light.must_scrub
    light.scrub()
    assert not light.must_scrub


async def run_retention(http: TestClient, clock: Clock, *, jump: float = 0.0) -> None:
    app: Any = http.app
    retention = Retention(app.state)
    clock.now += jump
    await retention.erase_old()


def test_what_is_older_than_a_streams_retention_is_erased_and_the_rest_is_kept(
    database: Database, clock: Clock
) -> None:
    import anyio

    http = client_of(database, clock)
    play(http, 4, retention=3600.0)
    assert http.get("/v1/streams/pets").json()["retention"] == 3600.0
    clock.now += 3000.0
    play(http, 3, first=4)
    clock.now += 700.0
    anyio.run(run_retention, http, clock)
    rounds = http.get("/v1/streams/pets/rounds").json()["rounds"]
    assert [one["erased"] for one in rounds] == [False] * 3 + [True] * 4
    assert replay.replay(database, "pets").difference is None
    changed = http.patch("/v1/streams/pets", json={"retention": 0})
    assert (changed.json()["retention"], changed.json()["notes"][0]) == (
        None, "Rounds are kept for ever.",
    )  # fmt: skip
    clock.now += 9000.0
    anyio.run(run_retention, http, clock)
    assert not http.get("/v1/streams/pets/rounds").json()["rounds"][0]["erased"]
    assert replay.replay(database, "pets").difference is None


def test_a_clock_that_was_set_forward_erases_nothing(light: Database, clock: Clock) -> None:
    from functools import partial

    import anyio

    http = client_of(light, clock)
    play(http, 2, retention=3600.0)
    anyio.run(partial(run_retention, http, clock, jump=30 * 86_400.0))
    assert not any(one["erased"] for one in http.get("/v1/streams/pets/rounds").json()["rounds"])
