"""Finished tables with a key, in pandas, polars or Arrow, or from SQL (extras ``frames, parquet``).

``backtest`` plays every key by itself, at the speed of ``keyhole.keyed``, and ``evaluate`` says how
that has fared, by key or overall. Of ``keyhole.integrations.spark`` both do the same on Spark.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from keyhole.errors import MissingExtraError
from keyhole.learners import Learner
from keyhole.predictor.progress import Progress
from keyhole.scores import Probabilities, Score

try:
    import narwhals as nw
    import pyarrow as pa
except ImportError:
    raise MissingExtraError(
        "tables need narwhals and pyarrow; pip install 'keyhole-conformal[frames,parquet]'"
    ) from None

from keyhole.integrations._arrow import make_row_fold, name_key, play_table
from keyhole.integrations._cases import list_names
from keyhole.integrations._forecasts import make_column, read_table
from keyhole.keyed.columns import KNOWN

__all__ = ["backtest", "evaluate"]


def backtest(
    table: object,
    *,
    key: str | Sequence[str],
    output: str | Sequence[str] = "output",
    label: str = "label",
    time: str = "at",
    learner: str | Learner | None = None,
    alpha: float | None = None,
    features: int | Iterable[str] | None = None,
    groups: int | Iterable[str] | None = None,
    score: Score[Any] | None = None,
    feedback: str = "semi-bandit",
    seed: int = 0,
    start: Progress | None = None,
) -> Any:
    """Return a table with what its rows would have been shown, each answered before the key's next.

    Rounds of a ``key``, a column or several, are in the order of ``time``. The ``output`` is the column
    of the model's: lists of scores, or forecasts; or the columns of the labels' probabilities, named as
    the labels are. The ``label`` is null where the truth is not known. The other parameters are those
    of ``keyhole.keyed.make_fold``; ``features`` and ``groups`` of a row are lists, in columns of these
    names. A DuckDB relation is a table, too.

    The table that is returned has the columns ``threshold``, ``labels`` or ``lower`` and ``upper``,
    ``size``, and ``miss``, which is 1 or 0, or null where the truth is.

    Examples
    --------
    >>> import polars
    >>> table = polars.DataFrame(
    ...     {"shop": ["a", "b", "a"], "at": [1, 2, 3], "output": [[0.7, 0.3]] * 3, "label": [0, 0, 1]}
    ... )
    >>> backtest(table, key="shop", alpha=0.1)["labels"].to_list()
    [['0'], ['0'], ['0']]
    """
    if score is None and not isinstance(output, str):
        score = Probabilities(labels=list(output))
    fold = make_row_fold(
        learner, alpha=alpha, features=features, groups=groups, score=score, feedback=feedback,
        seed=seed, start=start,
    )  # fmt: skip
    frame, rounds = _read_rounds(table, list_names(key), time, output, label)
    played = play_table(fold, rounds)
    if frame.implementation.is_polars():  # It takes Arrow's columns as they are.
        added = [*nw.from_arrow(played, backend=frame.implementation).iter_columns()]
    else:
        added = [make_column(frame, *one) for one in played.to_pydict().items()]
    return frame.with_columns(*added).to_native()


def _read_rounds(
    table: object, keys: list[str], time: str, output: str | Sequence[str], label: str
) -> tuple[Any, Any]:
    outputs = list_names(output)
    frame = _read(table, [*keys, time, *outputs, label])
    rows = frame.select(*outputs)
    columns = {
        "key": [name_key(row) for row in frame.select(*keys).iter_rows()],
        "at": frame[time].to_arrow(),
        "output": frame[output].to_arrow() if isinstance(output, str) else list(rows.iter_rows()),
        "label": frame[label].to_arrow(),
    }
    columns |= {name: frame[name].to_arrow() for name in KNOWN if name in frame.columns}
    return frame, pa.table(columns)


def evaluate(table: object, *, by: str | Sequence[str] = ()) -> Any:
    """Return how the sets of ``backtest`` have fared, overall or by columns such as the key's.

    The result has ``rounds``, ``answered``, ``miss_rate`` of those answered, ``size``, the mean of the
    bounded sets, and ``unbounded``, the share of those that are not.

    Examples
    --------
    >>> import polars
    >>> table = polars.DataFrame(
    ...     {"shop": ["a", "b", "a"], "at": [1, 2, 3], "output": [[0.7, 0.3]] * 3, "label": [0, 0, 1]}
    ... )
    >>> evaluate(backtest(table, key="shop", alpha=0.1), by="shop")["miss_rate"].to_list()
    [0.5, 0.0]
    """
    names = list_names(by)
    frame = _read(table, [*names, "miss", "size"])
    size = nw.col("size")
    frame = frame.with_columns(
        unbounded=(size == float("inf")).cast(nw.Float64()),
        size=nw.when(size < float("inf")).then(size),
    )
    figures = {
        "rounds": nw.len(),
        "answered": nw.col("miss").count(),
        "miss_rate": nw.col("miss").mean(),
        "size": size.mean(),
        "unbounded": nw.col("unbounded").mean(),
    }
    if not names:
        return frame.select(**figures).to_native()
    return frame.group_by(*names).agg(**figures).sort(*names).to_native()


def _read(table: object, names: list[str]) -> Any:
    if hasattr(table, "to_arrow_table"):  # DuckDB's relations are lazy
        table = table.to_arrow_table()
    return read_table(table, names)
