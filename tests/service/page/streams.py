"""Streams in every state that the page must show, with a past that ends now."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from fastapi.testclient import TestClient

from keyhole.service.store.sql.database import Database
from tests.service.scene import Clock, client_of

LABELS = ("invoice", "letter", "receipt", "contract", "order", "reminder", "offer", "other")
BATCH = 20
Ask = Callable[[np.random.Generator], dict[str, Any]]
Answer = Callable[[Any, int, np.random.Generator], dict[str, Any]]


def ask_labels(rng: np.random.Generator) -> dict[str, Any]:
    """Return the scores of a classifier that is often sure."""
    scores = rng.dirichlet(np.full(len(LABELS), 0.25))
    return {"scores": dict(zip(LABELS, scores.round(4).tolist(), strict=True))}


def ask_centre(rng: np.random.Generator) -> dict[str, Any]:
    """Return a forecast."""
    return {"centre": round(float(120 + 15 * rng.standard_normal()), 1)}


def ask_in_groups(rng: np.random.Generator) -> dict[str, Any]:
    """Return scores of a case that belongs to one group, or to two."""
    weekend = ["weekend"] if rng.random() < 0.3 else []
    return {**ask_labels(rng), "groups": [*weekend, str(rng.choice(["new", "known"]))]}


def ask_score(rng: np.random.Generator) -> dict[str, Any]:
    """Return the score of one answer."""
    return {"score": round(float(rng.beta(4.0, 1.0)), 4)}


def judge(made: Any, _k: int, rng: np.random.Generator) -> dict[str, Any]:
    """Say whether an accepted answer was right; of the referred nobody hears."""
    if not made["accepted"]:
        return {"skip": True}
    return {"right": bool(rng.random() < made["score"])}


def miss_with(chance: float) -> Answer:
    """Return what answers at random, whatever was proposed, unless that was nothing."""

    def answer(made: Any, _k: int, rng: np.random.Generator) -> dict[str, Any]:
        return {"miss": True} if rng.random() < chance or made["size"] == 0 else {"hit": True}

    return answer


def fail_from(start: int, *, chance: float) -> Answer:
    """Return what answers as promised at first, and with far more misses from some round on."""
    bad = miss_with(chance)
    return lambda made, k, rng: bad(made, k, rng) if k >= start else tell_label(made, k, rng)


def tell_label(made: Any, _k: int, rng: np.random.Generator) -> dict[str, Any]:
    """Answer with a label of the set, or that none was right."""
    right = bool(made["labels"]) and rng.random() > 0.1
    return {"label": str(rng.choice(made["labels"]))} if right else {"miss": True}


def tell_outcome(made: Any, _k: int, rng: np.random.Generator) -> dict[str, Any]:
    """Answer with an outcome near the middle of the interval."""
    low, high = made["interval"] or (0.0, 0.0)
    middle = 120.0 if low is None or high is None else (low + high) / 2
    return {"label": round(float(middle + 6 * rng.standard_t(4)), 1)}


def play(
    http: TestClient,
    clock: Clock,
    name: str,
    *,
    rounds: int,
    ask: Ask,
    answer: Answer,
    days: float = 0.0,
    late: float = 30.0,
) -> None:
    """Play rounds that end now and began so many days ago, each answered so many seconds late."""
    rng, end = np.random.default_rng(list(name.encode())), time.time() - 5.0
    for start in range(0, rounds, BATCH):
        clock.now = end - 86_400 * days * (1 - (start + BATCH) / rounds) - late
        bodies = [ask(rng) for _ in range(min(BATCH, rounds - start))]
        kind = "decisions" if "score" in bodies[0] else "predictions"
        sent = http.post(f"/v1/streams/{name}/{kind}/batch", json={kind: bodies})
        made = sent.json()[kind]
        clock.now += late
        told = [{"id": one["id"], **answer(one, start + k, rng)} for k, one in enumerate(made)]
        assert http.post("/v1/feedback", json={"answers": told}).status_code == 200


def fill(url: str, *, many: int = 0, long: int = 600) -> None:
    """Make streams in every state in a database, and so many more."""
    database, clock = Database(url), Clock()
    clock.now = time.time() - 20 * 86_400
    with client_of(database, clock) as http:

        def make(name: str, **settings: Any) -> str:
            made = http.post("/v1/streams", json={"name": name, "alpha": 0.1, "seed": 7, **settings})
            assert made.status_code == 201, made.text
            return name

        kinds: dict[str, Any] = {"demand": {"scale": 12.0}, "approvals": {"kind": "gate"}}
        kinds["visits"] = {"groups": ["weekend", "new", "known"]}
        for name in ("mail", "contracts", "demand", "approvals", "visits", "unheard", "past"):
            make(name, **kinds.get(name, {}))
        play(http, clock, "mail", rounds=long, ask=ask_labels, answer=tell_label, days=12)
        bad = fail_from(long - 140, chance=0.45)
        play(http, clock, "contracts", rounds=long, ask=ask_labels, answer=bad, days=9, late=5400)
        play(http, clock, "demand", rounds=long // 2, ask=ask_centre, answer=tell_outcome, days=18)
        play(http, clock, "approvals", rounds=long // 2, ask=ask_score, answer=judge, days=5)
        play(http, clock, "visits", rounds=long // 2, ask=ask_in_groups, answer=tell_label, days=3)
        make("forecasts", alpha=[0.05, 0.1, 0.2], scale=12.0)
        play(http, clock, "forecasts", rounds=long // 2, ask=ask_centre, answer=tell_outcome, days=8)
        play(http, clock, "past", rounds=60, ask=ask_labels, answer=tell_label)
        http.post("/v1/streams/past/archive", json={})
        for number in range(many):
            name = make(f"shop-{number:02}", alpha=(0.05, 0.1, 0.2)[number % 3])
            answer = miss_with((0.04, 0.1, 0.21)[number % 3])
            play(http, clock, name, rounds=20 * (1 + number % 6), ask=ask_labels, answer=answer)
    database.close()


def begin(url: str) -> None:
    """Make a stream of labels and one of intervals in their first day: five batches of 100, as true."""
    database, clock = Database(url), Clock()
    rng, clock.now = np.random.default_rng(7), time.time() - 8 * 3600.0
    with client_of(database, clock) as http:
        for name, kind in (("first-labels", "labels"), ("first-intervals", "interval")):
            http.post("/v1/streams", json={"name": name, "alpha": 0.1, "seed": 7, "kind": kind})
        for _ in range(5):
            _answer_as_true(http, clock, rng, "first-labels")
            _answer_as_true(http, clock, rng, "first-intervals")
            clock.now += 1.5 * 3600.0
    database.close()


def _answer_as_true(http: TestClient, clock: Clock, rng: np.random.Generator, name: str) -> None:
    bodies = [ask_labels(rng) if "labels" in name else ask_centre(rng) for _ in range(100)]
    sent = http.post(f"/v1/streams/{name}/predictions/batch", json={"predictions": bodies})
    clock.now += 60.0
    told = []
    for made, body in zip(sent.json()["predictions"], bodies, strict=True):
        if "centre" in body:
            told.append({"id": made["id"], "label": round(body["centre"] + 6 * rng.standard_t(4), 1)})
            continue
        chances = np.array(list(body["scores"].values()))
        true = str(rng.choice(LABELS, p=chances / chances.sum()))
        told.append(
            {"id": made["id"], **({"label": true} if true in made["labels"] else {"miss": True})}
        )
    assert http.post("/v1/feedback", json={"answers": told}).status_code == 200
