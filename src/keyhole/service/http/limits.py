"""How much one request, and one client, may ask of the service."""

import math
from dataclasses import dataclass

from keyhole.errors import InvalidError


@dataclass(frozen=True, kw_only=True)
class Limits:
    body_bytes: int = 8_000_000
    elements: int = 25_000  # JSON values in a body
    batch_elements: int = 250_000  # and in that of a batch
    depth: int = 16  # how deep they are nested
    bodies_bytes: int = 32_000_000  # of all bodies longer than a small one whose requests are at work
    head_bytes: int = 16_384  # of a request's line and headers
    requests_per_second: float = 2_000.0  # from one token, or one address without; as many at once
    waiting: int = 64  # requests for one stream
    # Open ones; a proxy is one address. One more takes the place of the oldest that has nothing to do;
    # where all are at work it is for probes alone.
    connections: int = 1000
    address_connections: int = 500
    # How long a connection may take for a head, for a body, and for nothing.
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    idle_seconds: int = 5
    unread_seconds: float = 30.0  # how long a response waits for somebody who does not read it

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if math.isnan(value) or value < (0 if name.endswith("_seconds") else 1):
                raise InvalidError(f"{name} {value} is not a limit; give at least 1")
