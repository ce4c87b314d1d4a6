"""History with its labels, played before the first round."""

import copy
from collections.abc import Sequence
from typing import Any

from keyhole.errors import FeedbackError, InvalidError
from keyhole.numeric import Array
from keyhole.predictor.draws import make_draws
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import R, Round, propose, read_answer, settle
from keyhole.predictor.setup import Setup
from keyhole.predictor.tally import Tally

_CALIBRATION = 3  # the kind of draws that are no round's


def calibrate(
    setup: Setup[R],
    progress: Progress,
    outputs: Sequence[Any],
    labels: Sequence[Any],
    *,
    contexts: Sequence[Array],
) -> None:
    """Teach the progress this history; the tally stays clean but for what was calibrated."""
    if progress.tally.predicted:
        raise InvalidError("history comes before the first round; make a new predictor for it")
    if len(outputs) != len(labels):
        raise FeedbackError(f"{len(labels)} labels came for {len(outputs)} outputs; give one for each")
    learner, kept = setup.learner, progress.tally
    played = Progress(
        copy.deepcopy(progress.state), Tally.start(learner.groups), copy.deepcopy(progress.scale)
    )
    draws = [0.5] * len(outputs)
    if learner.rule.draws:
        draws = make_draws(setup.seed, kept.calibrated, len(outputs), kind=_CALIBRATION).tolist()
    for output, label, draw, known in zip(outputs, labels, draws, contexts, strict=True):
        case = played.read(setup.score, output)
        opened: Round[R] = propose(learner, played, case, draw=draw, context=known)
        played.tally.predicted += 1
        settle(learner, played, opened, read_answer(learner, opened, label=label))
    excess = played.tally.misses - learner.alpha * len(outputs)
    tally = Tally.start(learner.groups)
    tally.calibrated = kept.calibrated + len(outputs)
    tally.calibrated_excess = kept.calibrated_excess + excess
    progress.state, progress.tally, progress.scale = played.state, tally, played.scale
