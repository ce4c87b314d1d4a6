"""The service put together."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.responses import Response

from keyhole.service.http import (
    glossary,
    live,
    middleware,
    probes,
    problems,
    round_models,
    round_routes,
    stream_routes,
)
from keyhole.service.http.access import Access, Admission
from keyhole.service.http.bodies import Bodies
from keyhole.service.http.limits import Limits
from keyhole.service.http.outage import Outage
from keyhole.service.http.quarantine import Quarantine
from keyhole.service.http.stream_metrics import StreamMetrics
from keyhole.service.http.turns import Turns
from keyhole.service.http.watch import Gauges
from keyhole.service.page import page
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams.unit_of_work import run_tasks

_SUMMARY = "Online conformal prediction when you only see part of the truth."


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a service works, apart from where its data is."""

    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], float] = time.time
    demo: bool = False


def create_app(database: Database, settings: Settings | None = None) -> FastAPI:
    """Return the service on a database."""
    chosen = Settings() if settings is None else settings
    app = FastAPI(title="Keyhole", summary=_SUMMARY, docs_url=None, redoc_url=None)
    limits, access, outage = chosen.limits, Access(database), Outage()
    state, quarantine = app.state, Quarantine()
    gauges = Gauges(StreamMetrics(database, quarantine).write)
    state.quarantine = quarantine
    state.database, state.clock, state.limits = database, chosen.clock, limits
    state.access, state.outage, state.gauges = access, outage, gauges
    state.bodies = bodies = Bodies(limits)
    state.turns = Turns(
        partial(run_tasks, database), most=limits.waiting, patience=database.timeouts.lock
    )
    state.looks = live.Looks(database)
    state.readiness = probes.Readiness(database)
    _add_routes(app, demo=chosen.demo)
    _add_handlers(app)
    # The last one added is the first one reached.
    app.add_middleware(middleware.CheckSender, admission=Admission(access, limits))
    app.add_middleware(middleware.ReleaseBodies, bodies=bodies)
    app.add_middleware(middleware.AnswerErrors, outage=outage)
    app.add_middleware(middleware.AddHeaders)
    app.add_middleware(middleware.LogRequests, access=access, gauges=gauges, outage=outage)
    return app


def _add_routes(app: FastAPI, *, demo: bool) -> None:
    # A path is looked for in this order: what is asked for most comes first.
    app.include_router(round_routes.router)
    app.include_router(stream_routes.router)
    app.include_router(page.router)
    app.include_router(probes.router)
    if demo:
        from keyhole.service.http import demo as demonstration

        app.include_router(demonstration.router)
    describe = app.openapi

    @cache  # It takes a tenth of a second, and strangers may ask for it.
    def describe_all() -> dict[str, Any]:
        # The bodies are read by our own dependencies, which FastAPI cannot look into.
        description = describe()
        _, bodies = models_json_schema(
            [(model, "validation") for model in round_models.BODIES],
            ref_template="#/components/schemas/{model}",
        )
        description["components"]["schemas"].update(bodies["$defs"])
        glossary.explain_fields(description["components"]["schemas"])
        return description

    app.openapi = describe_all  # type: ignore[method-assign]


def _add_handlers(app: FastAPI) -> None:
    # They are coroutines, so that what is refused needs no thread.
    @app.exception_handler(RequestValidationError)
    async def refuse(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        message = f"{place or 'the body'}: {first['msg']}"
        problem = problems.show_fault("invalid", message, field=place or None)
        return middleware.respond(problem, status=422)

    @app.exception_handler(HTTPException)
    async def answer(request: Request, error: HTTPException) -> Response:
        path = f"{request.url.path[:80]!r}"
        code, message = {
            404: ("no_such_path", f"there is nothing at {path}; /docs lists every path"),
            405: ("no_such_method", f"{path} takes no {request.method}; /docs lists what it takes"),
        }.get(error.status_code, ("error", str(error.detail)))
        response = middleware.respond(problems.show_fault(code, message), status=error.status_code)
        response.headers.update(error.headers or {})
        return response
