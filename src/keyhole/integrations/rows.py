"""Rounds as rows of a table: a key as text, a column as a model's output, a set as columns."""

import json
from collections.abc import Sequence
from typing import Any

from keyhole.keyed import Fold, Output
from keyhole.predictor.predictor import Predictor
from keyhole.scores import Interval, LabelSet, Region

KNOWN = ("features", "groups")


def name_key(key: Sequence[object]) -> str:
    """Return the text that stands for a key: a column's own, or of several a JSON list."""
    return str(key[0]) if len(key) == 1 else json.dumps([str(part) for part in key])


def read_output(output: object) -> object:
    """Return a model's output as a score kind takes it: a map comes from Spark as its pairs."""
    if isinstance(output, list) and output and isinstance(output[0], tuple):
        return dict(output)
    return output


def read_index(label: Any) -> Any:
    """Return a label as the index of a score if it is one; others stay, to be refused by name."""
    try:
        index = int(label)
    except (TypeError, ValueError, OverflowError):
        return label
    return index if isinstance(label, str) or index == label else label


def read_known(names: Sequence[str], values: Sequence[object]) -> dict[str, Any]:
    """Return what is known of a case, by name; further values, and nulls, are left out."""
    known = zip(names, values, strict=False)
    return {name: read_output(value) for name, value in known if value is not None}


def write_output(one: Output) -> tuple[object, ...]:
    """Return an output as the columns after the key."""
    region = one.region
    shown = (None, None, None, None) if region is None else (region.threshold, *show_region(region))
    return one.id, one.kind.value, one.number, *shown, one.miss, one.note


def show_region(region: Region) -> tuple[list[str] | None, float | None, float | None]:
    """Return the labels of a set as text, or the ends of an interval."""
    if isinstance(region, Interval):
        return None, region.lower, region.upper
    assert isinstance(region, LabelSet)  # noqa: S101 - for the type checker
    return [str(label) for label in region.labels], None, None


def play_group(
    fold: Fold, name: Sequence[object], group: Any, *, columns: list[str], indexed: bool
) -> Any:
    """Return the rounds of one key, a pandas table, as a table of these columns."""
    setup = fold.setup
    predictor: Predictor[Any] = Predictor(
        setup.learner,
        features=setup.names.features or None,
        groups=setup.names.groups or None,
        score=setup.score,
        feedback=setup.feedback,
        seed=fold.seed_of(name_key(name)),
    )
    ordered = group.sort_values("at", kind="stable")
    names = [name for name in KNOWN if name in ordered]
    rows = []
    for at, output, label, *values in ordered[["at", "output", "label", *names]].itertuples(
        index=False
    ):
        region = predictor.predict(read_output(output), **read_known(names, values))
        miss = None
        if label is not None and label == label:  # NaN is pandas' null
            truth = read_index(label) if indexed else label
            predictor.learn(region, label=truth)
            miss = float(truth not in region)
        else:
            predictor.skip(region)
        rows.append((*name, at, region.threshold, *show_region(region), miss, region.size))
    return type(group)(rows, columns=columns)
