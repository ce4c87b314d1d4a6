"""Webhooks: messages to the operator's address about what happens to streams.

A thread polls the streams every few seconds, whichever process changed them, and another sends what it
found: no request waits for either. A message is signed as the Standard Webhooks specification says, so
that its libraries verify it. It is sent until the receiver accepts it, for a day. A receiver that does
not answer is tried less and less often, and messages beyond the limit are dropped, the oldest first.
Nothing of that is durable: after a start, alarms of the last day are sent again, under the same id as
before, and so are streams that are quarantined, under another.
"""

import base64
import binascii
import hashlib
import hmac
import json
import logging
import threading
import time
from collections import Counter as Counts
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import httpx
from prometheus_client import CollectorRegistry, Counter, Gauge
from pydantic_core import to_jsonable_python

from keyhole.errors import InvalidError, KeyholeError
from keyhole.service.http.views import Level, show_alarm
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import registry
from keyhole.service.store.streams.shadows import list_levels
from keyhole.service.store.streams.stream import Stream
from keyhole.service.wire.responses import show_time

log = logging.getLogger("keyhole.service")
DAY = 86_400.0
_SECONDS_BETWEEN_POLLS = 5.0
_SECONDS_BETWEEN_SUMMARIES = 60.0
_SECONDS_TO_ANSWER = 10.0
_LONGEST_PAUSE = 300.0
_MOST_WAITING = 1000
_SHORTEST_SECRET = 16  # characters
_ENCODED = "whsec_"  # before a secret in base64


class Message(NamedTuple):
    """What happened, and when; what is sent twice has the same id."""

    id: str
    type: str
    at: float
    data: Mapping[str, object]

    def write(self) -> bytes:
        content = {"type": self.type, "timestamp": show_time(self.at), "data": self.data}
        return json.dumps(content).encode()


@dataclass(frozen=True)
class Receiver:
    """Where messages go, and the secret that signs them."""

    url: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidError(f"webhook {self.url!r:.80} is not a URL; give http:// or https://")
        if len(self.secret) < _SHORTEST_SECRET:
            raise InvalidError(
                f"the secret of the webhook has {len(self.secret)} characters; give at least "
                f"{_SHORTEST_SECRET}, such as those of 'openssl rand -hex 32'"
            )
        _read_secret(self.secret)


def _read_secret(secret: str) -> bytes:
    if not secret.startswith(_ENCODED):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_ENCODED), validate=True)
    except binascii.Error:
        raise InvalidError(f"what follows {_ENCODED} in the webhook's secret is not base64") from None


def sign(secret: str, *, id: str, at: int, body: bytes) -> str:
    """Return the signature of a message that is sent at a time.

    Examples
    --------
    >>> sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", id="msg_p5jXN8AQM9LWM0D4loKWxJek",
    ...      at=1614265330, body=b'{"test": 2432232314}')
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    signed = hmac.new(_read_secret(secret), f"{id}.{at}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(signed.digest()).decode()}"


class Webhooks:
    """Polls the streams and sends messages, in two threads of its own while it runs."""

    def __init__(
        self,
        database: Database,
        receiver: Receiver,
        *,
        metrics: CollectorRegistry | None = None,
        clock: Callable[[], float] = time.time,
        poll_seconds: float = _SECONDS_BETWEEN_POLLS,
        summary_seconds: float = _SECONDS_BETWEEN_SUMMARIES,
        first_pause: float = 1.0,
    ) -> None:
        self._poller = StreamPoller(database, clock=clock)
        self._receiver, self._clock = receiver, clock
        self._poll_seconds, self._summary_seconds = poll_seconds, summary_seconds
        self._first_pause = first_pause
        self._waiting: deque[Message] = deque()
        self._changed, self._stopped = threading.Condition(), threading.Event()
        self._refused: Counts[tuple[str, int]] = Counts()
        self._threads = [
            threading.Thread(target=run, daemon=True)
            for run in (self._poll_streams, self._send_messages)
        ]
        registry = CollectorRegistry() if metrics is None else metrics
        self._sent = Counter(
            "keyhole_webhooks", "Messages delivered or dropped, and tries that failed.",
            ["outcome"], registry=registry,
        )  # fmt: skip
        waiting = Gauge("keyhole_webhooks_waiting", "Messages that wait.", registry=registry)
        waiting.set_function(lambda: len(self._waiting))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        # A message that is being sent is given a second.
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(1.0)

    def count_refused(self, route: str, status: int) -> None:
        """Note a request that was refused; they are sent as one message, once a minute."""
        self._refused[route, status] += 1

    def enqueue(self, message: Message) -> None:
        """Let a message wait to be sent, and drop the oldest if there are too many."""
        with self._changed:
            if len(self._waiting) >= _MOST_WAITING:
                self._waiting.popleft()
                self._sent.labels("dropped").inc()
            self._waiting.append(message)
            self._changed.notify()

    def _poll_streams(self) -> None:
        summed = self._clock()
        while not self._stopped.is_set():
            try:
                for message in self._poller.poll():
                    self.enqueue(message)
            except KeyholeError as error:  # The database is away: the next poll finds the rest.
                log.debug("%s", error)
            except Exception:
                log.exception("polling the streams for webhooks failed")
            now = self._clock()
            if self._refused and now - summed >= self._summary_seconds:
                self.enqueue(self._sum_up_refused(now))
                summed = now
            self._stopped.wait(self._poll_seconds)

    def _sum_up_refused(self, now: float) -> Message:
        refused, self._refused = self._refused, Counts()
        counts = [
            {"route": route, "status": status, "count": count}
            for (route, status), count in refused.most_common()
        ]
        data = {"total": refused.total(), "requests": counts}
        return Message(_make_id("requests.refused", now), "requests.refused", now, data)

    def _send_messages(self) -> None:
        pause = self._first_pause
        with httpx.Client(timeout=_SECONDS_TO_ANSWER, trust_env=False) as client:
            while (message := self._take()) is not None:
                if self._clock() - message.at > DAY:
                    self._finish(message, "dropped")
                elif self._send(client, message):
                    self._finish(message, "delivered")
                    pause = self._first_pause
                else:
                    self._sent.labels("failed").inc()
                    self._stopped.wait(pause)
                    pause = min(2.0 * pause, _LONGEST_PAUSE)

    def _take(self) -> Message | None:
        """Return the message that waits the longest, once there is one, or None at the end."""
        with self._changed:
            while not self._waiting and not self._stopped.is_set():
                self._changed.wait()
            return None if self._stopped.is_set() else self._waiting[0]

    def _finish(self, message: Message, outcome: str) -> None:
        with self._changed:
            if self._waiting and self._waiting[0] is message:  # It may have been dropped meanwhile.
                self._waiting.popleft()
        self._sent.labels(outcome).inc()

    def _send(self, client: httpx.Client, message: Message) -> bool:
        body, at = message.write(), int(self._clock())
        headers = {
            "content-type": "application/json",
            "webhook-id": message.id,
            "webhook-timestamp": str(at),
            "webhook-signature": sign(self._receiver.secret, id=message.id, at=at, body=body),
        }
        try:
            response = client.post(self._receiver.url, content=body, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            log.warning("webhook %s was not delivered: %s", message.type, error)
            return False
        if not response.is_success:
            log.warning("webhook %s was answered %s", message.type, response.status_code)
        return response.is_success


class StreamPoller:
    """Finds out what is new about streams since the last poll."""

    def __init__(self, database: Database, *, clock: Callable[[], float]) -> None:
        self._database, self._clock = database, clock
        self._seen: dict[int, int] = {}
        self._announced: dict[str, float] = {}  # when what each message about an alarm tells was
        self._quarantined: set[str] | None = None  # None before the first poll

    def poll(self) -> Iterator[Message]:
        """Yield what is new; at first, what happened within a day."""
        found, now = registry.survey_changed(self._database, self._seen), self._clock()
        self._seen = found.digests
        self._announced = {id: at for id, at in self._announced.items() if now - at <= DAY}
        for stream in found.changed:
            for level in list_levels(stream):
                yield from self._follow_alarm(stream, level, now)
        before, after = self._quarantined or set(), set(found.quarantined)
        self._quarantined = after
        for name in sorted(after - before):
            data = {"stream": name, "reason": found.quarantined[name]}
            yield Message(_make_id("quarantined", name, now), "stream.quarantined", now, data)
        for name in sorted(before - after):
            yield Message(_make_id("released", name, now), "stream.released", now, {"stream": name})

    def _follow_alarm(self, stream: Stream, level: Level, now: float) -> Iterator[Message]:
        last = level.alarmed
        if last is None:
            return
        shown = to_jsonable_python(show_alarm(last))
        data = {"stream": stream.name, "alpha": level.setup.learner.alpha, **shown}
        for kind, at in (("alarm.raised", last.raised_at), ("alarm.cleared", last.cleared_at)):
            id = _make_id(kind, stream.name, stream.created, last.raised, last.level)
            if at is not None and now - at <= DAY and id not in self._announced:
                self._announced[id] = at
                yield Message(id, kind, at, data)


def _make_id(*parts: object) -> str:
    return f"msg_{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]}"
