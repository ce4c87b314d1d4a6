"""The OpenAPI document: what a field means is said beside it, or here for all fields of its name."""

from collections.abc import Sequence
from dataclasses import is_dataclass
from itertools import chain
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema

from keyhole.service.http.bodies import BODIES, ReadBody
from keyhole.service.store.tokens import Scope
from keyhole.service.wire import problems, responses

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": responses.Problem}
    for status in (400, 401, 403, 404, 409, 410, 413, 415, 422, 429, 431, 503)
}
TAGS = [
    {"name": "rounds", "description": "Predict, decide, answer."},
    {"name": "streams", "description": "Make, change, calibrate and archive streams."},
    {"name": "reading", "description": "What streams are, and what happened in them."},
    {"name": "watching", "description": "Probes and metrics."},
]
_TOKEN = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token of 'keyhole token create'; a route names the scope that it must have.",
}
# What no exception of the library stands for.
_CODES = ("disconnected", "error", "no_such_method", "no_such_path", "unexpected")
_MEANINGS = {
    "alpha": "Target miss rate: the share of rounds that may miss; below 0.8, most learners below 1/2.",
    "answers": "Each with the id of its prediction.",
    "arms": "Number of thresholds.",
    "archived": "Since when it takes no more rounds; null while it does.",
    "at": "When.",
    "decisions": "One for each case, in order.",
    "description": "What people should know about the stream.",
    "groups": "The groups: of a stream their statistics, of a round those it belongs to.",
    "horizon": "Number of rounds to come, if known.",
    "id": "The id of a round, as its prediction gave it.",
    "interval": "The two ends, null where it has none; null as a whole if it is empty or a set.",
    "key": "Your own key: a retry with the same key returns the same prediction.",
    "kind": "What the stream predicts, and from what.",
    "label": "The true label, or the true value.",
    "labels": "The labels of the set, or those that a stream fixes.",
    "learner": "The rule that picks thresholds; see 'keyhole learners'.",
    "least_chance": "The smallest chance that is accepted, 0.01 by default: no answer counts for "
    "more than 1 / least_chance rounds.",
    "levels": "Each level, the smallest alpha first; null where there is one.",
    "lifetime": "Seconds until an open round expires.",
    "miss_rate": "Share of answered rounds that missed.",
    "misses": "Answered rounds that missed.",
    "name": "Its name.",
    "open": "Rounds that wait for an answer.",
    "open_limit": "How many rounds may be open; then the oldest expires.",
    "options": "Further parameters of the learner, by name.",
    "predictions": "One for each output, in order.",
    "quarantined": "Streams that cannot be used; where there is a reason, by name.",
    "round": "Its number in the stream, from 0.",
    "rounds": "Rounds: how many were answered, or the rounds themselves.",
    "size": "Number of labels, or width; null if it is unbounded.",
    "threshold": "What a score must reach to be in the set.",
    "window": "How many answered rounds count as recent.",
}


def demand_token(scope: Scope) -> dict[str, Any]:
    """Return what says of a route that it takes a token with this scope."""
    return {"security": [{"token": [scope.value]}]}


def describe(app: FastAPI, routers: Sequence[APIRouter]) -> dict[str, Any]:
    document = FastAPI.openapi(app)
    # The bodies are read by our own dependencies, which FastAPI cannot look into.
    template = "#/components/schemas/{model}"
    _, bodies = models_json_schema([(body, "validation") for body in BODIES], ref_template=template)
    document["components"]["securitySchemes"] = {"token": _TOKEN}
    schemas = document["components"]["schemas"]
    schemas.update(bodies["$defs"])
    for route in chain.from_iterable(router.routes for router in routers):
        if isinstance(route, APIRoute) and (body := _describe_body(route)) is not None:
            for method in route.methods or ():
                document["paths"][route.path_format][method.lower()]["requestBody"] = body
    kinds = (*problems.PROBLEMS.values(), *problems.REFUSALS.values())
    schemas["Fault"]["properties"]["code"]["enum"] = sorted({*_CODES, *(one.code for one in kinds)})
    for title, schema in schemas.items():
        meanings = {**_MEANINGS, **_list_meanings(getattr(responses, title, None))}
        for name, field in schema.get("properties", {}).items():
            if not field.get("description") and name in meanings:
                field["description"] = meanings[name]
    return document


def _describe_body(route: APIRoute) -> dict[str, object] | None:
    for one in route.dependant.dependencies:
        if isinstance(one.call, ReadBody):
            schema = {"$ref": f"#/components/schemas/{one.call.model.__name__}"}
            return {"required": True, "content": {"application/json": {"schema": schema}}}
    return None


def _list_meanings(kind: type | None) -> dict[str, str]:
    """Return the texts beside the types of a dataclass's fields."""
    hints = get_type_hints(kind, include_extras=True) if is_dataclass(kind) else {}
    return {name: get_args(hint)[1] for name, hint in hints.items() if get_origin(hint) is Annotated}
