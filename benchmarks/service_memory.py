"""How much memory the service takes: over many rounds, and under attack by headers, bodies and readers.

    python benchmarks/service_memory.py [--rounds N]

Prints the resident memory of ``keyhole serve`` in megabytes, and exits with 1 where it grew by more
than 100 MB.
"""

import argparse
import contextlib
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import keyhole

MOST = 100.0
BATCH = 500
HEAD = (
    "POST /v1/streams/load/predictions HTTP/1.1\r\n"
    "Host: localhost\r\nContent-Type: application/json\r\n"
)


@contextlib.contextmanager
def serving() -> Iterator[tuple[int, int]]:
    """Give the port and the process of a service on an empty database."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "keyhole",
            "serve",
            "--open",
            "--port",
            "0",
            "--rate",
            "1000000",
        ]
        options = ["--log", "warning", "--database", f"sqlite:///{Path(folder) / 'keyhole.db'}"]
        process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        line = next(line for line in process.stderr if "listens on" in line)
        try:
            yield int(re.findall(r":(\d+)\s*$", line)[0]), process.pid
        finally:
            process.terminate()
            process.wait()
            process.stderr.close()


def read_memory(pid: int, name: str) -> float:
    """Return a line of the process's status in megabytes: VmRSS is now, VmHWM the most so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    return float(re.findall(rf"{name}:\s+(\d+) kB", status)[0]) / 1024.0


def play(client: keyhole.Client, rounds: int) -> None:
    """Predict and answer so many rounds in batches."""
    scores = {f"label {n}": 1.0 / (n + 2) for n in range(10)}
    for _ in range(rounds // BATCH):
        made = client.predict_batch("load", [scores] * BATCH)
        client.learn_batch([(one, keyhole.MISS) for one in made])


def say(port: int, content: bytes) -> None:
    """Send bytes and wait for the answer, or for the end of the connection."""
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port), timeout=20) as line,
    ):
        line.sendall(content)
        line.recv(65_536)


def attack_by_headers(port: int) -> None:
    """Send 1,000 tokens of 15 kB, and 100 headers of 1 MB."""
    for n in range(1000):
        token = f"{n}".zfill(15_000)
        say(port, f"{HEAD}Authorization: Bearer {token}\r\nContent-Length: 2\r\n\r\n{{}}".encode())
    for _ in range(100):
        say(port, f"{HEAD}X-Long: {'a' * 1_000_000}".encode())


def attack_by_bodies(port: int) -> None:
    """Send ten bodies of 7.8 MB, all of nested lists, and keep 120 connections with half a body."""
    nested = b'{"scores": ' + b"[" * 10 + b"],[".join([b""] * 2_600_000) + b"]" * 10 + b"}"
    for _ in range(10):
        say(port, f"{HEAD}Content-Length: {len(nested)}\r\n\r\n".encode() + nested)
    flat = json.dumps({"scores": [0.5] * 1_500_000}).encode()
    for _ in range(10):
        say(port, f"{HEAD}Content-Length: {len(flat)}\r\n\r\n".encode() + flat)
    with contextlib.ExitStack() as held:
        for _ in range(120):
            with contextlib.suppress(OSError):
                line = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
                line.sendall(f"{HEAD}Content-Length: 8000000\r\n\r\n".encode() + b" " * 4_000_000)


def attack_by_readers(port: int) -> None:
    """Ask 900 times for the largest file there is, and for events, and read none of it."""
    with contextlib.ExitStack() as held:
        for n in range(900):
            path = "/openapi.json" if n % 3 else "/v1/streams/load/events"
            with contextlib.suppress(OSError):
                line = held.enter_context(socket.socket())
                line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                line.settimeout(5)
                line.connect(("127.0.0.1", port))
                line.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        time.sleep(5)


ATTACKS = {
    "headers": attack_by_headers,
    "readers": attack_by_readers,
    "bodies": attack_by_bodies,
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=50_000)
    options = parser.parse_args()
    grown = []
    with serving() as (port, pid), keyhole.Client(f"http://127.0.0.1:{port}") as client:
        client.create_stream("load", alpha=0.1, seed=7)
        play(client, 5 * BATCH)
        first = read_memory(pid, "VmRSS")
        print(f"{first:6.0f} MB after {5 * BATCH:,} rounds")
        for done in range(1, 6):
            play(client, options.rounds // 5)
            now = read_memory(pid, "VmRSS")
            print(f"{now:6.0f} MB after {done * options.rounds // 5:,} more")
        grown.append(now - first)
        for name, attack in ATTACKS.items():
            before = read_memory(pid, "VmRSS")
            attack(port)
            most = read_memory(pid, "VmHWM")
            print(f"{most:6.0f} MB at most under the attack by {name}, from {before:.0f} MB")
            grown.append(most - before)
        assert client.stream("load").rounds >= options.rounds
    return int(max(grown) > MOST)


if __name__ == "__main__":
    sys.exit(main())
