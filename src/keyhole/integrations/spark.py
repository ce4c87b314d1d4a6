"""Streams by the million on Apache Spark: one value and one timer per key (extra ``spark``).

``streams`` runs the fold of ``keyhole.keyed`` as a Structured Streaming query: asks and answers in,
sets out, exactly once. ``backtest`` plays a finished table, every key by itself. Workers import this
module, so that Keyhole must be installed where they run.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from keyhole.errors import InvalidError, MissingExtraError
from keyhole.feedback import HIT, MISS
from keyhole.integrations.rows import (
    KNOWN,
    name_key,
    play_group,
    read_index,
    read_known,
    read_output,
    write_output,
)
from keyhole.keyed import Answered, Asked, Elapsed, Event, Fold, Kind, Skipped, make_fold
from keyhole.learners import Learner
from keyhole.predictor.progress import Progress
from keyhole.scores import Score, find_labels

try:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.streaming import StatefulProcessor
    from pyspark.sql.types import ArrayType, DoubleType, StructField, StructType
except ImportError:
    raise MissingExtraError(
        "Spark needs pyspark 4.1 or later; pip install 'keyhole-conformal[spark]'"
    ) from None

__all__ = ["backtest", "streams"]

WEEK = timedelta(days=7)
WRITTEN = (Kind.SHOWN, Kind.EXPIRED, Kind.REFUSED)
_ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ANSWERS = ("label", "hit", "score", "loss", "skipped")
_EPOCH, _NAIVE_EPOCH = datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1)
_MS = timedelta(milliseconds=1)
_STATE = "state BINARY, timer BIGINT"
_OUTPUT = (
    "id STRING, kind STRING, number BIGINT, threshold DOUBLE, labels ARRAY<STRING>, "
    "lower DOUBLE, upper DOUBLE, miss DOUBLE, note STRING"
)
_COLUMNS = tuple(column.split()[0] for column in _OUTPUT.split(", "))


class StreamsProcessor(StatefulProcessor):
    """The fold as a processor of Spark's: a key's state is one value, its next expiry one timer."""

    def __init__(
        self,
        fold: Fold,
        *,
        keys: Sequence[str],
        known: Sequence[str] = (),
        answers: Sequence[str] = ("label",),
        kinds: Iterable[Kind] = WRITTEN,
        indexed: bool = False,
    ) -> None:
        self._fold, self._kinds, self._indexed = fold, frozenset(kinds), indexed
        self._first, self._known, self._answers = len(keys), tuple(known), tuple(answers)
        self._columns = (*keys, *_COLUMNS)

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._value = handle.getValueState("keyhole", _STATE)
        self._row = Row(*self._columns)  # what makes rows of these names

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Yield the output of a batch of the key's rows, which come in no order."""
        events = [self._read_row(row) for row in rows]
        # At equal times asks come first, or their answers would find no round.
        events.sort(key=lambda event: (event.at or 0, not isinstance(event, Asked)))
        return self._fold_in(key, events, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
        """Yield what expires now that the watermark has passed the key's timer."""
        watermark = timerValues.getCurrentWatermarkInMs()
        return self._fold_in(key, [Elapsed(watermark)], watermark, fired=True)

    def close(self) -> None:
        pass

    def _fold_in(
        self, key: Any, events: list[Event], watermark: int, *, fired: bool = False
    ) -> Iterator[Any]:
        held = self._value.get()
        before, timer = (b"", 0) if held is None else (bytes(held[0]), held[1])
        state, outputs = self._fold.run(name_key(key), before, events)
        waiting = self._set_timer(self._fold.next_due(state), 0 if fired else timer, watermark)
        if state != before or waiting != timer:
            self._value.update((state, waiting))
        for one in outputs:
            if one.kind in self._kinds:
                yield self._row(*key, *write_output(one))

    def _set_timer(self, due: int | None, timer: int, watermark: int) -> int:
        """Have a timer at or before the next expiry, if there is one; return when it fires, or 0.

        One that fires too early costs less than moving it with every round.
        """
        if due is None or 0 < timer <= due:
            return timer
        if timer:
            self._handle.deleteTimer(timer)
        later = max(due, watermark + 1)
        self._handle.registerTimer(later)
        return later

    def _read_row(self, row: Any) -> Event:
        """Return the event of a row, which is an ask if it has an output.

        Columns are taken by position, as ``join_inputs`` orders them: by name each costs as much as
        the round.
        """
        id, at, output, *rest = row[self._first :]  # noqa: A001
        ms: Any = at  # None in a row without a time, which the fold refuses
        if at is not None:
            ms = (at - (_EPOCH if at.tzinfo else _NAIVE_EPOCH)) // _MS
        if output is not None:
            return Asked(id, read_output(output), at=ms, **read_known(self._known, rest))
        given = zip(self._answers, rest[len(self._known) :], strict=True)
        answer = {name: value for name, value in given if value is not None}
        if answer.pop("skipped", False):
            return Skipped(id, at=ms)
        hit, label = answer.pop("hit", None), answer.get("label")
        if label is not None:
            return Answered(id, label=read_index(label) if self._indexed else label, at=ms)
        if hit is not None:
            return Answered(id, HIT if hit else MISS, at=ms)
        return Answered(id, **answer, at=ms)


def streams(
    asks: DataFrame,
    answers: DataFrame,
    *,
    key: str | Sequence[str],
    learner: str | Learner | None = None,
    alpha: float | None = None,
    features: int | Iterable[str] | None = None,
    groups: int | Iterable[str] | None = None,
    score: Score[Any] | None = None,
    feedback: str = "semi-bandit",
    seed: int = 0,
    open_limit: int = 100,
    lifetime: timedelta = WEEK,
    delay: str = "10 minutes",
    recall: int = 2,
    start: Progress | None = None,
    kinds: Iterable[str] = WRITTEN,
) -> DataFrame:
    """Return the sets of a stream of asks, every key learning from its own answers.

    Parameters
    ----------
    asks
        Columns: the key's, ``id`` (text), ``at`` (timestamp), and ``output``: an array of scores, a
        map from labels to scores, or a number, as the score kind takes it. Where the learner takes
        them also ``features`` (an array, or a map from names) and ``groups`` (an array).
    answers
        Columns: the key's, ``id``, ``at``, and one or more of ``label``, ``hit`` (boolean), ``score``,
        ``loss`` and ``skipped`` (boolean): in every row the first that is there counts.
    key
        The column or columns that tell streams apart.
    learner, alpha, features, groups, score, feedback, seed, open_limit, recall, start
        As for ``keyhole.keyed.make_fold``.
    lifetime
        How long a round may wait for its answer, by the times in the rows.
    delay
        How late a row may come: Spark's watermark, set on both inputs.
    kinds
        The kinds of rows to write: "shown", "counted", "skipped", "expired", "repeated", "refused".

    Returns
    -------
    DataFrame
        The key's columns, ``id``, ``kind``, ``number``, ``threshold``, ``labels``, ``lower``,
        ``upper``, ``miss`` and ``note``. Write it in append mode.
    """
    fold = make_fold(
        learner,
        alpha=alpha,
        features=features,
        groups=groups,
        score=score,
        feedback=feedback,
        seed=seed,
        open_limit=open_limit,
        lifetime=lifetime // _MS,
        recall=recall,
        start=start,
    )
    keys = [key] if isinstance(key, str) else list(key)
    rows = join_inputs(asks, answers, keys=keys, delay=delay)
    conf = asks.sparkSession.conf
    if conf.get(_PROVIDER, "") != _ROCKS_DB:
        conf.set(_PROVIDER, _ROCKS_DB)  # the only provider that transformWithState works with
    output = StructType.fromDDL(_OUTPUT)
    return rows.groupBy(*keys).transformWithState(
        statefulProcessor=StreamsProcessor(
            fold,
            keys=keys,
            known=find_known(asks),
            answers=find_answers(answers),
            kinds=map(Kind, kinds),
            indexed=_has_indexes(asks, fold),
        ),
        outputStructType=StructType([*(asks.schema[name] for name in keys), *output.fields]),
        outputMode="append",
        timeMode="eventTime",
    )


def join_inputs(asks: DataFrame, answers: DataFrame, *, keys: list[str], delay: str) -> DataFrame:
    """Return asks and answers as one table of events, each input with its own watermark.

    Every further column costs every row, so that only those are there that answers have.
    """
    asking, answering = ["output", *find_known(asks)], find_answers(answers)
    common = [*keys, "id", "at"]
    asked = asks.withWatermark("at", delay).select(*common, *asking, *_leave_out(answers, answering))
    answered = answers.withWatermark("at", delay).select(*common, *_leave_out(asks, asking), *answering)
    return asked.unionByName(answered)


def _leave_out(table: DataFrame, names: list[str]) -> list[Any]:
    """Return empty columns of the types that a table has under these names."""
    return [F.lit(None).cast(table.schema[name].dataType).alias(name) for name in names]


def find_known(asks: DataFrame) -> list[str]:
    return [name for name in KNOWN if name in asks.columns]


def find_answers(answers: DataFrame) -> list[str]:
    """Return the columns by which answers answer, or raise if there are none."""
    known = [name for name in ANSWERS if name in answers.columns]
    if not known:
        raise InvalidError(f"answers have none of the columns {', '.join(ANSWERS)}; add one")
    return known


def backtest(
    table: DataFrame,
    *,
    key: str | Sequence[str],
    learner: str | Learner | None = None,
    alpha: float | None = None,
    features: int | Iterable[str] | None = None,
    groups: int | Iterable[str] | None = None,
    score: Score[Any] | None = None,
    feedback: str = "semi-bandit",
    seed: int = 0,
    start: Progress | None = None,
) -> DataFrame:
    """Return the sets of a finished table, every key played by itself, each round answered at once.

    The table has the key's columns, ``at`` by which rounds are ordered, ``output``, where the learner
    takes them ``features`` and ``groups``, and ``label``, null where no answer came. The result has
    ``threshold``, ``labels`` or ``lower`` and ``upper``, ``miss`` and ``size`` beside key and ``at``.
    """
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
    indexed = _has_indexes(table, fold)
    output = StructType.fromDDL(_OUTPUT)
    kept = [table.schema[name] for name in (*keys, "at")]
    shown = [output[name] for name in ("threshold", "labels", "lower", "upper", "miss")]
    schema = StructType([*kept, *shown, StructField("size", DoubleType())])

    def play(name: Any, group: Any) -> Any:
        return play_group(fold, name, group, columns=schema.names, indexed=indexed)

    return table.groupBy(*keys).applyInPandas(play, schema)


def _has_indexes(table: DataFrame, fold: Fold) -> bool:
    """Return whether labels are indexes into an array of scores."""
    is_array = isinstance(table.schema["output"].dataType, ArrayType)
    return is_array and not find_labels(fold.setup.score)
