"""A predictor on paper: everything it knows, as bytes and back, checked to fit together."""

import warnings
from collections import OrderedDict
from dataclasses import asdict, dataclass
from typing import Any, Generic

import numpy as np

from keyhole import learners, scores, snapshot
from keyhole.errors import SnapshotError
from keyhole.grid import Array
from keyhole.learners import Learner
from keyhole.rounds import R, Round, Tally
from keyhole.scores import Score


@dataclass(frozen=True)
class Contents(Generic[R]):
    """What a predictor is made with, and what it has become."""

    learner: Learner
    score: Score[R]
    regime: str
    seed: int
    open_limit: int
    state: Any
    tally: Tally
    credit: float
    open: OrderedDict[int, Round[R]]


def packed(contents: Contents[R]) -> bytes:
    """Return the contents as bytes; floats keep every bit."""
    waiting = contents.open.values()
    header = {
        "learner": contents.learner.name,
        "parameters": asdict(contents.learner.parameters),  # type: ignore[call-overload]
        "score": contents.score.dump(),
        "regime": contents.regime,
        "seed": contents.seed,
        "open_limit": contents.open_limit,
        "tally": asdict(contents.tally),
        "credit": contents.credit,
        "open": [[w.prediction.id, w.prediction.threshold, w.case.dump()] for w in waiting],
    }
    arrays = {f"state.{key}": value for key, value in contents.state._asdict().items()}
    memos = np.array([w.memo for w in waiting]).reshape(len(waiting), contents.learner.memo().size)
    return snapshot.pack(header, {**arrays, "memos": memos})


def unpacked(content: bytes, *, score: Score[R] | None) -> Contents[R]:
    """Return what ``packed`` wrote, or raise ``SnapshotError``."""
    header, arrays = snapshot.unpack(content)
    try:
        return _fitted(header, arrays, score)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise SnapshotError(f"the snapshot lacks or mistypes {error}; restore a copy") from error


def _fitted(header: dict[str, Any], arrays: dict[str, Any], score: Score[R] | None) -> Contents[R]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It was said when the learner was made.
        learner = learners.rebuild(header["learner"], header["parameters"])
    kind: Any = scores.rebuild(header["score"]) if score is None else score
    state = learner.start()
    for name, values in state._asdict().items():
        values[...] = _like(values, arrays[f"state.{name}"], name)
    room = np.empty((len(header["open"]), learner.memo().size))
    memos = _like(room, arrays["memos"], "memos")
    waiting: OrderedDict[int, Round[R]] = OrderedDict()
    for (number, threshold, dumped), memo in zip(header["open"], memos, strict=True):
        case = kind.restore(dumped)
        waiting[number] = Round(case.region(number, threshold), case, memo.copy())
    return Contents(
        learner=learner,
        score=kind,
        regime=header["regime"],
        seed=header["seed"],
        open_limit=header["open_limit"],
        state=state,
        tally=Tally(**header["tally"]),
        credit=float(header["credit"]),
        open=waiting,
    )


def _like(expected: Array, found: Array, name: str) -> Array:
    """Return the array that was found if it may stand where the other one does, else raise."""
    if found.shape != expected.shape or found.dtype != expected.dtype or not np.isfinite(found).all():
        raise SnapshotError(f"the snapshot's {name} do not fit its learner; restore it from a copy")
    return found
