"""The service put together."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import State
from starlette.exceptions import HTTPException
from starlette.responses import Response

from keyhole import __version__
from keyhole.service.http import event_stream, health, middleware, openapi, prometheus, routes
from keyhole.service.http.access import Access
from keyhole.service.http.bodies import Bodies
from keyhole.service.http.clock import SteadyClock
from keyhole.service.http.faults import explain_parameter
from keyhole.service.http.limits import Limits
from keyhole.service.http.overview import Overview
from keyhole.service.http.queues import StreamQueues
from keyhole.service.http.retention import keep_retention
from keyhole.service.http.webhooks import Receiver, Webhooks
from keyhole.service.page import files
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams.stream import run_tasks
from keyhole.service.wire.problems import show_problem
from keyhole.service.wire.responses import Fault

_SUMMARY = "Online conformal prediction when you only see part of the truth."


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a service works, apart from where its data is."""

    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], float] = field(default_factory=SteadyClock)
    backups: Path | None = None  # where the copies of the database are
    demo: bool = False
    webhook: Receiver | None = None


def create_app(database: Database, settings: Settings | None = None) -> FastAPI:
    chosen = Settings() if settings is None else settings
    app = FastAPI(
        title="Keyhole",
        summary=_SUMMARY,
        version=__version__,
        servers=[{"url": "/", "description": "This service."}],
        openapi_tags=openapi.TAGS,
        generate_unique_id_function=lambda route: route.name,
        docs_url=None,
        redoc_url=None,
        lifespan=keep_retention,
    )
    _fill_state(app.state, database, chosen)
    _add_routes(app, demo=chosen.demo)
    _add_handlers(app)
    # The last one added is the first one reached.
    app.add_middleware(middleware.HandleRequests, state=app.state)
    app.add_middleware(middleware.CompressReads)
    return app


def _fill_state(state: State, database: Database, chosen: Settings) -> None:
    limits, clock = chosen.limits, chosen.clock
    state.database, state.clock, state.limits, state.demo = database, clock, limits, chosen.demo
    state.access, state.bodies = Access(database, clock=clock), Bodies(limits)
    state.outage, state.quarantine = health.Outage(), health.Quarantine()
    state.readiness = health.Readiness(database, state.outage)
    streams = prometheus.StreamMetrics(database, state.quarantine, clock=clock)
    write_host = partial(prometheus.write_host, database, clock=clock, backups=chosen.backups)
    state.metrics = metrics = prometheus.Metrics(lambda: streams.write() + write_host())
    state.webhooks = None
    if (receiver := chosen.webhook) is not None:
        state.webhooks = Webhooks(database, receiver, metrics=metrics.registry, clock=clock)
    state.reads = event_stream.StreamReads(database, clock=clock, list_refused=metrics.list_refused)
    state.overview = Overview(database, clock=clock)
    state.queues = StreamQueues(
        partial(run_tasks, database), most=limits.waiting, timeout=database.timeouts.lock
    )


def _add_routes(app: FastAPI, *, demo: bool) -> None:
    # A path is looked for in this order: what is asked for most comes first.
    routers = [routes.router, files.router, routes.probes]
    if demo:
        from keyhole.service.http import digits_demo

        routers.append(digits_demo.router)
    for router in routers:
        app.include_router(router)
    # It takes a tenth of a second, and strangers may ask for it.
    app.openapi = cache(partial(openapi.describe, app, routers))  # type: ignore[method-assign]


def _add_handlers(app: FastAPI) -> None:
    # They are coroutines, so that what is refused needs no thread.
    @app.exception_handler(RequestValidationError)
    async def refuse(_request: Request, error: RequestValidationError) -> Response:
        return middleware.respond(show_problem(explain_parameter(error.errors())).error, status=422)

    @app.exception_handler(HTTPException)
    async def answer(request: Request, error: HTTPException) -> Response:
        path = f"{request.url.path[:80]!r}"
        code, message = {
            404: ("no_such_path", f"there is nothing at {path}; /docs lists every path"),
            405: ("no_such_method", f"{path} takes no {request.method}; /docs lists what it takes"),
        }.get(error.status_code, ("error", str(error.detail)))
        response = middleware.respond(Fault(code, message, None), status=error.status_code)
        response.headers.update(error.headers or {})
        return response
