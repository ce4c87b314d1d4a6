"""The service put together."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import sqlalchemy as sql
import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from keyhole.errors import KeyholeError
from keyhole.service import page, problems, routes
from keyhole.service.access import Access
from keyhole.service.gate import Gate, Limits, refusal
from keyhole.service.watch import Gauges
from keyhole.store import streams, warm
from keyhole.store.database import Database

_SECONDS_TO_FINISH = 1
_SUMMARY = "Online conformal prediction when you only see part of the truth."


@dataclass(frozen=True, kw_only=True)
class Ways:
    """How a service works, apart from where its data is."""

    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], float] = time.time
    demo: bool = False


def create_app(database: Database, ways: Ways | None = None) -> FastAPI:
    """Return the service on a database."""
    chosen = Ways() if ways is None else ways
    app = FastAPI(title="Keyhole", summary=_SUMMARY, docs_url=None, redoc_url=None)
    gauges = Gauges(lambda: streams.every(database))
    access = Access(database)
    app.state.database, app.state.clock = database, chosen.clock
    app.state.access, app.state.limits, app.state.gauges = access, chosen.limits, gauges
    app.include_router(routes.router)
    app.include_router(page.router)
    _add_probes(app)
    _add_handlers(app)
    if chosen.demo:
        from keyhole.service import demo

        app.include_router(demo.router)
    app.add_middleware(Gate, access=access, limits=chosen.limits, gauges=gauges)
    return app


def run(app: FastAPI, *, host: str, port: int) -> None:
    """Serve until interrupted, from when the kernels are compiled."""
    warm.up(app.state.database)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
    )
    listening = config.bind_socket()
    listening.listen(config.backlog)  # From now on a request waits instead of being refused.
    address, bound = listening.getsockname()[:2]
    shown = f"[{address}]" if ":" in address else address
    sys.stderr.write(f"Keyhole listens on http://{shown}:{bound}\n")
    sys.stderr.flush()
    uvicorn.Server(config).run([listening])


def _add_probes(app: FastAPI) -> None:
    @app.get("/healthz", tags=["watching"])
    def healthz() -> dict[str, str]:
        """Say that the process runs."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["watching"])
    def readyz(request: Request) -> Response:
        """Say whether the database answers."""
        with request.app.state.database.read() as connection:
            connection.execute(sql.text("SELECT 1"))
        return JSONResponse({"status": "ok"})

    @app.get("/metrics", tags=["watching"], dependencies=[routes.READ])
    def metrics(request: Request) -> Response:
        """Return the metrics in Prometheus's text format."""
        return Response(request.app.state.gauges.text(), media_type="text/plain; version=0.0.4")


def _add_handlers(app: FastAPI) -> None:
    @app.exception_handler(KeyholeError)
    def known(request: Request, error: KeyholeError) -> Response:
        fields = getattr(request.state, "fields", {})
        return refusal(error, field=fields.get(type(error)))

    @app.exception_handler(RequestValidationError)
    def invalid(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"] if part != "body")
        message = f"{field or 'the body'}: {first['msg']}"
        return JSONResponse(problems.said("invalid", message, field=field or None), status_code=422)

    @app.exception_handler(HTTPException)
    def other(_request: Request, error: HTTPException) -> Response:
        code = {404: "no_such_path", 405: "no_such_method"}.get(error.status_code, "error")
        return JSONResponse(
            problems.said(code, str(error.detail)), status_code=error.status_code, headers=error.headers
        )

    @app.exception_handler(sql.exc.OperationalError)
    def unavailable(_request: Request, _error: sql.exc.OperationalError) -> Response:
        message = "the database does not answer; try again"
        return JSONResponse(problems.said("database", message), status_code=503)

    @app.exception_handler(Exception)
    def unexpected(_request: Request, _error: Exception) -> Response:
        message = "something went wrong here; the log of the service says what"
        return JSONResponse(problems.said("unexpected", message), status_code=500)
