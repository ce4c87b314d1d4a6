"""A stream of several levels: nested, one id, one answer, each level the stream of its alpha alone."""

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import keyhole
from keyhole.numeric import Array
from keyhole.service.store.log import history, replay
from keyhole.service.store.sql import schema
from keyhole.service.store.sql.database import Database
from tests.service.scene import Clock, answered, client_of, made, read_table, run_sql

ALPHAS = [0.05, 0.1, 0.2]
LEVELS: dict[str, Any] = {"alpha": ALPHAS, "learner": None, "horizon": None}
INTERVALS = {**LEVELS, "kind": "interval"}


def list_truths(rounds: int, seed: int = 3) -> Array:
    """Outcomes whose spread jumps up and down, so that levels that move alone cross."""
    rng = np.random.default_rng(seed)
    spread = np.where(np.arange(rounds) // 60 % 2, 8.0, 1.0)
    found: Array = spread * rng.standard_t(3, rounds)
    return found


def ask(http: TestClient, name: str = "pets", **body: Any) -> Any:
    response = http.post(f"/v1/streams/{name}/predictions", json=body or {"centre": 0.0})
    assert response.status_code == 201, response.text
    return response.json()


def play(http: TestClient, truths: Array, name: str = "pets") -> list[Any]:
    shown = [ask(http, name)]
    for truth in truths:
        assert answered(http, shown[-1], label=float(truth)).status_code == 200
        shown.append(ask(http, name))
    return shown


def show(http: TestClient, name: str = "pets", what: str = "") -> Any:
    return http.get(f"/v1/streams/{name}{what}").json()


def check_replay(database: Database) -> None:
    assert replay.replay(database, "pets").difference is None


@pytest.mark.parametrize(("learner", "crosses"), [(None, False), ("aci", True)])
def test_each_level_is_bit_for_bit_that_of_the_library_and_of_a_stream_of_its_own(
    light: Database, learner: Any, *, crosses: bool
) -> None:
    truths, crossed, settings = list_truths(160), 0, {**INTERVALS, "learner": learner}
    residuals = keyhole.ScaledResiduals()
    predictor: Any = keyhole.Predictor(learner, alpha=ALPHAS, seed=7, score=residuals)
    with client_of(light, Clock()) as http:
        made(http, **settings)
        for alpha in ALPHAS:
            made(http, **{**settings, "alpha": alpha}, name=f"alone-{alpha}")
            play(http, truths, f"alone-{alpha}")
        shown = play(http, truths)
        for one, truth in zip(shown, truths, strict=False):
            expected = predictor.predict(0.0)
            own = [predictor[alpha]._find(expected.id).prediction.threshold for alpha in ALPHAS]
            crossed += any(a > b for a, b in pairwise(own))
            assert [level["alpha"] for level in one["levels"]] == list(expected)
            for level, region in zip(one["levels"], expected.values(), strict=True):
                ends = [end if np.isfinite(end) else None for end in (region.lower, region.upper)]
                assert (level["threshold"], level["interval"]) == (region.threshold, ends)
            outermost = {name: one["levels"][0][name] for name in ("threshold", "interval", "size")}
            assert outermost == {name: one[name] for name in outermost}
            predictor.learn(expected, label=float(truth))
        stream, views = show(http), [show(http, f"alone-{alpha}") for alpha in ALPHAS]
        curves = show(http, what="/history")["levels"]
        alone = [show(http, f"alone-{alpha}", "/history") for alpha in ALPHAS]
    assert (crossed > 5) is crosses  # Else the test would not see what is shown where levels cross.
    for level, view in zip(stream["levels"], views, strict=True):
        assert {name: view[name] for name in level} == level
    for curve, view in zip(curves, alone, strict=True):
        assert {name: view[name] for name in curve} == curve
    rows = {row.name: row for row in read_table(light, schema.streams)}
    kept = json.loads(rows["pets"].shadows or "")
    for alpha, one in zip(ALPHAS[1:], kept, strict=True):
        progress = bytes.fromhex(one["progress"])
        assert rows[f"alone-{alpha}"].progress.endswith(progress[-8:])  # the learner's state comes last
    check_replay(light)


def test_one_answer_settles_every_level_and_says_whether_the_outermost_missed(light: Database) -> None:
    with client_of(light, Clock()) as http:
        made(http, **{**INTERVALS, "learner": "aci"})
        for truth in list_truths(150):
            one = ask(http)
            receipt = answered(http, one, label=float(truth)).json()
            low, high = one["interval"] or (0.0, 0.0)
            inside = (low is None or low <= truth) and (high is None or truth <= high)
            assert receipt["missed"] is not inside
            assert answered(http, one, label=float(truth)).json() == {**receipt, "repeated": True}
            logged = show(http, what="/rounds?limit=1")["rounds"][0]
            told = [level["missed"] for level in logged["levels"]]
            assert told == sorted(told)  # What an outer one misses, all inner ones do.
            assert told[0] is logged["missed"] is receipt["missed"]
            for level, before in zip(logged["levels"], one["levels"], strict=True):
                assert {**level, "missed": None} == before
        assert show(http)["open"] == 0


@pytest.mark.parametrize(
    "answer",
    [
        {"hit": True},
        {"loss": 0.5},
        {"judged": "miss"},
        {"miss": True, "wrong": 0.1},
        {"hit": True, "chance": 0.5},
    ],
)
def test_what_does_not_tell_the_inner_levels_is_refused_with_the_reason(
    light: Database, answer: Any
) -> None:
    with client_of(light, Clock()) as http:
        made(http, **LEVELS)
        before = show(http)
        one = ask(http, scores={"cat": 0.7, "dog": 0.3})
        response = answered(http, one, **answer)
        assert response.status_code == 422
        assert "which of the inner levels contain the truth" in response.json()["error"]["message"]
        after = show(http)
        assert (after["rounds"], after["open"]) == (0, 1)
        assert after["levels"] == before["levels"]
        assert answered(http, one, miss=True).json()["missed"] is True
        assert [level["misses"] for level in show(http)["levels"]] == [1.0, 1.0, 1.0]
    check_replay(light)


def test_a_miss_of_what_could_not_miss_is_refused_and_nothing_is_half_learnt(light: Database) -> None:
    with client_of(light, Clock()) as http:
        made(http, **INTERVALS)
        one = ask(http)  # Without a scale every level is the whole line.
        assert one["interval"] == [None, None]
        assert answered(http, one, miss=True).status_code == 422
        assert show(http)["rounds"] == 0
        assert answered(http, one, label=1.5).status_code == 200
    check_replay(light)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"kind": "gate"}, "a gate has one alpha"),
        ({"feedback": "bandit"}, "bandit feedback"),
        ({"alpha": [0.1, 0.1]}, "one twice"),
        ({"alpha": [0.1]}, "alpha"),
        ({"alpha": [0.1, 2.0]}, "alpha"),
        ({"shadows": [{"name": "wider", "alpha": 0.01}]}, "no shadows"),
    ],
)
def test_a_stream_that_cannot_have_levels_is_refused_with_the_reason(
    light: Database, settings: Any, word: str
) -> None:
    with client_of(light, Clock()) as http:
        response = http.post("/v1/streams", json={"name": "pets", "alpha": ALPHAS, **settings})
        assert response.status_code == 422
        assert word in response.json()["error"]["message"]
        assert http.get("/v1/streams/pets").status_code == 404


def test_what_would_need_a_decision_for_each_level_is_refused(light: Database) -> None:
    with client_of(light, Clock()) as http:
        made(http, **LEVELS)
        changed = http.patch("/v1/streams/pets", json={"alpha": 0.3})
        added = http.post("/v1/streams/pets/shadows", json={"name": "kt", "learner": "kt"})
        gone = http.delete("/v1/streams/pets/shadows/0.1")
        risen = http.post("/v1/streams/pets/shadows/0.1/promotion", json={})
        assert [one.status_code for one in (changed, added, gone, risen)] == [422] * 4
        assert "make a new stream" in changed.json()["error"]["message"]
        assert http.patch("/v1/streams/pets", json={"window": 50}).status_code == 200
        assert len(show(http)["levels"]) == 3


def test_batches_keys_calibration_amendments_skips_and_erasures_replay(database: Database) -> None:
    """On both databases, past snapshots, with rounds left open."""
    scores = [{"cat": s, "dog": 1.0 - s, "cow": 0.2} for s in (0.9, 0.55, 0.7, 0.6, 0.8, 0.35)]
    predictor: Any = keyhole.Predictor(alpha=ALPHAS, seed=7, groups=["young"], amend_limit=200)
    past = [(scores[n % 6], "cat" if n % 5 else "dog") for n in range(60)]
    predictor.calibrate([one for one, _ in past], [label for _, label in past], groups=[["young"]] * 60)
    with client_of(database, Clock()) as http:
        made(http, **LEVELS, groups=["young"])
        rounds = [{"scores": one, "label": label, "groups": ["young"]} for one, label in past]
        taught = http.post("/v1/streams/pets/calibration", json={"rounds": rounds})
        assert taught.json()["calibrated"] == 60
        bodies = [{"scores": scores[n % 6], "groups": ["young"], "key": f"k{n}"} for n in range(120)]
        bodies[0]["metadata"] = {"user": "42"}
        ids = []
        for start in range(0, 120, 40):
            sent = {"predictions": bodies[start : start + 40]}
            batch = http.post("/v1/streams/pets/predictions/batch", json=sent).json()["predictions"]
            again = http.post("/v1/streams/pets/predictions/batch", json=sent).json()["predictions"]
            assert again == batch
            told = [
                {"id": one["id"], "label": "cat" if k % 4 else "cow"} for k, one in enumerate(batch)
            ]
            told[1] = {"id": batch[1]["id"], "skip": True}
            results = http.post("/v1/feedback", json={"answers": told}).json()["results"]
            assert not any("error" in one for one in results)
            ids += [one["id"] for one in batch]
            shown = predictor.predict_batch(
                [one["scores"] for one in sent["predictions"]], groups=[["young"]] * 40
            )
            for k, one in enumerate(shown):
                if k == 1:
                    predictor.skip(one)
                else:
                    predictor.learn(one, label="cat" if k % 4 else "cow")
        mended = http.post(f"/v1/predictions/{ids[4]}/amendment", json={"label": "cat"})
        assert mended.status_code == 200
        assert mended.json()["missed"] is False
        predictor.amend(4, label="cat")
        vague = http.post(f"/v1/predictions/{ids[5]}/amendment", json={"hit": True})
        assert "inner levels" in vague.json()["error"]["message"]
        ask(http, scores=scores[0], groups=["young"])
        for level in show(http)["levels"]:
            own = predictor[level["alpha"]]
            assert level["misses"] == own._progress.tally.misses
            (group,) = own.groups.values()
            assert level["groups"][0]["misses"] == group.misses
        curves = show(http, what="/history?points=2000")["levels"]
        check_replay(database)
        assert http.delete('/v1/streams/pets/rounds?metadata={"user": "42"}').json() == {"erased": 1}
        assert http.delete(f"/v1/streams/pets/rounds/{ids[119]}").status_code == 200
        assert show(http, what="/history?points=2000")["levels"] == curves
        check_replay(database)
        erased = show(http, what="/rounds?limit=121")["rounds"][-1]
        assert (erased["erased"], erased["levels"]) == (True, None)


@pytest.mark.parametrize(
    ("table", "word"), [("rounds", "thresholds of the levels"), ("answers", "outcome on the levels")]
)
def test_what_the_log_says_of_levels_is_held_to_its_replay(
    light: Database, table: str, word: str
) -> None:
    with client_of(light, Clock()) as http:
        made(http, **INTERVALS)
        play(http, list_truths(5))
    run_sql(light, f"UPDATE {table} SET levels = zeroblob(32) WHERE number = 3")  # noqa: S608
    assert word in str(replay.replay(light, "pets").difference)


def test_curves_of_levels_are_the_same_from_answers_and_from_snapshots(
    light: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client_of(light, Clock()) as http:
        made(http, **INTERVALS)
        play(http, list_truths(300))
        raw = show(http, what="/history?points=2000")
        monkeypatch.setattr(history, "_RAW_UP_TO", 0)
        thinned = show(http, what="/history?points=2000")
    places = [raw["rounds"].index(count) for count in thinned["rounds"]]
    assert thinned["rounds"] == [100, 200, 300]
    for few, all_ in zip(thinned["levels"], raw["levels"], strict=True):
        assert few["miss_rate"] == pytest.approx([all_["miss_rate"][place] for place in places])
        assert few["mean_size"] == pytest.approx([all_["mean_size"][place] for place in places])


def test_an_inner_level_that_is_off_target_is_alarmed_by_itself(light: Database) -> None:
    """In the list, the metrics and the log: of 0 misses in a hundred, one in five expects otherwise."""
    clock, scores = Clock(), {"a": 1.0, "b": 0.0}
    with client_of(light, clock) as http:
        made(http, **LEVELS)
        past = [{"scores": scores, "label": "a" if n % 8 else "b"} for n in range(900)]
        http.post("/v1/streams/pets/calibration", json={"rounds": past})
        for _ in range(100):
            clock.now += 60.0
            answered(http, ask(http, scores=scores), label="a")
        states = [level["promise"]["state"] for level in show(http)["levels"]]
        line = http.get("/v1/overview").json()["streams"][0]
        alarms = show(http, what="/history")["alarms"]
        text = http.get("/metrics").text
    assert states[2] == "fewer misses than alpha" not in states[:2]
    assert (line["state"], line["alphas"]) == (states[2], ALPHAS)
    assert [one["level"] for one in alarms] == [2]
    assert line["since"] == alarms[0]["since"]["at"]
    assert f'keyhole_alert{{state="{states[2]}",stream="pets",level="0.2"}} 1.0' in text
    assert f'keyhole_alert{{state="{states[2]}",stream="pets",level="0.05"}} 0.0' in text
    check_replay(light)
    run_sql(light, "DELETE FROM alarms WHERE level = 2")
    assert "list of alarms" in str(replay.replay(light, "pets").difference)


def test_the_export_shows_every_level(light: Database) -> None:
    with client_of(light, Clock()) as http:
        made(http, **INTERVALS)
        play(http, list_truths(5))
        lines = http.get("/v1/streams/pets/export?format=jsonl").text.splitlines()
        rounds = show(http, what="/rounds?limit=10")["rounds"]
    for line, logged in zip(map(json.loads, lines), reversed(rounds), strict=True):
        assert [one["alpha"] for one in line["levels"]] == ALPHAS
        for one, level in zip(line["levels"], logged["levels"], strict=True):
            assert [one["lower"], one["upper"]] == level["interval"]
            assert one["missed"] is level["missed"]
