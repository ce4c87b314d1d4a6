"""What the tests of the service share."""

from typing import Any

from fastapi.testclient import TestClient

from keyhole.service.http.app import Settings, create_app
from keyhole.service.http.limits import Limits
from keyhole.service.store.sql.backend import Statement, Timeouts, read_scalar
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import Row, Table
from tests.patience import SECONDS

NOW = 1_800_000_000.0
SCORES = {"cat": 0.71, "lynx": 0.22, "dog": 0.04}
# A machine that stands still for a while is no fault of the database, unless a test says so.
PATIENT = Timeouts(lock=SECONDS, statement=SECONDS, connect=SECONDS, probe=SECONDS)


def run_sql(database: Database, text: str, *values: Any) -> None:
    """Change what the tables hold, by whatever statement."""
    with database.write() as transaction:
        transaction.execute(Statement(text, read_scalar), *values)


def read_table(database: Database, table: Table[Row], rest: str = "") -> list[Row]:
    """Return the rows of a table."""
    text = f"SELECT {table.listed} FROM {table.name} {rest}"  # noqa: S608
    with database.read() as transaction:
        return transaction.fetch(Statement(text, table.make_row))


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def client_of(database: Database, clock: Clock, **limits: Any) -> TestClient:
    app = create_app(database, Settings(limits=Limits(**limits), clock=clock))
    return TestClient(
        app,
        base_url="http://localhost",
        raise_server_exceptions=False,
        client=("127.0.0.1", 50_000),
    )


def made(http: TestClient, **settings: Any) -> Any:
    body = {
        "name": "pets",
        "learner": "ocp-unlock+",
        "alpha": 0.1,
        "horizon": 1000,
        "seed": 7,
        **settings,
    }
    response = http.post("/v1/streams", json=body)
    assert response.status_code == 201, response.text
    return response.json()


def calibrated(http: TestClient, rounds: int = 1_000) -> Any:
    """Teach a stream so much history that its promise can be judged from the first answer on."""
    history = [{"scores": [1.0], "label": "a"}] * rounds
    return http.post("/v1/streams/pets/calibration", json={"rounds": history})


def predicted(http: TestClient, scores: Any = None, **headers: str) -> Any:
    body = {"scores": SCORES if scores is None else scores}
    response = http.post("/v1/streams/pets/predictions", json=body, headers=headers)
    assert response.status_code in (200, 201), response.text
    return response.json()


def answered(http: TestClient, prediction: Any, **answer: Any) -> Any:
    return http.post(f"/v1/predictions/{prediction['id']}/feedback", json=answer)
