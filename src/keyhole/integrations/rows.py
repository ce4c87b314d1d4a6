"""Rounds as rows of a table: a key as text, a label as an index."""

import json
from collections.abc import Sequence
from typing import Any

KNOWN = ("features", "groups")


def name_key(key: Sequence[object]) -> str:
    """Return the text that stands for a key: a column's own, or of several a JSON list."""
    if len(key) == 1:
        return str(key[0])
    return json.dumps([str(part) for part in key], ensure_ascii=False, separators=(",", ":"))


def read_index(label: Any) -> Any:
    """Return a label as the index of a score if it is one; others stay, to be refused by name."""
    try:
        index = int(label)
    except (TypeError, ValueError, OverflowError):
        return label
    return index if isinstance(label, str) or index == label else label
