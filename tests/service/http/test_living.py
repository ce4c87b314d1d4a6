"""Streams that live: changed, taught by history, removed; and replayed exactly all the same."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from keyhole import Predictor, Probabilities, QuantileBands
from keyhole.cli import main
from keyhole.predictor.progress import Progress
from keyhole.scenarios.log import read_log
from keyhole.service import history_file
from keyhole.service.client import operations
from keyhole.service.store.log.replay import replay
from keyhole.service.store.sql.database import Database
from tests.service.scene import answered, made, predicted

LABELS = ["cat", "dog"]
HISTORY = [([0.9, 0.1], "cat"), ([0.3, 0.7], "dog"), ([0.6, 0.4], "dog")] * 20


def play(http: TestClient, rounds: int, *, scores: Any = (0.7, 0.3), label: str = "cat") -> None:
    for _ in range(rounds):
        answered(http, predicted(http, list(scores)), label=label)


def default(http: TestClient, **settings: Any) -> Any:
    return made(http, learner="informed-tracker", horizon=None, labels=LABELS, **settings)


def test_every_change_is_replayed_where_it_was_made(http: TestClient, database: Database) -> None:
    """Kills: a change played too late, a window of the bits that were kept, an alarm left on."""
    default(http, window=20)
    history = [{"scores": [0.9, 0.1], "label": "cat"}, {"scores": [0.1, 0.9], "label": "cat"}]
    http.post("/v1/streams/pets/calibration", json={"rounds": history * 500})
    play(http, 15)
    play(http, 15, scores=(0.0, 1.0))
    assert http.get("/v1/streams/pets").json()["promise"]["state"] == "too many misses"
    waiting = predicted(http, [0.6, 0.4])
    wider = http.patch("/v1/streams/pets", json={"window": 40}).json()
    assert wider["recent"]["rounds"] == 30
    assert wider["recent"]["misses"] == wider["misses"]
    response = http.patch(
        "/v1/streams/pets",
        json={"alpha": 0.2, "lifetime": 60.0, "labels": ["lynx"], "description": "New."},
    )
    changed = response.json()
    assert response.status_code == 200, changed
    assert (changed["alpha"], changed["lifetime"], changed["description"]) == (0.2, 60.0, "New.")
    assert changed["labels"] == ["cat", "dog", "lynx"]
    assert changed["recent"]["rounds"] == 0  # Those of before had another target.
    assert changed["promise"]["state"] == "starting"
    assert len(changed["notes"]) == 3
    assert "0.2, before it was 0.1" in changed["notes"][0]
    assert answered(http, waiting, label="cat").status_code == 200
    play(http, 30, scores=(0.5, 0.3, 0.2), label="lynx")
    assert replay(database, "pets").difference is None
    assert http.get("/v1/streams/pets/history").json()["alarms"][0]["cleared"]["answers"] == 30


def test_the_learner_goes_on_with_the_new_target(one: TestClient) -> None:
    made(one, learner="logit-tracker", horizon=None, labels=LABELS)
    play(one, 20)
    before = one.get("/v1/streams/pets").json()["distribution"]
    after = one.patch("/v1/streams/pets", json={"alpha": 0.3}).json()
    assert after["distribution"] == before
    assert after["parameters"]["alpha"] == 0.3


def test_nothing_is_proven_against_a_target_that_some_rounds_did_not_have(one: TestClient) -> None:
    """Kills: the newest hundred changes taken for all; a group's excess beyond its own bound."""
    made(one, learner="contextual-tracker", horizon=None, groups=["new"], alpha=0.4)
    for label in [0] * 30 + [1] * 20:
        body = {"scores": [1.0, 0.0], "groups": ["new"]}
        answered(one, one.post("/v1/streams/pets/predictions", json=body).json(), label=label)
    one.patch("/v1/streams/pets", json={"alpha": 0.01})
    for number in range(101):
        one.patch("/v1/streams/pets", json={"description": f'the {number}th "alpha": 1'})
    assert one.get("/v1/streams/pets/history").json()["proven"] is None
    (after,) = one.get("/v1/streams/pets").json()["groups"]
    assert after["most"] is None


def test_what_is_said_of_a_target_is_no_change_of_it(one: TestClient) -> None:
    default(one)
    one.patch("/v1/streams/pets", json={"description": 'its "alpha": 0.1'})
    assert one.get("/v1/streams/pets/history").json()["proven"] is not None


def test_the_same_change_twice_is_one(one: TestClient, light: Database) -> None:
    default(one)
    for _ in range(2):
        one.patch("/v1/streams/pets", json={"alpha": 0.2, "labels": ["cat", "lynx"]})
    assert one.get("/v1/streams/pets").json()["labels"] == ["cat", "dog", "lynx"]
    assert replay(light, "pets").difference is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "nothing is to change"),
        ({"alpha": 0.9}, "alpha"),
        ({"window": 3}, "window"),
        ({"learner": "aci"}, "learner"),
    ],
)
def test_what_cannot_change_is_refused(one: TestClient, change: Any, said: str) -> None:
    before = default(one)
    response = one.patch("/v1/streams/pets", json=change)
    assert response.status_code == 422
    assert said in response.json()["error"]["message"]
    assert one.get("/v1/streams/pets").json() == before


def test_only_an_archived_stream_is_deleted_and_then_for_good(http: TestClient) -> None:
    default(http)
    play(http, 110)
    refused = http.delete("/v1/streams/pets")
    assert refused.status_code == 422
    assert "archive it" in refused.json()["error"]["message"]
    http.post("/v1/streams/pets/archive")
    assert http.delete("/v1/streams/pets").status_code == 204
    assert http.get("/v1/streams/pets").status_code == 404
    assert "pets" not in http.get("/metrics").text
    default(http)
    assert http.get("/v1/streams/pets").json()["predicted"] == 0


def send(http: TestClient, rounds: Any, **more: Any) -> Any:
    body = {"rounds": [{"scores": scores, "label": label} for scores, label in rounds], **more}
    return http.post("/v1/streams/pets/calibration", json=body)


def test_history_teaches_what_it_teaches_a_predictor(http: TestClient, database: Database) -> None:
    default(http)
    send(http, HISTORY[:30], after=0)
    send(http, HISTORY[:30], after=0)  # Sent again, it counts once.
    taught = send(http, HISTORY[30:], after=30).json()
    assert taught["calibrated"] == 60
    predictor = Predictor(alpha=0.1, score=Probabilities(labels=LABELS), seed=7)
    predictor.calibrate([output for output, _ in HISTORY], [label for _, label in HISTORY])
    assert taught["distribution"]["thresholds"] == predictor.distribution.thresholds.tolist()
    play(http, 5)
    assert replay(database, "pets").difference is None
    late = send(http, HISTORY)
    assert late.status_code == 422
    assert "before the first" in late.json()["error"]["message"]


def test_a_new_stream_learns_from_the_log_of_an_old_one(http: TestClient, database: Database) -> None:
    default(http)
    for scores, label in HISTORY:
        answered(http, predicted(http, scores), label=label)
    taught = made(http, name="next", learner="aci", horizon=None, labels=LABELS, calibrate_from="pets")
    predictor = Predictor("aci", alpha=0.1, score=Probabilities(labels=LABELS), seed=7)
    predictor.calibrate([output for output, _ in HISTORY], [label for _, label in HISTORY])
    assert taught["calibrated"] == len(HISTORY)
    assert taught["distribution"]["thresholds"] == predictor.distribution.thresholds.tolist()
    assert replay(database, "next").difference is None


def test_misses_without_a_label_are_no_history(one: TestClient) -> None:
    default(one)
    answered(one, predicted(one, [0.7, 0.3]), miss=True)
    body = {"name": "next", "alpha": 0.1, "labels": LABELS, "calibrate_from": "pets"}
    response = one.post("/v1/streams", json=body)
    assert response.status_code == 422
    assert "without the true label" in response.json()["error"]["message"]
    assert one.get("/v1/streams/next").status_code == 404


def test_a_file_of_history_is_calibrated_whole_or_not_at_all(
    one: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills: the rounds before one that cannot be used played, and played again by the next try."""
    monkeypatch.setattr(history_file, "AT_ONCE", 20)
    default(one)
    lines = ["cat,dog,label"] + [f"{a},{b},{label}" for (a, b), label in HISTORY]
    path, url = tmp_path / "history.csv", f"sqlite:///{tmp_path / 'keyhole.db'}"
    path.write_text("\n".join([*lines, "0.7,2.0,cat"]) + "\n")
    assert main(["calibrate", "pets", str(path), "--database", url]) == 2
    assert "round 60 of the history: score 2.0" in capsys.readouterr().err
    assert one.get("/v1/streams/pets").json()["calibrated"] == 0
    path.write_text("\n".join(lines) + "\n")
    assert main(["calibrate", "pets", str(path), "--database", url]) == 0
    assert one.get("/v1/streams/pets").json()["calibrated"] == 60


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_file_of_history_is_calibrated(
    one: TestClient, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    default(one)
    lines = ["\ufeffcat,dog,label"] + [f"{a},{b},{label}" for (a, b), label in HISTORY]
    if kind == "jsonl":
        lines = [
            f'{{"scores": {{"cat": {a}, "dog": {b}}}, "label": "{label}"}}' for (a, b), label in HISTORY
        ]
    path = tmp_path / f"history.{kind}"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    url = f"sqlite:///{tmp_path / 'keyhole.db'}"
    assert main(["calibrate", "pets", str(path), "--database", url]) == 0
    assert "60 rounds" in capsys.readouterr().out
    predictor = Predictor(alpha=0.1)
    predictor.calibrate(
        [np.array(output) for output, _ in HISTORY], [LABELS.index(label) for _, label in HISTORY]
    )
    now = one.get("/v1/streams/pets").json()
    assert now["calibrated"] == 60
    assert now["distribution"]["thresholds"] == predictor.distribution.thresholds.tolist()


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_file_of_bands_is_calibrated(one: TestClient, tmp_path: Path, kind: str) -> None:
    made(one, learner="informed-tracker", horizon=None, kind="band")
    past = [((n, n + 4.0), n + 6.0 * (n % 3 == 0)) for n in range(30)]
    lines = ["upper,label,lower"] + [f"{upper},{truth},{lower}" for (lower, upper), truth in past]
    if kind == "jsonl":
        lines = [json.dumps({"lower": a, "upper": b, "label": truth}) for (a, b), truth in past]
    path = tmp_path / f"history.{kind}"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert main(["calibrate", "pets", str(path), "--database", f"sqlite:///{tmp_path}/keyhole.db"]) == 0
    predictor = Predictor(alpha=0.1, score=QuantileBands())
    predictor.calibrate(*zip(*past, strict=True))
    now = one.get("/v1/streams/pets").json()
    assert now["distribution"]["thresholds"] == predictor.distribution.thresholds.tolist()


def test_a_bad_line_of_history_is_named(
    one: TestClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    default(one)
    path = tmp_path / "history.csv"
    path.write_text("cat,dog,label\n0.5,0.5,cat\n0.5,high,dog\n", encoding="utf-8")
    url = f"sqlite:///{tmp_path / 'keyhole.db'}"
    assert main(["calibrate", "pets", str(path), "--database", url]) != 0
    assert "line 3" in capsys.readouterr().err


def test_a_long_list_of_streams_comes_in_pages(http: TestClient) -> None:
    for name in ("one", "two", "three"):
        made(http, name=name)
    first = http.get("/v1/streams", params={"limit": 2}).json()
    assert ([one["name"] for one in first["streams"]], first["next"]) == (["one", "two"], "two")
    assert first["streams"][0]["distribution"] is None
    rest = http.get("/v1/streams", params={"limit": 2, "after": "two"}).json()
    assert ([one["name"] for one in rest["streams"]], rest["next"]) == (["three"], None)
    assert http.get("/v1/streams", params={"after": "nobody"}).status_code == 404


def test_metadata_is_kept_found_and_exported(http: TestClient, database: Database) -> None:
    default(http)
    for n in range(6):
        body = {"scores": [0.7, 0.3], "metadata": {"model": f"v{n % 2}", "user": n}}
        assert http.post("/v1/streams/pets/predictions", json=body).status_code == 201
    # A part that stands elsewhere in the text is not found by mistake.
    body = {"scores": [0.7, 0.3], "metadata": {"inner": {"model": "v1"}}}
    assert http.post("/v1/streams/pets/predictions", json=body).status_code == 201
    found = http.get("/v1/streams/pets/rounds", params={"metadata": '{"model": "v1"}'}).json()
    assert [one["round"] for one in found["rounds"]] == [5, 3, 1]
    assert found["rounds"][0]["metadata"] == {"model": "v1", "user": 5}
    both = http.get("/v1/streams/pets/rounds", params={"metadata": '{"model":"v1","user":3}'}).json()
    assert [one["round"] for one in both["rounds"]] == [3]
    lines = list(csv.DictReader(io.StringIO(http.get("/v1/streams/pets/export").text)))
    assert json.loads(lines[2]["metadata"]) == {"model": "v0", "user": 2}
    assert replay(database, "pets").difference is None


def test_who_writes_goes_on_while_a_stream_learns_from_the_log_of_another(
    one: TestClient, light: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    default(one)
    play(one, 5)
    teach, written = Progress.calibrate, []

    def write_and_teach(*arguments: Any, **named: Any) -> None:
        with light.write():
            written.append(True)
        teach(*arguments, **named)

    monkeypatch.setattr(Progress, "calibrate", write_and_teach)
    made(one, name="next", learner="aci", horizon=None, labels=LABELS, calibrate_from="pets")
    assert written == [True]
    assert replay(light, "next").difference is None


def test_an_answer_to_a_deleted_stream_is_not_counted_by_its_successor(http: TestClient) -> None:
    made(http)
    late = predicted(http)
    http.post("/v1/streams/pets/archive")
    assert http.delete("/v1/streams/pets").status_code == 204
    made(http)  # of the same seed
    predicted(http)
    assert answered(http, late, miss=True).json()["error"]["code"] == "unknown_prediction"


@pytest.mark.parametrize(
    ("labels", "code"), [([f"l{k}" for k in range(9_999)], "label"), (["x" * 201], "invalid")]
)
def test_labels_that_no_array_of_scores_could_name_are_not_added(
    one: TestClient, labels: list[str], code: str
) -> None:
    default(one)
    refused = one.patch("/v1/streams/pets", json={"labels": labels})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, code)
    assert one.get("/v1/streams/pets").json()["labels"] == ["cat", "dog"]


@pytest.mark.parametrize("number", [b"NaN", b"1e999", b"-Infinity"])
def test_metadata_holds_no_number_that_json_has_not(one: TestClient, number: bytes) -> None:
    made(one)
    sent = one.post(
        "/v1/streams/pets/predictions",
        content=b'{"scores": [0.5], "metadata": {"a": [' + number + b"]}}",
        headers={"Content-Type": "application/json"},
    )
    assert (sent.status_code, sent.json()["error"]["code"]) == (422, "invalid")
    assert "not finite" in sent.json()["error"]["message"]


@pytest.mark.parametrize(
    ("metadata", "status"), [({"a": "x" * 1015}, 201), ({"a": "x" * 1020}, 422), ("text", 422)]
)
def test_metadata_is_a_small_object(one: TestClient, metadata: Any, status: int) -> None:
    default(one)
    body = {"scores": [0.7, 0.3], "metadata": metadata}
    assert one.post("/v1/streams/pets/predictions", json=body).status_code == status


def test_rounds_come_in_pages(http: TestClient) -> None:
    default(http)
    play(http, 5)
    first = http.get("/v1/streams/pets/rounds", params={"limit": 3}).json()
    assert ([one["round"] for one in first["rounds"]], first["next"]) == ([4, 3, 2], 2)
    rest = http.get("/v1/streams/pets/rounds", params={"limit": 3, "before": 2}).json()
    assert ([one["round"] for one in rest["rounds"]], rest["next"]) == ([1, 0], None)


@pytest.mark.parametrize("key", ["order 17", "a/b", "?#", "../archive"])
def test_an_answer_finds_its_round_by_the_callers_key(http: TestClient, key: str) -> None:
    default(http)
    shown = predicted(http, [0.7, 0.3], **{"Idempotency-Key": key})
    call = next(operations.learn_key("pets", key, label="cat"))
    response = http.put(call.path, json={"label": "cat"})
    assert response.status_code == 200, response.text
    assert (response.json()["id"], response.json()["repeated"]) == (shown["id"], False)
    assert http.put(call.path, json={"label": "cat"}).json()["repeated"]
    assert http.put(call.path, json={"label": "dog"}).status_code == 409
    assert http.put("/v1/streams/pets/answers/another", json={"hit": True}).status_code == 404
    call = next(operations.amend_key("pets", key, label="yak"))
    amended = http.put(call.path, json=call.json).json()
    assert (amended["id"], amended["missed"]) == (shown["id"], True)
    assert http.get("/v1/streams/pets/rounds").json()["rounds"][0]["answer"] == {"label": "yak"}
    assert http.put("/v1/streams/pets/amendments/another", json={"hit": True}).status_code == 404


def test_a_round_is_skipped_by_the_callers_key_and_then_takes_no_amendment(http: TestClient) -> None:
    default(http)
    shown = predicted(http, [0.7, 0.3], **{"Idempotency-Key": "order 17"})
    call = next(operations.skip_key("pets", "order 17"))
    skipped = http.put(call.path, json=call.json).json()
    assert (skipped["id"], skipped["missed"]) == (shown["id"], None)
    late = http.put("/v1/streams/pets/amendments/order 17", json={"hit": True})
    by_id = http.post(f"/v1/predictions/{shown['id']}/amendment", json={"hit": True})
    assert (late.status_code, late.json()) == (by_id.status_code, by_id.json())
    assert late.status_code >= 400


def test_a_null_character_is_refused_by_every_database_alike(http: TestClient) -> None:
    """Kills: text handed to PostgreSQL that it cannot keep, which was a fault of ours (500)."""
    default(http)
    said = {"description": "ours\0"}
    made_so = http.post("/v1/streams", json={"name": "other", "alpha": 0.1, **said})
    for refused in (made_so, http.patch("/v1/streams/pets", json=said)):
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid")
        assert "null character" in refused.json()["error"]["message"]
    assert http.put("/v1/streams/pets/answers/a%00b", json={"hit": True}).status_code == 404


def test_a_prediction_asked_for_again_is_the_same_after_labels_were_added(http: TestClient) -> None:
    default(http)
    key = {"Idempotency-Key": "order 17"}
    shown = predicted(http, [0.7, 0.3], **key)
    assert http.patch("/v1/streams/pets", json={"labels": ["emu"]}).status_code == 200
    for same in ([0.7, 0.3], {"cat": 0.7, "dog": 0.3}):
        assert predicted(http, same, **key) == shown
    both = [{"scores": [0.7, 0.3], "key": "order 17"}, {"scores": [0.5, 0.3, 0.2]}]
    batch = http.post("/v1/streams/pets/predictions/batch", json={"predictions": both})
    assert batch.json()["predictions"][0] == shown
    for other, status in (([0.6, 0.4], 409), ([0.7, 0.3, 0.0], 409), ([0.7], 422)):
        again = http.post("/v1/streams/pets/predictions", json={"scores": other}, headers=key)
        assert again.status_code == status, again.text


def test_an_export_sizes_sets_in_labels(http: TestClient, tmp_path: Path) -> None:
    default(http)
    for scores, label in HISTORY[:6]:
        answered(http, predicted(http, scores), label=label)
    path = tmp_path / "log.csv"
    path.write_bytes(http.get("/v1/streams/pets/export").content)
    (log,) = read_log(path)
    assert log.labels is not None
    assert log.labels.tolist() == [scores for scores, _ in HISTORY[:6]]
    assert log.sizes(np.full(6, 0.35)).tolist() == [1.0, 1.0, 2.0] * 2
    line = next(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert line["predicted_at"].endswith("+00:00")
    assert (line["candidates"], line["scores"]) == ('["cat", "dog"]', "[0.9, 0.1]")


def test_the_log_of_a_stream_of_sets_cannot_calibrate_decisions(one: TestClient) -> None:
    default(one)
    body = {"name": "mail", "alpha": 0.1, "kind": "gate", "calibrate_from": "pets"}
    refused = one.post("/v1/streams", json=body)
    assert refused.status_code == 422
    assert "calibrate with judged history instead" in refused.json()["error"]["message"]
    assert one.get("/v1/streams/mail").status_code == 404


@pytest.mark.parametrize("when", ["then", "later"])
def test_what_a_shadows_learner_warns_of_is_a_note(one: TestClient, when: str) -> None:
    shadow = {"name": "paper", "learner": "ocp-unlock+", "horizon": 5000, "arms": 2}
    new = {"name": "shop", "alpha": 0.1, "shadows": [shadow] if when == "then" else []}
    said = one.post("/v1/streams", json=new)
    if when == "later":
        said = one.post("/v1/streams/shop/shadows", json=shadow)
    assert (said.status_code, said.json()["notes"]) == (
        201, ["2 arms work, but the theorem begins at 5"]
    )  # fmt: skip
