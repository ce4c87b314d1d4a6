"""Shadows hear what answers tell of their own sets, change nothing, and can be promoted."""

import json
import math
from typing import Any

import pytest
from fastapi.testclient import TestClient

import keyhole
from keyhole.errors import InvalidError
from keyhole.predictor.kinds import find_kind
from keyhole.predictor.tally import Outcome
from keyhole.service.store.log import replay
from keyhole.service.store.sql import schema
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import registry, settings
from keyhole.service.store.streams.shadows import (
    NewShadow,
    Shadow,
    _count,
    add_shadow,
    dump_shadows,
    load_shadows,
)
from tests.service.scene import Clock, answered, client_of, made, predicted, read_table, run_sql

PLAIN: dict[str, Any] = {"learner": "informed-tracker", "horizon": None}
WIDER = {"name": "wider", "alpha": 0.02}
SCORES = [{"cat": s, "dog": 1.0 - s} for s in (0.9, 0.55, 0.7, 0.6, 0.8, 0.35)]


def list_streams(http: TestClient) -> Any:
    return http.get("/v1/streams/pets").json()


def play(http: TestClient, rounds: int, *, first: int = 0, **answer: Any) -> None:
    """Play rounds; without an answer the true label is told, which is sometimes the less likely."""
    for n in range(first, first + rounds):
        told = answer or {"label": "dog" if n % 7 == 0 else "cat"}
        response = answered(http, predicted(http, SCORES[n % len(SCORES)]), **told)
        assert response.status_code in (200, 422), response.text


def check_replay(database: Database) -> None:
    assert replay.replay(database, "pets").difference is None


def test_a_shadow_does_what_a_stream_of_its_own_would_have_done(light: Database) -> None:
    """With true labels told, its figures and its state are those of a stream with its settings."""
    with client_of(light, Clock()) as http:
        made(http, **PLAIN, shadows=[WIDER])
        made(http, **{**PLAIN, "alpha": 0.02}, name="alone")
        play(http, 150)
        shadow, stream = list_streams(http)["shadows"][0], list_streams(http)
        for n in range(150):
            body = {"scores": SCORES[n % len(SCORES)]}
            shown = http.post("/v1/streams/alone/predictions", json=body).json()
            answered(http, shown, label="dog" if n % 7 == 0 else "cat")
        alone = http.get("/v1/streams/alone").json()
    assert shadow["rounds"] == alone["rounds"] == 150
    assert (shadow["misses"], shadow["unknown"]) == (alone["misses"], 0.0)
    assert shadow["mean_size"] == alone["mean_size"]
    assert shadow["miss_rate"] == [alone["miss_rate"]] * 2
    assert shadow["shown_mean_size"] == stream["mean_size"]
    assert shadow["shown_miss_rate"] == stream["miss_rate"]
    beside, own = read_table(light, schema.streams, "ORDER BY id")
    kept = bytes.fromhex(json.loads(beside.shadows or "")[0]["progress"])
    state = own.progress[-600:]  # a state of 760 bytes comes last
    assert kept.endswith(state)


def test_a_stream_does_the_same_with_and_without_shadows(light: Database) -> None:
    views = []
    with client_of(light, Clock()) as http:
        for name, more in (
            ("pets", {}),
            ("other", {"shadows": [WIDER, {"name": "kt", "learner": "kt"}]}),
        ):
            made(http, **PLAIN, name=name, **more)
            for n in range(60):
                body = {"scores": SCORES[n % 6]}
                shown = http.post(f"/v1/streams/{name}/predictions", json=body).json()
                answered(http, shown, label="dog" if n % 5 == 0 else "cat")
            views.append(http.get(f"/v1/streams/{name}").json())
    left = ("name", "shadows", "created")
    assert len({json.dumps({k: v for k, v in view.items() if k not in left}) for view in views}) == 1


class Shown:
    def __init__(self, threshold: float, size: float) -> None:
        self.threshold, self.size = threshold, size


@pytest.mark.parametrize(
    ("answer", "larger", "smaller"),
    [
        ({"label": "a"}, True, True),
        ({"score": 0.3}, True, True),
        ("hit", True, False),
        ("miss", False, True),
        ({"hit": True, "chance": 0.5}, True, False),
        ({"loss": 0.25}, False, False),
        ({"hit": True, "wrong": 0.1}, False, False),
        ({"judged": "miss"}, False, False),
    ],
)
def test_an_answer_tells_of_another_set_what_nesting_implies(
    answer: Any,
    larger: bool,  # noqa: FBT001
    smaller: bool,  # noqa: FBT001
) -> None:
    kind: Any = find_kind(keyhole.Probabilities())
    shown = Shown(0.5, 2.0)
    told = [kind.translate(None, own, shown, answer) for own in (Shown(0.4, 3.0), Shown(0.6, 1.0))]
    assert [one is not None for one in told] == [larger, smaller]
    assert kind.translate(None, Shown(0.45, 2.0), shown, answer) == answer  # the same set
    endless = Shown(0.5, math.inf)  # Of two bounds upwards neither size tells which is larger.
    assert (kind.translate(None, Shown(0.4, math.inf), endless, "miss")) is None


def test_what_feedback_cannot_tell_is_counted_as_unknown(light: Database) -> None:
    """A miss says nothing of a larger set, and a hit says that a larger one hit too."""
    scores = {f"label {n}": 0.6 / (n + 1) for n in range(20)}
    with client_of(light, Clock()) as http:
        plain = {**PLAIN, "learner": "logit-tracker", "alpha": 0.3}
        made(http, **plain, feedback="bandit", shadows=[WIDER])
        misses = 0
        for n in range(60):
            told = "miss" if n % 3 == 0 else "hit"
            response = answered(http, predicted(http, scores), **{told: True})
            misses += response.json()["missed"]
        shadow = list_streams(http)["shadows"][0]
    assert shadow["mean_size"] > shadow["shown_mean_size"]
    assert (misses, shadow["rounds"]) == (20, 60)
    assert shadow["unknown"] > 10  # The first sets are the same, and told of as they are.
    assert shadow["misses"] + shadow["unknown"] == 20
    assert shadow["miss_rate"] == pytest.approx([shadow["misses"] / 60, 20 / 60])
    check_replay(light)


def test_shadows_come_and_go_and_the_log_replays(database: Database) -> None:
    """On both databases, with batches, open rounds, calibration and a snapshot."""
    with client_of(database, Clock()) as http:
        made(http, **PLAIN, shadows=[WIDER])
        history = [{"scores": SCORES[n % 6], "label": "cat"} for n in range(40)]
        http.post("/v1/streams/pets/calibration", json={"rounds": history})
        outputs = [{"scores": one} for one in SCORES]
        batch = http.post("/v1/streams/pets/predictions/batch", json={"predictions": outputs}).json()
        late = batch["predictions"]
        new = {"name": "grid", "learner": "ocp-unlock+", "horizon": 1000, "arms": 20}
        assert http.post("/v1/streams/pets/shadows", json=new).status_code == 201
        play(http, 110)
        sent = [{"id": one["id"], "label": "cat"} for one in late]
        http.post("/v1/feedback", json={"answers": sent})
        wider, grid = list_streams(http)["shadows"]
        assert (wider["rounds"], grid["rounds"]) == (116, 110)  # It was not there for the batch.
        predicted(http)
        gone = http.delete("/v1/streams/pets/shadows/wider").json()
        assert [one["name"] for one in gone["shadows"]] == ["grid"]
        http.post("/v1/streams/pets/shadows", json=WIDER)
        play(http, 5)
    (snapshot,) = read_table(database, schema.snapshots)
    assert len(json.loads(snapshot.shadows or "")) == 2
    check_replay(database)


@pytest.mark.parametrize("new", [WIDER, {"name": "wider", "learner": "ocp-unlock+", "horizon": 500}])
def test_a_promoted_shadow_chooses_from_then_on_and_verifies(database: Database, new: Any) -> None:
    with client_of(database, Clock()) as http:
        made(http, **PLAIN, shadows=[new, {"name": "third", "alpha": 0.2}])
        play(http, 40)
        waiting = [predicted(http, one) for one in SCORES]
        before = list_streams(http)
        after = http.post("/v1/streams/pets/shadows/wider/promotion").json()
        assert (after["learner"], after["alpha"]) == (
            before["shadows"][0]["learner"], before["shadows"][0]["alpha"],
        )  # fmt: skip
        assert [one["name"] for one in after["shadows"]] == ["third"]
        assert (after["rounds"], after["misses"]) == (before["rounds"], before["misses"])
        assert "the alarm starts anew" in after["notes"][0]
        for shown in waiting:  # Rounds of before are answered as any other.
            assert answered(http, shown, label="cat").status_code == 200
        play(http, 70)
        history = http.get("/v1/streams/pets/history").json()
        assert [one["kind"] for one in history["changes"]] == ["promoted"]
        assert history["proven"] is None
    check_replay(database)


def test_a_promoted_shadow_goes_on_from_what_it_would_have_shown(light: Database) -> None:
    """Its next set is that of a stream which had its settings from the start."""
    with client_of(light, Clock()) as http:
        made(http, **PLAIN, shadows=[WIDER])
        made(http, **{**PLAIN, "alpha": 0.02}, name="alone")
        play(http, 80)
        for n in range(80):
            body = {"scores": SCORES[n % 6]}
            shown = http.post("/v1/streams/alone/predictions", json=body).json()
            answered(http, shown, label="dog" if n % 7 == 0 else "cat")
        http.post("/v1/streams/pets/shadows/wider/promotion")
        body = {"scores": SCORES[0]}
        ours, theirs = (
            http.post(f"/v1/streams/{name}/predictions", json=body).json() for name in ("pets", "alone")
        )
    assert ours["threshold"] == theirs["threshold"]


def test_intervals_and_decisions_have_shadows_too(light: Database) -> None:
    with client_of(light, Clock()) as http:
        made(http, **PLAIN, kind="interval", shadows=[WIDER])
        for n in range(60):
            path = "/v1/streams/pets/predictions"
            shown = http.post(path, json={"centre": float(n)}).json()
            assert answered(http, shown, label=n + math.sin(n)).status_code == 200
        shadow = list_streams(http)["shadows"][0]
        assert (shadow["rounds"], shadow["unknown"]) == (60, 0.0)
        assert shadow["mean_size"] > shadow["shown_mean_size"]
        check_replay(light)
        http.post("/v1/streams/pets/shadows/wider/promotion")
        assert http.post(path, json={"centre": 1.0}).status_code == 201
        check_replay(light)


@pytest.mark.parametrize("feedback", ["accepted", "referred", "both"])
def test_a_gate_says_of_what_it_refers_that_it_is_unknown(light: Database, feedback: str) -> None:
    with client_of(light, Clock()) as http:
        body = {"name": "pets", "alpha": 0.05, "kind": "gate", "feedback": feedback, "seed": 1}
        bolder = {"name": "bolder", "alpha": 0.4}
        assert http.post("/v1/streams", json={**body, "shadows": [bolder]}).status_code == 201
        unknown = 0
        for n in range(200):
            shown = http.post("/v1/streams/pets/decisions", json={"score": n % 10 / 10}).json()
            more = {"chance": 1.0} if shown["accepted"] and feedback == "referred" else {}
            response = answered(http, shown, right=n % 10 > 3, **more)
            unknown += response.status_code != 200
        stream = list_streams(http)
        shadow = stream["shadows"][0]
        assert shadow["accepted_share"] > stream["accepted_share"]
        assert shadow["mean_size"] is None
        assert (shadow["unknown"] > 0) is (feedback == "accepted")
        assert shadow["unknown"] <= unknown
        http.post("/v1/streams/pets/shadows/bolder/promotion")
        check_replay(light)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ({"name": "a"}, "is the stream's own learner; give another alpha, learner or options"),
        ({"name": "a", "learner": "informd-tracker"}, "did you mean 'informed-tracker'?"),
        ({"name": "a", "learner": "aci"}, "aci"),  # It needs more than this feedback tells.
        ({"name": "a b", "alpha": 0.2}, "cannot name a stream"),
        ({"name": "wider", "alpha": 0.2}, "there is a shadow 'wider' already"),
        ({"name": "a", "alhpa": 0.2}, "there is no field 'alhpa'; did you mean 'alpha'?"),
        ({"name": "a", "learner": "contextual-tracker", "options": {"features": 2}}, "features"),
    ],
)
def test_a_shadow_that_cannot_be_is_refused(one: TestClient, new: Any, message: str) -> None:
    made(one, **PLAIN, shadows=[WIDER], feedback="bandit")
    response = one.post("/v1/streams/pets/shadows", json=new)
    assert (response.status_code, message in response.json()["error"]["message"]) == (422, True)
    assert len(list_streams(one)["shadows"]) == 1


def test_there_are_three_at_most_and_only_those_that_are_there_can_be_named(one: TestClient) -> None:
    made(one, **PLAIN, shadows=[{"name": f"s{n}", "alpha": 0.2 + n / 100} for n in range(3)])
    refused = one.post("/v1/streams/pets/shadows", json=WIDER).json()["error"]
    assert refused["message"] == "the stream has 3 shadows already; remove one first"
    for path, method in (("", "DELETE"), ("/promotion", "POST")):
        response = one.request(method, f"/v1/streams/pets/shadows/nobody{path}")
        assert response.json()["error"]["message"] == (
            "there is no shadow 'nobody'; there are s0, s1, s2"
        )


def test_a_plain_learner_shadows_features_and_cannot_be_promoted(one: TestClient) -> None:
    plain = {"name": "plain", "learner": "informed-tracker"}
    made(one, learner=None, horizon=None, features=["hour"], groups=["new"], shadows=[plain])
    for n in range(20):
        body = {"scores": SCORES[n % 6], "features": {"hour": n}, "groups": ["new"]}
        shown = one.post("/v1/streams/pets/predictions", json=body).json()
        answered(one, shown, label="cat")
    assert list_streams(one)["shadows"][0]["rounds"] == 20
    response = one.post("/v1/streams/pets/shadows/plain/promotion")
    assert "make a new stream for it" in response.json()["error"]["message"]


@pytest.mark.parametrize("what", ["shown_misses", "rounds"])
def test_a_shadow_that_was_tampered_with_is_found(light: Database, what: str) -> None:
    with client_of(light, Clock()) as http:
        made(http, **PLAIN, shadows=[WIDER])
        play(http, 10)
    (row,) = read_table(light, schema.streams)
    kept = json.loads(row.shadows or "")
    kept[0][what] += 1
    run_sql(light, "UPDATE streams SET shadows = ?", json.dumps(kept))
    assert "shadows" in str(replay.replay(light, "pets").difference)


def test_labels_that_are_added_reach_the_shadows(one: TestClient) -> None:
    made(one, **PLAIN, labels=["cat", "dog"], shadows=[WIDER])
    answered(one, predicted(one, [0.6, 0.4]), label="cat")
    one.patch("/v1/streams/pets", json={"labels": ["lynx"]})
    assert answered(one, predicted(one, [0.6, 0.3, 0.1]), label="lynx").status_code == 200
    assert list_streams(one)["shadows"][0]["rounds"] == 2


@pytest.mark.parametrize("rounds", [50, 130, 260])
def test_erased_rounds_leave_shadows_verifiable(light: Database, rounds: int) -> None:
    """What a shadow learnt of erased rounds is taken from the next snapshot, or from the row."""
    with client_of(light, Clock()) as http:
        made(http, **PLAIN, shadows=[WIDER])
        play(http, 20)
        waiting = predicted(http)
        (erased,) = http.get("/v1/streams/pets/rounds?limit=1&before=10").json()["rounds"]
        assert http.delete(f"/v1/streams/pets/rounds/{erased['id']}").status_code == 200
        play(http, rounds)
        answered(http, waiting, label="cat")
        play(http, 10)
        http.post("/v1/streams/pets/shadows/wider/promotion")
        play(http, 10)
    found = replay.replay(light, "pets")
    assert (found.difference, found.erased) == (None, 1)


def test_each_shadow_of_intervals_finds_the_scale_by_itself(light: Database) -> None:
    """Kills: one scale that every shadow adds the same true values to."""
    with client_of(light, Clock()) as http:
        made(http, **PLAIN, kind="interval", shadows=[{"name": "narrow", "alpha": 0.3}, WIDER])
        made(http, **{**PLAIN, "alpha": 0.02}, kind="interval", name="alone")
        for n in range(30):
            for name in ("pets", "alone"):
                path = f"/v1/streams/{name}/predictions"
                answered(http, http.post(path, json={"centre": n}).json(), label=n + n % 4 + 0.25 * n)
        alone = http.get("/v1/streams/alone").json()
        assert list_streams(http)["shadows"][1]["mean_size"] == alone["mean_size"]


def test_a_shadow_counts_from_nothing_what_is_answered_beside_it() -> None:
    """Without a database: every count by hand, and through its JSON and back."""
    setup, _ = settings.make_setup("logit-tracker", alpha=0.1, seed=7)
    shadows: list[Shadow] = []
    shadow = add_shadow(shadows, setup, NewShadow("wider", alpha=0.02), since=4, at=7.0)
    assert shadows == [shadow]
    counts = ("rounds", "unknown", "size", "bounded", "shown_size", "shown_bounded", "shown_weight")
    assert [getattr(shadow, name) for name in (*counts, "shown_misses")] == [0] * 8
    told = [(2.0, 1.0, 0.0, 1.0), (math.inf, 1.0, 1.0, 2.0), (1.0, math.inf, 0.5, 4.0)]
    for size, shown, miss, weight in told:
        _count(shadow, size, shown, Outcome(miss, math.nan, weight=weight))
    assert (shadow.rounds, shadow.size, shadow.bounded) == (3, 3.0, 2)
    assert (shadow.shown_size, shadow.shown_bounded) == (2.0, 2)
    assert (shadow.shown_weight, shadow.shown_misses) == (7.0, 4.0)
    again = load_shadows(dump_shadows(shadows), setup)
    assert dump_shadows(again) == dump_shadows(shadows)
    assert (again[0].name, again[0].since, again[0].at) == ("wider", 4, 7.0)
    assert again[0].setup.learner.alpha == 0.02
    assert (dump_shadows([]), load_shadows(None, setup)) == (None, [])


def test_a_shadow_may_do_without_features_and_groups_but_not_have_others() -> None:
    setup, _ = settings.make_setup("contextual-tracker", alpha=0.1, features=["x"], groups=["new"])
    shadows: list[Shadow] = []
    plain = add_shadow(shadows, setup, NewShadow("plain", learner="logit-tracker"), since=1, at=0.0)
    assert (plain.setup.learner.features, plain.setup.learner.groups) == (0, 0)
    assert not plain.setup.context
    same = add_shadow(shadows, setup, NewShadow("same", alpha=0.2), since=2, at=0.0)
    assert same.setup.names == setup.names
    for options in ({"features": 2}, {"groups": 0}, {"features": 0, "groups": 2}):
        new = NewShadow("other", learner="contextual-tracker", options=options)
        with pytest.raises(InvalidError, match="which the stream's cases do not have"):
            add_shadow(shadows, setup, new, since=3, at=0.0)
    assert shadows == [plain, same]


def test_shadows_that_come_with_a_stream_are_numbered_as_the_log_has_them(light: Database) -> None:
    setup, _ = settings.make_setup("logit-tracker", alpha=0.1, seed=7)
    new = [NewShadow("wider", alpha=0.02), NewShadow("narrower", alpha=0.3)]
    registry.create(light, "pets", setup=setup, now=7.0, shadows=new)
    found = registry.get(light, "pets").shadows
    rows = read_table(light, schema.changes, "ORDER BY version")
    named = {json.loads(row.content).get("name"): row.version for row in rows}
    assert [(one.name, one.since) for one in found] == [
        (name, named[name]) for name in ("wider", "narrower")
    ]
