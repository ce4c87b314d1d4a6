"""A receiver of webhooks on this machine, which answers as a test wants it to."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Mailbox:
    """What came, with headers and body; ``statuses`` are what the next ones are answered."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    came: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    @property
    def told(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.came]

    def list_types(self) -> list[str]:
        return [one["type"] for one in self.told]


@contextmanager
def receiving(port: int = 0) -> Iterator[Mailbox]:
    """Receive until the block is left."""
    mailbox = Mailbox()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = mailbox.statuses.pop(0) if mailbox.statuses else 204
            if status < 300:
                mailbox.came.append(({key.lower(): one for key, one in self.headers.items()}, body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_given: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    mailbox.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield mailbox
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
