"""A script in a process of its own, compiled or interpreted: what it writes, byte for byte."""

import os
import subprocess
import sys


def play_script(script: str, *, compiled: bool) -> bytes:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "0" if compiled else "1"}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=environment, capture_output=True, check=True).stdout  # noqa: S603
