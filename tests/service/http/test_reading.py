"""What reading takes: as much room for a long log of long rounds as for a short one."""

import http.client
import json
import tracemalloc
from contextlib import closing

import pytest

from keyhole.service.http.app import Settings, create_app
from keyhole.service.http.limits import Limits
from keyhole.service.store.sql import pages
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import proposals, registry, settings
from keyhole.service.store.streams.proposals import Query
from tests.patience import SECONDS
from tests.service.scene import NOW
from tests.service.serving import Address, serving

NAMES = [f"product {n:05d} {'abcdefghij klmnopqrst uvwxyz'[:26]}" for n in range(5000)]
ROUND = 5000 * (8 + 44)  # bytes: a score, and a name in quotation marks
FEW, MANY = 20, 80  # rounds; the few are more than a page and more than a row group


@pytest.fixture
def wide(light: Database) -> Database:
    setup, _ = settings.make_setup("kt", alpha=0.1, seed=7)
    for name, rounds in (("few", FEW), ("many", MANY)):
        registry.create(light, name, setup=setup, now=NOW)
        for n in range(rounds):
            scores = {name: (n + place) % 100 / 100 for place, name in enumerate(NAMES)}
            proposals.predict(light, name, asks=[Query(scores)], now=NOW)
    return light


def read(place: Address, path: str) -> tuple[int, int]:
    """Return how long a response was, and how much was held at the most while it came."""
    line = http.client.HTTPConnection("127.0.0.1", place.port, timeout=SECONDS)
    with closing(line):
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        line.request("GET", path)
        response, length = line.getresponse(), 0
        assert response.status == 200
        while piece := response.read(65_536):
            length += len(piece)
        return length, tracemalloc.get_traced_memory()[1] - before


@pytest.mark.parametrize(
    "what", ["rounds?limit=500", "export", "export?format=jsonl", "export?format=parquet"]
)
def test_what_a_reader_is_sent_takes_no_more_room_however_long_the_log(
    wide: Database, what: str
) -> None:
    app = create_app(wide, Settings(limits=Limits(requests_per_second=1e6)))
    with serving(app) as place:
        read(place, f"/v1/streams/few/{what}")  # what is imported and kept the first time
        tracemalloc.start()
        try:
            short, few = read(place, f"/v1/streams/few/{what}")
            long, many = read(place, f"/v1/streams/many/{what}")
        finally:
            tracemalloc.stop()
    # Held whole, it would take four times the room; half of that leaves each its pages and groups.
    assert many < 2 * few
    assert long >= short
    assert many < MANY * ROUND


def test_a_page_of_long_rounds_holds_fewer_of_them_and_says_where_to_go_on(wide: Database) -> None:
    app = create_app(wide, Settings(limits=Limits(requests_per_second=1e6)))
    seen, before = [], ""
    with serving(app) as place:
        while True:
            line = http.client.HTTPConnection("127.0.0.1", place.port, timeout=SECONDS)
            with closing(line):
                line.request("GET", f"/v1/streams/many/rounds?limit=500{before}")
                page = json.loads(line.getresponse().read())
            assert 1 <= len(page["rounds"]) <= pages.BYTES // ROUND + 1
            seen += [one["round"] for one in page["rounds"]]
            if page["next"] is None:
                break
            before = f"&before={page['next']}"
    assert seen == list(range(MANY - 1, -1, -1))
