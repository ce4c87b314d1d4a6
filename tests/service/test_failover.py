"""A standby that lags takes over: what it never heard of is lost, and given to nobody else."""

from collections.abc import Iterator

import httpx
import pytest

import keyhole
from keyhole.cli import main
from keyhole.service.client.client import Client
from keyhole.service.store.log import history, replay
from keyhole.service.store.sql.database import Database
from keyhole.service.wire.responses import Prediction
from tests.patience import SECONDS
from tests.service.cluster import Pair, make_pair
from tests.service.process import Service
from tests.service.serving import wait_until


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with make_pair() as made:
        yield made


def test_after_a_failover_lost_rounds_are_unknown_and_their_answers_reach_no_other(pair: Pair) -> None:
    with (
        Service(pair.url) as service,
        Client(service.url, timeout=SECONDS, retries=100, longest_pause=0.1) as client,
        httpx.Client(base_url=service.url, timeout=SECONDS) as http,
    ):

        def ask(count: int) -> list[Prediction]:
            return [client.predict("load", {"cat": 0.6, "dog": 0.3 + k / 100}) for k in range(count)]

        def answer(id_: str) -> tuple[int, bool]:
            heard = list[httpx.Response]()

            def tell() -> bool:  # What meets a connection to the dead primary is told to come again.
                heard.append(http.post(f"/v1/predictions/{id_}/feedback", json={"miss": True}))
                return heard[-1].status_code != 503

            wait_until(tell)
            return heard[-1].status_code, heard[-1].json().get("repeated", False)

        client.create_stream("load", alpha=0.1, learner="ocp-unlock+", horizon=1000, arms=20, seed=3)
        kept = ask(6)
        for made in kept[:3]:
            client.learn(made, keyhole.MISS)
        pair.cut_off()
        lost = ask(4)
        for made in (kept[3], lost[0]):  # What the standby does not hear of either.
            client.learn(made, keyhole.MISS)
        pair.fail_over()

        wait_until(lambda: http.get("/readyz").status_code == 200)
        stands = client.stream("load")
        assert (stands.rounds, stands.open) == (3, 3)  # Answered, and not.
        assert [answer(made.id) for made in lost] == [(404, False)] * 4
        new = ask(4)
        assert [made.id.split("-")[:2] for made in new] == [made.id.split("-")[:2] for made in lost]
        assert [answer(made.id) for made in lost] == [(404, False)] * 4
        assert [answer(made.id) for made in kept[:3]] == [(200, True)] * 3
        # The lost answer to a round that is not lost counts when it is sent again.
        assert [answer(made.id) for made in kept[3:5] + new[:2]] == [(200, False)] * 4
        assert client.stream("load").open == 3

    database = Database(pair.url)
    entries = {entry.id: entry.answer for entry in history.log(database, "load")}
    told = {made.id for made in kept[:5] + new[:2]}
    assert entries == {made.id: "miss" if made.id in told else None for made in kept + new}
    found = replay.replay(database, "load")
    assert (found.rounds, found.answers, found.difference) == (10, 7, None)
    database.close()
    assert main(["verify", "--database", pair.url]) == 0
