"""Webhooks tell of alarms, quarantine and refusals, signed, again and again until they are taken."""

import base64
import hashlib
import hmac
import re
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry, generate_latest

from keyhole.cli import main
from keyhole.errors import InvalidError
from keyhole.service.http import webhooks
from keyhole.service.http.app import Settings, create_app
from keyhole.service.http.webhooks import DAY, Message, Receiver, StreamPoller, Webhooks
from keyhole.service.store.sql.database import Database
from tests.patience import SECONDS
from tests.service.process import Service
from tests.service.receiver import receiving
from tests.service.scene import NOW, Clock, answered, calibrated, client_of, made, predicted, run_sql
from tests.service.serving import wait_until

SECRET = "a secret of enough characters"  # noqa: S105
HOWTO = Path(__file__).parents[3] / "docs" / "howto" / "webhooks.md"
PLAIN: dict[str, Any] = {"learner": "logit-tracker", "horizon": None, "labels": ["a"]}


def make(database: Database, url: str, **given: Any) -> Webhooks:
    quick = {"poll_seconds": 0.02, "first_pause": 0.01, "clock": Clock(), **given}
    return Webhooks(database, Receiver(url, SECRET), **quick)


def play(http: TestClient, rounds: int, **told: Any) -> None:
    for _ in range(rounds):
        answered(http, predicted(http, [1.0]), **told)


def raise_alarm(http: TestClient) -> None:
    made(http, **PLAIN)
    calibrated(http)
    play(http, 14, miss=True)
    assert http.get("/v1/streams/pets").json()["promise"]["state"] == "too many misses"


def test_an_alarm_and_its_end_are_told_once_each(light: Database) -> None:
    http = client_of(light, Clock())
    with receiving() as mailbox, make(light, mailbox.url):
        raise_alarm(http)
        wait_until(lambda: mailbox.list_types() == ["alarm.raised"])
        data = mailbox.told[0]["data"]
        assert (data["stream"], data["state"], data["cleared"]) == ("pets", "too many misses", None)
        assert data["since"]["answers"] <= data["raised"]["answers"] <= 14
        http.patch("/v1/streams/pets", json={"alpha": 0.3})  # It starts anew, and so the alarm ends.
        wait_until(lambda: len(mailbox.came) == 2)
        play(http, 3, label="a")
        time.sleep(0.2)
        assert mailbox.list_types() == ["alarm.raised", "alarm.cleared"]
        assert mailbox.told[1]["data"]["cleared"]["at"]


def test_what_is_told_again_after_a_restart_has_the_same_id(light: Database) -> None:
    http = client_of(light, Clock())
    raise_alarm(http)
    ids = []
    for _ in range(2):
        with receiving() as mailbox, make(light, mailbox.url):
            wait_until(lambda: mailbox.came)
            ids += [headers["webhook-id"] for headers, _ in mailbox.came]
    assert ids[0] == ids[1]
    late = Clock()
    late.now += DAY + 60.0
    with receiving() as mailbox, make(light, mailbox.url, clock=late):
        time.sleep(0.2)
        assert mailbox.came == []  # That is no news.


def test_what_was_told_is_forgotten_when_it_is_no_news(light: Database) -> None:
    clock = Clock()
    raise_alarm(client_of(light, clock))
    poller = StreamPoller(light, clock=clock)
    assert [message.type for message in poller.poll()] == ["alarm.raised"]
    assert list(poller.poll()) == []
    assert len(poller._announced) == 1
    clock.now += DAY + 60.0
    assert list(poller.poll()) == []
    assert poller._announced == {}


def test_a_quarantine_and_its_end_are_told(light: Database) -> None:
    http = client_of(light, Clock())
    made(http, **PLAIN)
    with receiving() as mailbox, make(light, mailbox.url):
        time.sleep(0.1)
        run_sql(light, "UPDATE streams SET setup = replace(setup, 'logit-tracker', 'nothing')")
        wait_until(lambda: mailbox.came)
        assert mailbox.told[0]["type"] == "stream.quarantined"
        assert "nothing" in mailbox.told[0]["data"]["reason"]
        run_sql(light, "UPDATE streams SET setup = replace(setup, 'nothing', 'logit-tracker')")
        wait_until(lambda: len(mailbox.came) == 2)
        assert (mailbox.told[1]["type"], mailbox.told[1]["data"]) == (
            "stream.released",
            {"stream": "pets"},
        )


def test_refusals_are_told_together(light: Database) -> None:
    clock = Clock()
    with receiving() as mailbox:
        app = create_app(light, Settings(clock=clock, webhook=Receiver(mailbox.url, SECRET)))
        app.state.webhooks._poll_seconds = 0.02
        http = TestClient(app, base_url="http://localhost", client=("127.0.0.1", 50_000))
        with app.state.webhooks:
            for _ in range(3):
                http.get("/v1/streams/nobody")
            http.get("/nowhere")
            clock.now += 61.0
            wait_until(lambda: mailbox.came)
        assert http.get("/metrics").text.count('keyhole_webhooks_total{outcome="delivered"} 1.0') == 1
    (told,) = mailbox.told
    assert (told["type"], told["data"]["total"]) == ("requests.refused", 4)
    assert told["data"]["requests"][0] == {"route": "/v1/streams/{name}", "status": 404, "count": 3}


def test_a_message_is_signed_so_that_whoever_has_the_secret_can_verify_it(light: Database) -> None:
    with receiving() as mailbox, make(light, mailbox.url) as hooks:
        hooks.enqueue(Message("msg_1", "test", NOW, {"a": 1}))
        wait_until(lambda: mailbox.came)
    ((headers, body),) = mailbox.came
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(expected).decode()}"
    assert headers["webhook-timestamp"] == str(int(NOW))


def test_what_the_how_to_verifies_with_takes_ours_and_refuses_others(light: Database) -> None:
    """Kills: a changed body, another secret, a message that is old."""
    (block,) = re.findall(r"```python\n(.*?)```", HOWTO.read_text(), flags=re.DOTALL)
    scene: dict[str, Any] = {}
    exec(block, scene)  # noqa: S102
    with receiving() as mailbox, make(light, mailbox.url, clock=time.time) as hooks:
        hooks.enqueue(Message("msg_1", "test", time.time(), {"a": 1}))
        wait_until(lambda: mailbox.came)
    ((headers, body),) = mailbox.came
    assert scene["verify"](headers, body, SECRET)["type"] == "test"
    old = {**headers, "webhook-timestamp": "1000000000"}
    for given in ((headers, body + b" ", SECRET), (headers, body, "another" * 4), (old, body, SECRET)):
        with pytest.raises(ValueError, match=r"signature|old"):
            scene["verify"](*given)


def test_a_receiver_that_refuses_or_is_away_gets_everything_later_in_order(light: Database) -> None:
    registry = CollectorRegistry()
    with receiving() as mailbox:
        port = int(mailbox.url.rpartition(":")[2].partition("/")[0])
    with make(light, mailbox.url, metrics=registry) as hooks:  # Nobody is there.
        for n in range(3):
            hooks.enqueue(Message(f"msg_{n}", "test", NOW, {"n": n}))
        wait_until(lambda: registry.get_sample_value("keyhole_webhooks_total", {"outcome": "failed"}))
        assert registry.get_sample_value("keyhole_webhooks_waiting") == 3.0
        with receiving(port) as back:
            back.statuses += [503, 302, 404]
            wait_until(lambda: len(back.came) == 3)
            assert [told["data"]["n"] for told in back.told] == [0, 1, 2]
            wait_until(lambda: b'outcome="delivered"} 3.0' in generate_latest(registry))


def test_a_dead_receiver_fills_a_bounded_queue_and_holds_nobody_up(
    light: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "_MOST_WAITING", 5)
    registry = CollectorRegistry()
    hooks = make(light, "http://127.0.0.1:9/", metrics=registry, first_pause=60.0)
    with hooks:
        began = time.monotonic()
        for n in range(100):
            hooks.enqueue(Message(f"msg_{n}", "test", NOW, {"n": n}))
        assert time.monotonic() - began < SECONDS
        assert [message.data["n"] for message in hooks._waiting] == [95, 96, 97, 98, 99]
        assert registry.get_sample_value("keyhole_webhooks_total", {"outcome": "dropped"}) == 95.0
    assert not any(thread.is_alive() for thread in hooks._threads)


def test_what_is_a_day_old_is_dropped(light: Database) -> None:
    with receiving() as mailbox, make(light, mailbox.url) as hooks:
        hooks.enqueue(Message("old", "test", NOW - DAY - 1.0, {}))
        hooks.enqueue(Message("new", "test", NOW, {}))
        wait_until(lambda: mailbox.came)
        assert mailbox.came[0][0]["webhook-id"] == "new"


@pytest.mark.parametrize(
    ("url", "secret", "message"),
    [
        ("ftp://a", SECRET, "is not a URL; give http:// or https://"),
        ("http://", SECRET, "is not a URL"),
        ("http://a", "short", "has 5 characters; give at least 16"),
        ("http://a", "whsec_" + "!" * 20, "is not base64"),
    ],
)
def test_a_receiver_that_cannot_be_is_refused(url: str, secret: str, message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        Receiver(url, secret)


def test_the_secret_is_never_shown() -> None:
    assert SECRET not in repr(Receiver("http://a", SECRET))


def test_serve_refuses_a_webhook_without_a_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KEYHOLE_WEBHOOK_SECRET", raising=False)
    where = [
        "serve",
        "--database",
        f"sqlite:///{tmp_path / 'k.db'}",
        "--webhook",
        "http://127.0.0.1:9/",
    ]
    assert main(where) != 0
    assert "--webhook needs a secret" in capsys.readouterr().err
    assert main([*where, "--webhook-secret", str(tmp_path / "nothing")]) != 0
    assert "the secret of the webhook cannot be read" in capsys.readouterr().err


def test_keyhole_serve_tells_of_an_alarm_and_stops_in_order(tmp_path: Path) -> None:
    url, secret = f"sqlite:///{tmp_path / 'keyhole.db'}", tmp_path / "secret"
    secret.write_text(SECRET + "\n")
    with closing(Database(url)) as database:
        raise_alarm(TestClient(
            create_app(database, Settings(clock=time.time)), base_url="http://localhost",
            client=("127.0.0.1", 50_000),
        ))  # fmt: skip
    with receiving() as mailbox:
        with Service(url, "--webhook", mailbox.url, "--webhook-secret", str(secret)):
            wait_until(lambda: mailbox.came)
        assert mailbox.list_types() == ["alarm.raised"]
