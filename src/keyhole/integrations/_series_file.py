"""The predictors of a table as bytes, and back: JSON, then the predictors one after the other."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from keyhole.errors import SnapshotError
from keyhole.integrations._series import Model
from keyhole.predictor.levels import LevelPredictor
from keyhole.predictor.predictor import Predictor

_PLAIN = (str, bool, int, float, type(None))


def pack_model(model: Model) -> tuple[dict[str, Any], bytes]:
    parts, seen = [one.dump() for one in model.predictors.values()], model.seen
    columns = [list(seen.slots), *(seen.pick(one) for one in seen.list_columns())]
    packed = {
        "predictors": [pack_value(name) for name in model.predictors],
        "sizes": [len(part) for part in parts],
        "series": [pack_value(one) for one in seen.series.values],
        "times": [pack_value(one) for one in seen.times.values],
        "rows": [[pack_value(one) for one in column] for column in columns],
        "open": [key for keys in seen.open.values() for key in keys],
        "pool": None if model.pool is None else model.pool.list_state(),
    }
    return packed, b"".join(parts)


def unpack_model(model: Model, packed: dict[str, Any], content: bytes) -> bytes:
    holder: Any = LevelPredictor if model.has_levels else Predictor
    for name, size in zip(packed["predictors"], packed["sizes"], strict=True):
        known = unpack_value(name)
        model.names.add(known)
        model.predictors[known] = holder.restore(content[:size])
        content = content[size:]
    seen = model.seen
    for codes, values in ((seen.series, packed["series"]), (seen.times, packed["times"])):
        for value in values:
            codes.add(unpack_value(value))
    keys, *columns = ([unpack_value(one) for one in column] for column in packed["rows"])
    seen.add(keys, [], [])
    for column, values in zip(seen.list_columns(), columns, strict=True):
        column[:] = values
    for series, time, cutoff, place in packed["open"]:
        seen.open.setdefault((series, time), []).append((series, time, cutoff, place))
    if model.pool is not None:
        model.pool.restore(packed["pool"])
    return content


def pack_value(value: object) -> Any:
    """Return a value of a table as what JSON holds: numbers and text plain, others by their kind."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [pack_value(one) for one in value]}
    if isinstance(value, (date, datetime)):
        return {"datetime" if isinstance(value, datetime) else "date": value.isoformat()}
    if isinstance(value, timedelta):
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    raise SnapshotError(
        f"{value!r} is a {type(value).__name__}, which is not saved; name series and times by text, "
        "numbers or dates"
    )


def unpack_value(packed: object) -> Any:
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    return _READERS[kind](content)


_READERS: dict[str, Callable[[Any], Any]] = {
    "list": lambda content: [unpack_value(one) for one in content],
    "tuple": lambda content: tuple(unpack_value(one) for one in content),
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "timedelta": lambda content: timedelta(*content),
}
