"""A stream that is a gate: the library's decisions, made durable."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import keyhole
from keyhole.errors import InvalidError
from keyhole.scenarios import log
from keyhole.scenarios.gate_cases import read_gate_log
from keyhole.service.history_file import read_history
from keyhole.service.store.log import replay
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals
from tests.service.scene import NOW, answered, predicted


def made(http: TestClient, **settings: Any) -> Any:
    body = {"name": "mail", "kind": "gate", "alpha": 0.05, "seed": 7, **settings}
    response = http.post("/v1/streams", json=body)
    assert response.status_code == 201, response.text
    return response.json()


def decided(http: TestClient, score: Any, **more: Any) -> Any:
    body = {"candidates" if isinstance(score, dict) else "score": score, **more}
    response = http.post("/v1/streams/mail/decisions", json=body)
    assert response.status_code == 201, response.text
    return response.json()


@pytest.mark.parametrize(
    ("feedback", "rule", "groups"),
    [
        ("accepted", None, []),
        ("both", None, ["new", "old"]),
        ("referred", None, []),
        ("both", "exaul", []),
        ("accepted", "gate-split", []),
    ],
)
def test_a_gate_decides_as_the_librarys_and_replays(
    http: TestClient, database: Database, feedback: str, rule: str | None, groups: list[str]
) -> None:
    made(http, feedback=feedback, learner=rule, groups=groups)
    gate = keyhole.Gate(rule or "gate-tracker", alpha=0.05, feedback=feedback, groups=groups, seed=7)
    rng = np.random.default_rng(2)
    waiting: list[Any] = []
    for number in range(140):
        score = float(rng.beta(4.0, 1.0))
        own = groups[: number % 3] if groups else []
        ours, theirs = gate.decide(score, groups=own), decided(http, score, groups=own)
        assert (theirs["accepted"], theirs["threshold"]) == (ours.accepted, ours.threshold)
        if ours.accepted or feedback != "accepted":
            waiting.append((ours, theirs, bool(rng.random() < score)))
        if len(waiting) > 3:
            ours, theirs, right = waiting.pop(int(rng.integers(4)))
            if number % 11 == 0:
                gate.skip(ours)
                answered(http, theirs, skip=True).raise_for_status()
                continue
            audit: Any = {"chance": 0.5} if ours.accepted and feedback == "referred" else {}
            gate.learn(ours, right, **audit)
            receipt = answered(http, theirs, right=right, **audit).json()
            assert receipt["missed"] == (not right)
    stands = http.get("/v1/streams/mail").json()
    told = (stands["accepted_share"], stands["wrong_share"], stands["open"])
    assert told == (gate.accepted_share, gate.wrong_share, gate.open_rounds)
    assert (stands["kind"], stands["mean_size"]) == ("gate", None)
    assert replay.replay(database, "mail").difference is None


def test_the_best_of_several_candidates_is_decided_on(one: TestClient) -> None:
    made(one)
    decision = decided(one, {"letter": 0.04, "invoice": 0.97})
    assert (decision["candidate"], decision["score"], decision["accepted"]) == ("invoice", 0.97, True)
    assert answered(one, decision, right=False).json()["missed"] is True
    (row,) = one.get("/v1/streams/mail/rounds").json()["rounds"]
    assert (row["decision"], row["labels"], row["answer"]) == (
        "accepted",
        ["invoice"],
        {"right": False},
    )


def test_a_batch_is_decided_as_one_by_one(one: TestClient) -> None:
    made(one)
    gate = keyhole.Gate(alpha=0.05, seed=7)
    scores = np.random.default_rng(4).random(50).tolist()
    sent = {"decisions": [{"score": score} for score in scores]}
    batch = one.post("/v1/streams/mail/decisions/batch", json=sent).json()["decisions"]
    assert [made["accepted"] for made in batch] == [gate.decide(score).accepted for score in scores]


def test_the_same_judgement_twice_counts_once_and_another_is_refused(one: TestClient) -> None:
    made(one)
    decision = decided(one, 0.99)
    first, second = answered(one, decision, right=True), answered(one, decision, right=True)
    assert (first.json()["repeated"], second.json()["repeated"]) == (False, True)
    assert answered(one, decision, right=False).status_code == 409
    assert one.get("/v1/streams/mail").json()["wrong_share"] == 0.0


def test_a_retry_gives_the_same_decision(one: TestClient) -> None:
    made(one)
    key, path = {"Idempotency-Key": "a"}, "/v1/streams/mail/decisions"
    first = one.post(path, json={"score": 0.9}, headers=key)
    assert one.post(path, json={"score": 0.9}, headers=key).json() == first.json()
    assert one.post(path, json={"score": 0.8}, headers=key).status_code == 409


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"score": 1.5}, "score", "1.5 is not a number in [0, 1]"),
        ({"candidates": {}}, "score", "no candidates"),
        ({"candidates": {"a": -0.5}}, "score", "score of 'a' -0.5"),
        ({}, None, "one of them"),
        ({"score": 0.5, "candidates": {"a": 0.5}}, None, "one of them"),
        ({"score": 0.5, "groups": ["new"]}, "group", "there is no group 'new'"),
        ({"score": 0.5, "features": [1.0]}, "features", ""),
    ],
)
def test_a_case_that_cannot_be_is_named_and_changes_nothing(
    one: TestClient, body: Any, field: str | None, message: str
) -> None:
    made(one)
    response = one.post("/v1/streams/mail/decisions", json=body)
    error = response.json()["error"]
    assert response.status_code == 422
    assert message in error["message"]
    assert field is None or error["field"].startswith(field)
    assert one.get("/v1/streams/mail").json()["predicted"] == 0


@pytest.mark.parametrize(
    ("settings", "score", "answer", "message"),
    [
        ({}, 0.01, {"right": True}, "was referred, and this gate learns only from accepted answers"),
        ({}, 0.99, {"hit": True}, "is not a judgement; give right"),
        ({}, 0.99, {"label": "a"}, "is not a judgement; give right"),
        ({}, 0.99, {"right": True, "wrong": 0.7}, "not a probability below 1/2"),
        ({"feedback": "referred"}, 0.99, {"right": True}, "say with what chance"),
        ({"feedback": "both"}, 0.99, {"right": True, "chance": 0.0}, "not a probability above 0"),
        ({}, 0.99, {"right": "yes"}, ""),
    ],
)
def test_a_judgement_that_cannot_be_is_named_and_changes_nothing(
    one: TestClient, settings: Any, score: float, answer: Any, message: str
) -> None:
    made(one, **settings)
    decision = decided(one, score)
    before = one.get("/v1/streams/mail").json()
    response = answered(one, decision, **answer)
    assert response.status_code == 422
    assert message in response.json()["error"]["message"]
    after = one.get("/v1/streams/mail").json()
    assert {**after, "refused": {}} == before  # That it was refused is counted.


def test_gates_and_sets_are_asked_at_their_own_doors(one: TestClient) -> None:
    made(one)
    one.post("/v1/streams", json={"name": "pets", "alpha": 0.1})
    wrong = one.post("/v1/streams/mail/predictions", json={"scores": [0.5]})
    assert "not predictions; ask /v1/streams/mail/decisions" in wrong.json()["error"]["message"]
    wrong = one.post("/v1/streams/pets/decisions", json={"score": 0.5})
    assert "not decisions; ask /v1/streams/pets/predictions" in wrong.json()["error"]["message"]
    response = answered(one, predicted(one), right=True)
    assert "is not an answer" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learner": "kt"}, "kt is a rule for keyhole.Predictor"),
        ({"features": ["hour"]}, "a gate takes no features"),
        ({"groups": 2}, "a gate's groups are named"),
        ({"scale": 1.0}, "scale is for streams of kind 'interval'"),
        ({"feedback": "bandit"}, "no feedback 'bandit' of a gate"),
    ],
)
def test_settings_that_are_not_a_gates_are_refused(
    one: TestClient, settings: dict[str, Any], message: str
) -> None:
    body = {"name": "mail", "kind": "gate", "alpha": 0.05, **settings}
    response = one.post("/v1/streams", json=body)
    assert response.status_code == 422
    assert message in response.json()["error"]["message"]


def test_an_export_holds_every_score_and_is_read_by_keyhole_gate(
    one: TestClient, tmp_path: Path
) -> None:
    """Kills: the score of a referred case left out; a log that our own command does not take."""
    made(one)
    for score, right in ((0.96, True), (0.02, None), (0.97, False)):
        shown = decided(one, score)
        if right is not None:
            answered(one, shown, right=right)
    text = one.get("/v1/streams/mail/export").text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["scores"] for row in rows] == ["[0.96]", "[0.02]", "[0.97]"]
    (tmp_path / "mail.csv").write_text(text, encoding="utf-8")
    cases = read_gate_log(tmp_path / "mail.csv")
    assert (cases.scores.tolist(), cases.wrong.tolist()) == ([0.96, 0.97], [0.0, 1.0])
    with pytest.raises(InvalidError, match=r"log of a gate.*keyhole gate --scores mail\.csv"):
        log.read_log(tmp_path / "mail.csv")  # It would be one of a single label.


def test_an_export_tells_what_was_accepted_and_what_was_wrong(one: TestClient) -> None:
    made(one)
    answered(one, decided(one, 0.99), right=False)
    decided(one, 0.01)
    rows = list(csv.DictReader(io.StringIO(one.get("/v1/streams/mail/export").text)))
    assert [row["size"] for row in rows] == ["1.0", "0.0"]
    assert [(row["answer"], row["missed"]) for row in rows] == [("right", "True"), ("", "")]


@pytest.mark.parametrize("decisions", [40, 2300])
def test_the_curves_of_a_gate_are_its_two_shares_so_far(
    light: Database, one: TestClient, decisions: int
) -> None:
    made(one)
    gate = keyhole.Gate(alpha=0.05, seed=7)
    rng = np.random.default_rng(3)
    scores = rng.beta(6.0, 1.0, size=decisions).tolist()
    shares: dict[int, tuple[float, float]] = {}
    for start in range(0, decisions, 10):
        block = scores[start : start + 10]
        opened = proposals.predict(light, "mail", asks=[proposals.Query(s) for s in block], now=NOW)
        ours = [gate.decide(score) for score in block]
        for there, stream in zip(opened, ours, strict=True):
            if stream.accepted:
                right = bool(rng.random() < stream.score)
                gate.learn(stream, right)
                answers.answer(light, [answers.Reply(there.id, {"right": right})], now=NOW)
                shares[len(shares) + 1] = (gate.accepted_share, gate.wrong_share)
    curve = one.get("/v1/streams/mail/history?points=15").json()
    assert curve["rounds"][-1] == len(shares)
    told = list(zip(curve["accepted_share"], curve["miss_rate"], strict=True))
    wanted = [shares[count] for count in curve["rounds"][:-1]]
    assert told[:-1] == [pytest.approx(pair) for pair in wanted]
    assert replay.replay(light, "mail").difference is None


def test_the_history_of_a_gate_tells_no_sizes(one: TestClient) -> None:
    """Kills: decisions that were accepted, divided by judgements, and called a mean size."""
    made(one)
    accepted = [decided(one, 1.0) for _ in range(10)]
    for decision in accepted[:2]:
        answered(one, decision, right=True).raise_for_status()
    curve = one.get("/v1/streams/mail/history").json()
    assert (curve["mean_size"], curve["local_mean_size"]) == ([None, None], [None, None])
    assert curve["accepted_share"] == [1.0, 1.0]
    assert [curve["recent"][name] for name in ("median_size", "empty", "unbounded")] == [None] * 3


def test_metrics_tell_a_gates_shares_and_no_size(one: TestClient) -> None:
    made(one)
    one.post("/v1/streams", json={"name": "pets", "alpha": 0.1})
    answered(one, decided(one, 0.99), right=False)
    decided(one, 0.01)
    lines = one.get("/metrics").text.splitlines()
    assert 'keyhole_accepted_share{stream="mail"} 0.5' in lines
    assert 'keyhole_wrong_share{stream="mail"} 1.0' in lines
    assert not any(line.startswith('keyhole_mean_size{stream="mail"') for line in lines)
    assert not any(line.startswith('keyhole_wrong_share{stream="pets"') for line in lines)


def test_an_alarm_is_raised_when_too_many_accepted_answers_are_wrong(
    one: TestClient, light: Database
) -> None:
    made(one, learner="gate-fixed", options={"threshold": 0.5})
    for _ in range(6):
        sent = {"decisions": [{"score": 0.9}] * 100}
        batch = one.post("/v1/streams/mail/decisions/batch", json=sent).json()["decisions"]
        feedback = [{"id": decision["id"], "right": False} for decision in batch]
        one.post("/v1/feedback", json={"answers": feedback})
    stands = one.get("/v1/streams/mail").json()
    assert stands["promise"]["state"] == "too many misses"
    assert stands["recent"]["rounds"] == 600
    assert replay.replay(light, "mail").difference is None


def test_a_target_that_is_changed_holds_for_every_group(one: TestClient, light: Database) -> None:
    made(one, groups=["new"])
    answered(one, decided(one, 0.99, groups=["new"]), right=True)
    assert one.patch("/v1/streams/mail", json={"alpha": 0.1}).json()["alpha"] == 0.1
    answered(one, decided(one, 0.99, groups=["new"]), right=True)
    assert replay.replay(light, "mail").difference is None


HISTORY = [(0.5 + 0.04 * (number % 12), number % 7 != 0) for number in range(200)]


def test_judged_history_calibrates_as_in_the_library_and_is_replayed(
    one: TestClient, light: Database
) -> None:
    made(one)
    cases = [{"score": score, "right": right} for score, right in HISTORY]
    stands = one.post("/v1/streams/mail/calibration", json={"decisions": cases}).json()
    assert (stands["calibrated"], stands["rounds"]) == (200, 0)
    gate = keyhole.Gate(alpha=0.05, seed=7)
    gate.calibrate(*zip(*HISTORY, strict=True))
    for score in (0.6, 0.95, 0.7, 0.8):
        ours, theirs = gate.decide(score), decided(one, score)
        assert (theirs["accepted"], theirs["threshold"]) == (ours.accepted, ours.threshold)
    assert replay.replay(light, "mail").difference is None


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"rounds": [{"scores": [0.5], "label": 0}]}, "give one number"),
        ({"rounds": [], "decisions": []}, "give rounds or decisions"),
        ({"decisions": [{"score": 0.5}]}, "right"),
    ],
)
def test_history_that_does_not_judge_decisions_is_refused(
    one: TestClient, body: dict[str, Any], fault: str
) -> None:
    made(one)
    response = one.post("/v1/streams/mail/calibration", json=body)
    assert response.status_code == 422
    assert fault in response.text
    assert one.get("/v1/streams/mail").json()["calibrated"] == 0


def test_a_file_of_judged_history_calibrates(tmp_path: Path) -> None:
    table = "score,right\n" + "".join(f"{score},{right}\n" for score, right in HISTORY)
    lines = "".join(json.dumps({"score": score, "right": right}) + "\n" for score, right in HISTORY)
    for name, content in (("history.csv", table), ("history.jsonl", lines)):
        (tmp_path / name).write_text(content)
        (found,) = read_history(tmp_path / name, advance=lambda _: None)
        assert [(past.output, past.label) for past in found] == HISTORY


def test_the_groups_of_a_gate_are_counted_apart(one: TestClient, light: Database) -> None:
    made(one, groups=["new", "old"], feedback="both")
    for groups, right in ((["new"], True), ([], True), (["old"], True), (["new", "old"], False)):
        answered(one, decided(one, 0.999, groups=groups), right=right)
    answered(one, decided(one, 0.001, groups=["new"]), right=False)  # Referred: no accepted one.
    told = {group["name"]: group for group in one.get("/v1/streams/mail").json()["groups"]}
    accepted = one.get("/v1/streams/mail").json()["accepted_share"]
    assert accepted == 0.8
    assert {name: (group["rounds"], group["misses"]) for name, group in told.items()} == {
        "new": (2.0, 1.0),
        "old": (2.0, 1.0),
    }
    assert told["new"]["miss_rate"] == 0.5
    assert told["new"]["excess"] == pytest.approx(1.0 - 2.0 * 0.05)
    assert replay.replay(light, "mail").difference is None
