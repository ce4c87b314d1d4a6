"""How much one request, and one client, may ask of the service."""

import math
from dataclasses import dataclass

from keyhole.errors import InvalidError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request, and one client, may ask of the service.

    Parameters
    ----------
    body_bytes, elements, batch_elements, depth
        Of a body: its length, the JSON values in it, those in a batch, and how deep they are nested.
    bodies_bytes
        What all bodies longer than a small one may take together while their requests are at work.
    head_bytes
        Of a request's line and headers.
    requests_per_second
        From one token, or from one address without one; a second's worth may come at once.
    waiting
        Requests that may wait for one stream.
    connections, address_connections
        That may be open, from everywhere and from one address; a proxy is one address. One more takes
        the place of the oldest that has nothing to do; where all are at work it is for probes alone.
    head_seconds, body_seconds, idle_seconds
        That a connection may take for a head, for a body, and for nothing.
    unread_seconds
        How long a response may wait for somebody who does not read it.
    """

    body_bytes: int = 8_000_000
    elements: int = 25_000
    batch_elements: int = 250_000
    depth: int = 16
    bodies_bytes: int = 32_000_000
    head_bytes: int = 16_384
    requests_per_second: float = 2_000.0
    waiting: int = 64
    connections: int = 1000
    address_connections: int = 500
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    idle_seconds: int = 5
    unread_seconds: float = 30.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if math.isnan(value) or value < (0 if name.endswith("_seconds") else 1):
                raise InvalidError(f"{name} {value} is not a limit; give at least 1")
