"""What each kind of event does to where a key stands."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any
from zlib import crc32

from keyhole.errors import InvalidError, KeyholeError, SnapshotError
from keyhole.keyed.events import Answered, Asked, Elapsed, Kind, Output, Outputs, Skipped
from keyhole.predictor import compact_rounds
from keyhole.predictor.compact import MARK, Standing
from keyhole.predictor.compact_rounds import NEVER, Waiting
from keyhole.predictor.context import NOTHING_KNOWN, read_context
from keyhole.predictor.draws import Draws
from keyhole.predictor.rounds import Round, propose, read_answer, recall_round, settle

if TYPE_CHECKING:
    from keyhole.keyed.fold import Fold

_SHOWN, _COUNTED, _REFUSED = Kind.SHOWN, Kind.COUNTED, Kind.REFUSED  # quicker than members


@lru_cache(maxsize=4096)
def _draws_of(seed: int) -> Draws:
    return Draws(seed)


def _ask(fold: "Fold", key: str, here: Standing, event: Asked, said: Outputs) -> None:
    setup, learner = fold.setup, fold.setup.learner
    if _is_repeated(fold, here, event.id, said):
        return
    due = NEVER if fold.lifetime is None else event.at + fold.lifetime
    if due <= here.clock:
        said.append(Output(_REFUSED, event.id, note="asked too late: its lifetime is over already"))
        return
    try:
        case = here.progress.read(setup.score, event.output)
        context = NOTHING_KNOWN
        if learner.context or event.features is not None or event.groups != ():
            context = read_context(setup, event.features, event.groups)
        output, labels = case.pack()
    except KeyholeError as error:
        said.append(Output(_REFUSED, event.id, note=str(error)))
        return
    _advance(fold, here, event.at, said)
    tally = here.progress.tally
    draw = _draws_of(fold.seed_of(key)).of(tally.predicted) if learner.rule.draws else 0.5
    opened: Round[Any] = propose(learner, here.progress, case, draw=draw, context=context)
    shown = opened.prediction
    memo = learner.pack_memo(opened.memo) if learner.memory else b""
    here.waiting += compact_rounds.pack_round(
        opened, event.id, due=due, memo=memo, case=output, labels=labels
    )
    here.open += 1
    here.recent[event.id] = opened._replace(groups=()) if opened.groups else opened
    if due < here.earliest:
        here.earliest = due
    tally.predicted += 1
    said.append(Output(_SHOWN, event.id, shown.id, shown))
    if here.open > setup.open_limit:
        oldest = compact_rounds.find_oldest(here.waiting, memory=learner.memory)
        _close(fold, here, oldest.id, oldest)
        here.progress.tally.expired += 1
        said.append(Output(Kind.EXPIRED, oldest.id, oldest.number, note="too many rounds are open"))


def _answer(fold: "Fold", key: str, here: Standing, event: Answered, said: Outputs) -> None:
    _advance(fold, here, event.at, said)
    opened = here.recent.get(event.id)
    waiting = None
    if opened is None or here.open > 1:
        waiting = _find(fold, here, event.id, said)
        if waiting is None:
            return
        opened = opened or _recall(fold, waiting)
    learner, number = fold.setup.learner, opened.prediction.id
    try:
        outcome = read_answer(
            learner,
            opened,
            event.answer,
            label=event.label,
            score=event.score,
            loss=event.loss,
            chance=event.chance,
            wrong=event.wrong,
            seed=0 if event.chance == 1.0 else fold.seed_of(key),
        )
        settle(learner, here.progress, opened, outcome)
    except KeyholeError as error:
        said.append(Output(_REFUSED, event.id, number, note=str(error)))
        return
    _close(fold, here, event.id, waiting)
    said.append(Output(_COUNTED, event.id, number, None, outcome.miss))


def _recall(fold: "Fold", waiting: Waiting) -> Round[Any]:
    """Return the open round that was read from bytes."""
    try:
        memo = fold.setup.learner.unpack_memo(waiting.memo)
    except InvalidError as error:
        raise SnapshotError(f"{error}; restore the key's state from a copy") from None
    return recall_round(fold.setup.score, waiting, memo=memo)


def _skip(fold: "Fold", key: str, here: Standing, event: Skipped, said: Outputs) -> None:  # noqa: ARG001
    _advance(fold, here, event.at, said)
    waiting = _find(fold, here, event.id, said)
    if waiting is not None:
        _close(fold, here, waiting.id, waiting)
        here.progress.tally.expired += 1
        said.append(Output(Kind.SKIPPED, event.id, waiting.number))


def _elapse(fold: "Fold", key: str, here: Standing, event: Elapsed, said: Outputs) -> None:  # noqa: ARG001
    _advance(fold, here, event.at, said)


STEPS: dict[type, Any] = {Asked: _ask, Answered: _answer, Skipped: _skip, Elapsed: _elapse}


def _advance(fold: "Fold", here: Standing, at: int, said: Outputs) -> None:
    """Let it be at least this late for the key; rounds whose time is over expire."""
    if at > here.clock:
        here.clock = at
    if here.earliest > here.clock:
        return
    memory = fold.setup.learner.memory
    over, here.waiting, here.earliest = compact_rounds.split_due(
        here.waiting, here.clock, memory=memory
    )
    here.open -= len(over)
    here.progress.tally.expired += len(over)
    for waiting in over:
        here.recent.pop(waiting.id, None)
        _remember(fold, here, waiting.id)
        said.append(Output(Kind.EXPIRED, waiting.id, waiting.number, note="its lifetime is over"))


def _is_repeated(fold: "Fold", here: Standing, id: str, said: Outputs) -> bool:  # noqa: A002
    """Return whether an ask is a replay, as far as the key remembers; if so, it is said."""
    if here.open:
        waiting = compact_rounds.find_round(here.waiting, id, memory=fold.setup.learner.memory)
        if waiting is not None:
            case = fold.setup.score.unpack(waiting.output, waiting.labels)
            shown = case.region(waiting.number, waiting.threshold)
            said.append(Output(Kind.REPEATED, id, waiting.number, shown))
            return True
    return _is_remembered(here, id, said)


def _find(fold: "Fold", here: Standing, id: str, said: Outputs) -> Waiting | None:  # noqa: A002
    """Return the open round of an id; if there is none, that is said."""
    waiting = compact_rounds.find_round(here.waiting, id, memory=fold.setup.learner.memory)
    if waiting is None and not _is_remembered(here, id, said):
        said.append(Output(_REFUSED, id, note="no round of this id is open, nor was lately"))
    return waiting


def _close(fold: "Fold", here: Standing, id: str, waiting: Waiting | None) -> None:  # noqa: A002
    """Take a round from the open ones, and remember that it was there; the only one needs no place."""
    here.open -= 1
    here.recent.pop(id, None)
    if here.open and waiting is not None:
        here.waiting = here.waiting[: waiting.start] + here.waiting[waiting.end :]
        if waiting.due == here.earliest != NEVER:
            here.earliest = compact_rounds.find_earliest(here.waiting)
    else:
        here.waiting, here.earliest = b"", NEVER
    _remember(fold, here, id)


def _remember(fold: "Fold", here: Standing, id: str) -> None:  # noqa: A002
    here.packed = None
    if fold.recall:
        here.marks = (here.marks + _mark(id))[-MARK * fold.recall :]


def _is_remembered(here: Standing, id: str, said: Outputs) -> bool:  # noqa: A002
    """Return whether the round of an id was closed lately; if so, it is said."""
    mark, marks = _mark(id), here.marks
    if mark not in marks or all(
        marks.find(mark, at, at + MARK) < 0 for at in range(0, len(marks), MARK)
    ):
        return False
    said.append(Output(Kind.REPEATED, id, note="this round is closed"))
    return True


def _mark(id: str) -> bytes:  # noqa: A002
    return crc32(id.encode()).to_bytes(MARK, "little")
