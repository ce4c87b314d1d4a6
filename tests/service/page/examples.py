"""Make the examples that /docs shows, from a service that is asked everything: ``make examples``.

What is sent and what comes back is taken apart along the schemas of /openapi.json, so that every
field of every body has a value that was really there.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from keyhole.service.store.sql.database import Database
from tests.service.scene import Clock, client_of

FILE = Path(__file__).parents[3] / "src/keyhole/service/page/static/examples.json"


class Collection:
    """The first whole example of every schema, and an example of every field."""

    def __init__(self, description: Any) -> None:
        self._schemas, self._paths = description["components"]["schemas"], description["paths"]
        self.whole: dict[str, Any] = {}
        self.fields: dict[str, dict[str, Any]] = {}

    def take_request(self, path: str, method: str, body: Any) -> None:
        """Take apart what was sent to a route."""
        content = self._paths[path][method]["requestBody"]["content"]
        self._take(content["application/json"]["schema"], body)

    def take_response(self, path: str, method: str, status: int, body: Any) -> None:
        """Take apart what a route answered."""
        content = self._paths[path][method]["responses"][str(status)]["content"]
        self._take(content["application/json"]["schema"], body)

    def fill_in(self) -> None:
        """Give a field that was never there the example of one of the same name elsewhere."""
        known = {field: one for fields in self.fields.values() for field, one in fields.items()}
        for name, schema in self._schemas.items():
            for field in schema.get("properties", ()):
                if field in known:
                    self.fields.setdefault(name, {}).setdefault(field, known[field])

    def _take(self, schema: Any, value: Any) -> None:
        for part in [schema, *schema.get("anyOf", ())]:
            name = part.get("$ref", "").rpartition("/")[2]
            if name and isinstance(value, dict) and self._fits(name, value):
                self._keep(name, value)
            if isinstance(value, list) and isinstance(part.get("items"), dict):
                for one in value[:3]:
                    self._take(part["items"], one)

    def _fits(self, name: str, value: dict[str, Any]) -> bool:
        return set(value) <= set(self._schemas[name].get("properties", ()))

    def _keep(self, name: str, value: dict[str, Any]) -> None:
        self.whole.setdefault(name, _shorten(value))
        known = self.fields.setdefault(name, {})
        for field, schema in self._schemas[name]["properties"].items():
            if value.get(field) not in (None, [], {}) or (field in value and field not in known):
                if known.get(field) in (None, [], {}):
                    known[field] = _shorten(value[field])
                self._take(schema, value[field])


def _shorten(value: Any) -> Any:
    """Return the value with long lists cut, as an example is read by people."""
    if isinstance(value, list):
        return [_shorten(one) for one in value[:3]]
    if isinstance(value, dict):
        return {key: _shorten(one) for key, one in list(value.items())[:60]}
    return value


class Asker:
    """Asks the service, and keeps what was sent and what came back."""

    def __init__(self, http: TestClient) -> None:
        self._http = http
        self.kept = Collection(http.get("/openapi.json").json())

    def ask(self, path: str, body: Any = None, method: str = "", **names: str) -> Any:
        """Return the answer of a route."""
        verb = method or ("get" if body is None else "post")
        sent = {} if body is None else {"json": body}
        response = self._http.request(verb.upper(), path.format(**names), **sent)
        answer = response.json()
        if body:
            self.kept.take_request(path.partition("?")[0], verb, body)
        self.kept.take_response(path.partition("?")[0], verb, response.status_code, answer)
        return answer


def play(asker: Asker, clock: Clock) -> None:
    """Ask every route for something that it has an interesting answer to."""
    ask = asker.ask
    streams, stream = "/v1/streams", "/v1/streams/{name}"
    ask(streams, {"name": "triage", "alpha": 0.1, "seed": 7})
    ask(streams, {"name": "triage", "alpha": 0.1})
    many = {"labels": ["cat", "lynx", "dog"], "power": 1.0, "feedback": "semi-bandit"}
    limits = {"open_limit": 10_000, "lifetime": 604_800.0, "window": 1000}
    ask(streams, {"name": "pets", "alpha": 0.1, "learner": "logit-tracker", **many, **limits})
    grid = {"learner": "ocp-unlock+", "horizon": 5000, "arms": 50}
    ask(streams, {"name": "paper", "alpha": 0.1, **grid})
    ask(streams, {"name": "prices", "alpha": 0.1, "bound": 50.0, "retention": 7_776_000.0})
    ask(streams, {"name": "demand", "alpha": 0.1, "scale": 12.0, "options": {"step": 0.1}})
    scores = {"cat": 0.71, "lynx": 0.22, "dog": 0.04}
    for turn in range(400):
        body = {"scores": scores}
        made = ask(f"{stream}/predictions", body, name="triage")
        clock.now += 60.0
        told = {"miss": True} if turn % 10 == 0 or turn > 360 else {"label": "cat"}
        ask("/v1/predictions/{id}/feedback", told, id=made["id"])
    ask("/v1/predictions/{id}/feedback", {"hit": True}, id=made["id"])
    priced = ask(f"{stream}/predictions", {"centre": 124.8}, name="prices")
    ask("/v1/predictions/{id}/feedback", {"label": 126.5}, id=priced["id"])
    ask("/v1/predictions/{id}/amendment", {"label": 126.9}, id=priced["id"])
    listed = {"scores": [0.7, 0.2, 0.1], "labels": ["a", "b", "c"], "key": "letter-1"}
    batch = ask(f"{stream}/predictions/batch", {"predictions": [listed]}, name="triage")
    ids = [one["id"] for one in batch["predictions"]]
    ask("/v1/feedback", {"answers": [{"id": ids[0], "label": "a"}, {"id": "1-1-x", "hit": True}]})
    ask(stream, name="triage")
    ask(streams)
    ask("/v1/overview")
    ask(f"{stream}/history", name="triage")
    ask(f"{stream}/rounds", name="triage")
    ask(streams, {"name": "mail", "kind": "gate", "alpha": 0.05})
    case = {"candidates": {"invoice": 0.93, "letter": 0.04}, "groups": []}
    decided = ask(f"{stream}/decisions", case, name="mail")
    ask("/v1/predictions/{id}/feedback", {"right": True}, id=decided["id"])
    keyed = {"score": 0.7, "key": "letter-2"}
    ask(f"{stream}/decisions/batch", {"decisions": [keyed]}, name="mail")
    ask(stream, name="mail")
    ask(f"{stream}/history", name="mail")
    ask(f"{stream}/rounds", name="mail")
    grouped = {"groups": ["weekend"], "features": ["hour"]}
    ask(streams, {"name": "visits", "alpha": 0.1, **grouped, "at_least": 1, "at_most": 5})
    known = {"features": {"hour": 7.0}, "groups": ["weekend"]}
    graded: list[Any] = [{"loss": 0.25, "chance": 0.5}, {"score": 0.4, "wrong": 0.1}, {"skip": True}]
    for reply in graded:
        made = ask(f"{stream}/predictions", {"scores": scores, **known}, name="visits")
        ask("/v1/predictions/{id}/feedback", reply, id=made["id"])
    ask(stream, name="visits")
    ask(f"{stream}/rounds", name="visits")
    ask(streams, {"name": "bands", "alpha": 0.1, "kind": "band", "side": "both"})
    ask(f"{stream}/predictions", {"lower": 110.5, "upper": 131.0}, name="bands")
    ask(f"{stream}/rounds/{{id}}", method="delete", name="visits", id=made["id"])
    changed = {
        "alpha": 0.2,
        "retention": 7_776_000.0,
        "window": 500,
        "lifetime": 3600.0,
        "labels": ["puma"],
    }
    ask(stream, {**changed, "description": "pets of the shop"}, method="patch", name="pets")
    ask(streams, {"name": "again", "alpha": 0.1, "calibrate_from": "triage"})
    ask(streams, {"name": "taught", "alpha": 0.1, "description": "taught by last year's mail"})
    past = {"rounds": [{"scores": scores, "label": "cat"}], "after": 0}
    ask(f"{stream}/calibration", past, name="taught")
    ask(f"{stream}/history", name="pets")
    wider = {"name": "wider", "alpha": 0.05}
    ask(streams, {"name": "shop", "alpha": 0.1, "shadows": [wider]})
    other = {"name": "paper", "learner": "ocp-unlock+", "horizon": 5000, "arms": 50}
    ask(f"{stream}/shadows", other, name="shop")
    for told in ({"label": "cat"}, {"miss": True}):
        made = ask(f"{stream}/predictions", {"scores": scores}, name="shop")
        ask("/v1/predictions/{id}/feedback", told, id=made["id"])
    ask(stream, name="shop")
    ask(f"{stream}/shadows/{{shadow}}/promotion", {}, name="shop", shadow="wider")
    ask(streams, {"name": "load", "alpha": [0.05, 0.1, 0.2], "kind": "interval", "scale": 12.0})
    made = ask(f"{stream}/predictions", {"centre": 124.8}, name="load")
    ask("/v1/predictions/{id}/feedback", {"label": 139.0}, id=made["id"])
    for part in ("", "/history", "/rounds"):
        ask(f"{stream}{part}", name="load")
    ask(f"{stream}/archive", {}, name="prices")
    for probe in ("/healthz", "/readyz"):
        ask(probe)


def make() -> dict[str, Any]:
    """Return the examples."""
    with tempfile.TemporaryDirectory() as scratch:
        database, clock = Database(f"sqlite:///{Path(scratch) / 'keyhole.db'}"), Clock()
        with client_of(database, clock) as http:
            asker = Asker(http)
            play(asker, clock)
            asker.kept.fill_in()
        database.close()
    return {"whole": asker.kept.whole, "fields": asker.kept.fields}


if __name__ == "__main__":
    FILE.write_text(json.dumps(make(), indent=1, sort_keys=True) + "\n")
