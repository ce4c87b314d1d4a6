"""What installed packages add to Keyhole's tables by their entry points."""

from collections.abc import Callable
from typing import Any

from keyhole.errors import KeyholeWarning, warn_user


def add_entry_points(group: str, noun: str, add: Callable[[Any], None]) -> None:
    """Add what the packages declare in a group; of what cannot be added, warn."""
    from importlib.metadata import entry_points  # slower to import than all of Keyhole

    for point in entry_points(group=group):
        try:
            add(point.load())
        except Exception as error:  # noqa: BLE001 - one broken package must not hide the others.
            warn_user(
                f"the {noun} {point.name!r} of {point.value!r} cannot be used: {error}; mend or "
                "remove the package that brings it",
                KeyholeWarning,
            )
