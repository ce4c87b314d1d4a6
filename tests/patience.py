"""How long a test waits before it gives up, on a machine that may stand still for seconds."""

SECONDS = 60.0  # Nothing is expected to take a tenth of it.
