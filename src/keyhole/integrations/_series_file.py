"""The predictors of a table as bytes, and back: JSON, then the predictors one after the other."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from keyhole.errors import SnapshotError
from keyhole.integrations._series import Kept, Model
from keyhole.integrations._table import Key
from keyhole.predictor.levels import LevelPredictor
from keyhole.predictor.predictor import Predictor
from keyhole.scores import Interval, LabelSet, Region

_PLAIN = (str, bool, int, float, type(None))


def pack_model(model: Model) -> tuple[dict[str, Any], bytes]:
    """Return a model as what JSON holds, and the bytes of its predictors."""
    parts = [one.dump() for one in model.predictors.values()]
    places = {name: place for place, name in enumerate(model.predictors)}
    packed = {
        "predictors": [pack_value(name) for name in model.predictors],
        "sizes": [len(part) for part in parts],
        "rows": [_pack_row(key, kept, places) for key, kept in model.rows.items()],
        "open": [pack_value(tuple(key)) for keys in model.open.values() for key in keys],
        "pool": None if model.pool is None else pack_value(model.pool.list_state()),
    }
    return packed, b"".join(parts)


def unpack_model(model: Model, packed: dict[str, Any], content: bytes) -> bytes:
    """Fill a new model with what was packed; return the content after it."""
    holder: Any = LevelPredictor if model.has_levels else Predictor
    names = [unpack_value(name) for name in packed["predictors"]]
    for name, size in zip(names, packed["sizes"], strict=True):
        model.predictors[name] = holder.restore(content[:size])
        content = content[size:]
    for key, place, output, number, shown, truth in packed["rows"]:
        model.rows[Key(*unpack_value(key))] = Kept(
            names[place],
            unpack_value(output),
            number,
            tuple(_unpack_region(one) for one in shown),
            unpack_value(truth),
        )
    for one in packed["open"]:
        key = Key(*unpack_value(one))
        model.open[key.series, key.time].append(key)
    if model.pool is not None:
        model.pool.restore(unpack_value(packed["pool"]))
    return content


def _pack_row(key: Key, kept: Kept, places: dict[Any, int]) -> list[Any]:
    return [
        pack_value(tuple(key)),
        places[kept.predictor],
        pack_value(kept.output),
        kept.number,
        [_pack_region(one) for one in kept.shown],
        pack_value(kept.truth),
    ]


def _pack_region(region: Region) -> list[Any]:
    if isinstance(region, Interval):
        return [region.id, region.threshold, region.lower, region.upper]
    return [region.id, region.threshold, [pack_value(label) for label in region.labels]]


def _unpack_region(packed: list[Any]) -> Region:
    if len(packed) == 4:
        return Interval(*packed)
    number, threshold, labels = packed
    return LabelSet(number, threshold, tuple(unpack_value(label) for label in labels))


def pack_value(value: Any) -> Any:
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


def unpack_value(packed: Any) -> Any:
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
