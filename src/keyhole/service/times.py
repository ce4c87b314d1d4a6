"""Times as they leave the service, in responses, files and logs."""

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=1024)
def show_time(seconds: float) -> str:
    """Return a time in ISO form, in UTC."""
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="milliseconds")
