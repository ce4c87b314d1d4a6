"""Rounds as rows of a table: who plays them, a key as text, a label as an index."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from keyhole.errors import InvalidError
from keyhole.keyed import Fold, make_fold
from keyhole.learners import DEFAULT, Learner, find
from keyhole.learners.rule import FOR_SETS

KNOWN = ("features", "groups")


def make_row_fold(learner: str | Learner | None, *, alpha: Any, **parameters: Any) -> Fold:
    """Return the fold of a table's rounds, or raise if its rows would not tell what it shows."""
    if isinstance(alpha, Iterable):
        raise InvalidError(
            "a row has one set or interval, and several alphas give several; run one of each",
            field="alpha",
        )
    rule = learner.rule if isinstance(learner, Learner) else find(learner or DEFAULT)
    if rule.kind != FOR_SETS:
        raise InvalidError(
            f"{rule.name} decides, and these rows have sets or intervals; play it by key with "
            "keyhole.keyed.make_fold, or streams on Spark or Bytewax",
            field="learner",
        )
    return make_fold(learner, alpha=alpha, **parameters)


def list_names(columns: str | Sequence[str]) -> list[str]:
    """Return the names of columns that are given as one or as several."""
    return [columns] if isinstance(columns, str) else list(columns)


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
