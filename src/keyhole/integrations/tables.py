"""Finished tables with a key, in pandas, polars or Arrow, or from SQL (extras ``frames, parquet``).

``backtest`` plays every key by itself, at the speed of ``keyhole.keyed``, and ``evaluate`` says how
that has fared, by key or overall. Of ``keyhole.integrations.spark`` both do the same on Spark.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from keyhole.errors import MissingExtraError
from keyhole.keyed import make_fold
from keyhole.learners import Learner
from keyhole.predictor.progress import Progress
from keyhole.scores import Probabilities, Score, find_labels

try:
    import narwhals as nw
    import pyarrow as pa
except ImportError:
    raise MissingExtraError(
        "tables need narwhals and pyarrow; pip install 'keyhole-conformal[frames,parquet]'"
    ) from None

from keyhole.integrations._columns import PLAYED, play_table
from keyhole.integrations._table import read_table
from keyhole.integrations.rows import KNOWN, name_key

__all__ = ["backtest", "evaluate"]


def backtest(
    table: Any,
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

    Parameters
    ----------
    table
        A table in memory, or a DuckDB relation.
    key
        The column or columns that tell streams apart; each key has its own rounds.
    output
        The column of the model's output: lists of scores, or forecasts. Or the columns of the labels'
        probabilities, named as the labels are.
    label
        The column of the truth, null where it is not known.
    time
        The column by which a key's rounds are ordered.
    learner, alpha, features, groups, score, feedback, seed, start
        As for ``keyhole.keyed.make_fold``. ``features`` and ``groups`` of a row are lists, in columns
        of these names.

    Returns
    -------
    The table with the columns ``threshold``, ``labels`` or ``lower`` and ``upper``, ``size``, and
    ``miss``, which is 1 or 0, or null where the truth is.

    Examples
    --------
    >>> import polars
    >>> table = polars.DataFrame(
    ...     {"shop": ["a", "b", "a"], "at": [1, 2, 3], "output": [[0.7, 0.3]] * 3, "label": [0, 0, 1]}
    ... )
    >>> backtest(table, key="shop", alpha=0.1)["labels"].to_list()
    [['0'], ['0'], ['0']]
    """
    named = not isinstance(output, str)
    if named and score is None:
        score = Probabilities(labels=list(output))
    fold = make_fold(
        learner,
        alpha=alpha,
        features=features,
        groups=groups,
        score=score,
        feedback=feedback,
        seed=seed,
        start=start,
    )
    keys = [key] if isinstance(key, str) else list(key)
    outputs = list(output) if named else [str(output)]
    frame = _read(table, [*keys, time, *outputs, label])
    columns: dict[str, Any] = {
        "key": [name_key(row) for row in frame.select(*keys).iter_rows()],
        "at": frame[time].to_arrow(),
        "output": list(frame.select(*outputs).iter_rows()) if named else frame[outputs[0]].to_arrow(),
        "label": frame[label].to_arrow(),
    }
    columns |= {name: frame[name].to_arrow() for name in KNOWN if name in frame.columns}
    indexed = pa.types.is_list(pa.array(columns["output"]).type) and not find_labels(fold.setup.score)
    played = play_table(fold, pa.table(columns), indexed=indexed).to_pydict()
    backend = frame.implementation
    added = [nw.new_series(name, played[name], backend=backend) for name in PLAYED.names]
    return frame.with_columns(*added).to_native()


def evaluate(table: Any, *, by: str | Sequence[str] = ()) -> Any:
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
    names = [by] if isinstance(by, str) else list(by)
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


def _read(table: Any, names: list[str]) -> Any:
    if hasattr(table, "to_arrow_table"):  # DuckDB's relations are lazy
        table = table.to_arrow_table()
    return read_table(table, names)
