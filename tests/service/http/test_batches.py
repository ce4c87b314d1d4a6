"""A batch is taken whole or not at all, and is the library's batch."""

from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import keyhole
from keyhole.service.store.log import replay
from keyhole.service.store.sql.database import Database
from tests.service.scene import made


def test_a_batch_larger_than_may_be_open_is_refused_whole(one: TestClient) -> None:
    made(one, open_limit=5)
    body = {"predictions": [{"scores": [0.5]}] * 6}
    response = one.post("/v1/streams/pets/predictions/batch", json=body)
    assert response.status_code == 422
    assert "6 predictions are more than the 5" in response.json()["error"]["message"]
    assert one.get("/v1/streams/pets").json()["predicted"] == 0
    body["predictions"].pop()
    assert one.post("/v1/streams/pets/predictions/batch", json=body).status_code == 201
    assert one.get("/v1/streams/pets").json()["open"] == 5


@pytest.mark.parametrize(
    ("learner", "settings"),
    [
        (None, {}),
        ("ocp-unlock+", {"horizon": 5000, "arms": 20}),
        ("agaci", {}),
        (None, {"features": ["hour"], "groups": ["weekend"]}),
    ],
)
def test_a_batch_over_http_is_the_librarys_choice_for_choice(
    one: TestClient, light: Database, learner: str | None, settings: dict[str, Any]
) -> None:
    made(one, **{"learner": learner, "horizon": None, **settings})
    predictor = keyhole.Predictor(learner, alpha=0.1, seed=7, watch=True, **settings)
    rng = np.random.default_rng(6)
    for size in (1, 40, 3, 40, 25):
        rows = rng.dirichlet(np.ones(5), size=size).tolist()
        known: list[dict[str, Any]] = [{} for _ in rows]
        if settings.get("features"):
            known = [
                {"features": {"hour": k % 24}, "groups": ["weekend"] * (k % 2)} for k in range(size)
            ]
        asked = {"predictions": [{"scores": row, **own} for row, own in zip(rows, known, strict=True)]}
        sent = one.post("/v1/streams/pets/predictions/batch", json=asked).json()["predictions"]
        columns = {name: [own[name] for own in known] for name in known[0]}
        ours = predictor.predict_batch(rows, **columns)
        assert [made["threshold"] for made in sent] == [region.threshold for region in ours]
        labels = rng.integers(5, size=size).tolist()
        told = [
            {"label": label} if label in region else {"miss": True}
            for label, region in zip(labels, ours, strict=True)
        ]
        order = rng.permutation(size)
        feedback = [{"id": sent[k]["id"], **told[k]} for k in order]
        one.post("/v1/feedback", json={"answers": feedback}).raise_for_status()
        answers = [told[k].get("label", keyhole.MISS) for k in order]
        predictor.learn_batch([ours[k] for k in order], answers)
    stands = one.get("/v1/streams/pets").json()
    assert (stands["miss_rate"], stands["notes"]) == (predictor.miss_rate, predictor.notes)
    assert replay.replay(light, "pets").difference is None
