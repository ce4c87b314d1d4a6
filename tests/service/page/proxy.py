"""What may stand before a service: something that passes on, answers 502 itself, or stands still."""

import http.client
import threading
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

from tests.patience import SECONDS


class Proxy:
    """A proxy before a service, in a thread of this process; ``mood`` is what it does."""

    def __init__(self, url: str) -> None:
        self.mood, self.wakes = "pass", threading.Event()
        target, proxy = urlsplit(url).netloc, self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                if proxy.mood == "frozen":
                    proxy.wakes.wait(2 * SECONDS)
                if proxy.mood == "502":
                    self._answer(502, [("Content-Type", "text/html")], b"<h1>Bad Gateway</h1>")
                else:
                    self._pass_on()

            def _pass_on(self) -> None:
                kept = {name: value for name, value in self.headers.items() if name != "Host"}
                with closing(http.client.HTTPConnection(target, timeout=SECONDS)) as line:
                    line.request(self.command, self.path, headers={**kept, "Host": target})
                    found = line.getresponse()
                    body = found.read()
                names = ("content-type", "content-encoding")
                heads = [(name, value) for name, value in found.getheaders() if name in names]
                with suppress(OSError):  # Who was kept waiting may have gone.
                    self._answer(found.status, heads, body)

            def _answer(self, status: int, heads: list[tuple[str, str]], body: bytes) -> None:
                self.send_response(status)
                for name, value in [*heads, ("Content-Length", str(len(body)))]:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = handle_any  # noqa: N815

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.wakes.set()
        self._server.shutdown()
        self._thread.join(SECONDS)
        self._server.server_close()
