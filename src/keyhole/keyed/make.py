"""Folds from the parameters of a predictor, of one kind or another, of one level or several."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

from keyhole.errors import InvalidError
from keyhole.feedback import LEAST_CHANCE
from keyhole.keyed.fold import OPEN_LIMIT, RECALL, Fold, pack_start
from keyhole.keyed.levels import LevelFold
from keyhole.learners import Learner
from keyhole.predictor.kinds import choose_score
from keyhole.predictor.levels import read_alphas
from keyhole.predictor.progress import Progress
from keyhole.predictor.setup import make_setup
from keyhole.scores import Score


@overload
def make_fold(
    learner: str | Learner | None = ..., *, alpha: float | None = ..., **parameters: Any
) -> Fold: ...


@overload
def make_fold(learner: str | None = ..., *, alpha: Sequence[float], **parameters: Any) -> LevelFold: ...


def make_fold(  # type: ignore[misc]  # The parameters are all that there are.
    learner: str | Learner | None = None,
    *,
    alpha: float | Sequence[float] | None = None,
    horizon: int | None = None,
    arms: int | None = None,
    features: int | Iterable[str] | None = None,
    groups: int | Iterable[str] | None = None,
    score: Score[Any] | None = None,
    feedback: str | None = None,
    seed: int = 0,
    open_limit: int = OPEN_LIMIT,
    least_chance: float = LEAST_CHANCE,
    lifetime: int | None = None,
    recall: int = RECALL,
    start: Progress | Mapping[float, Progress] | None = None,
) -> Fold | LevelFold:
    """Return a fold; the parameters are a predictor's, and those of ``Fold``.

    With a rule that accepts or refers answers, every key decides; with several alphas, it is shown
    nested sets or intervals. The seed is 0 by default, because every worker must make the same draws.

    With ``start``, the progress of one in memory with the same parameters, every new key begins with
    what that has learnt, and a bound on a key's misses moves by the excess that it had; of several
    levels it is a mapping from each alpha. ``Fold.begin`` lets a key begin where its segment stands.

    Examples
    --------
    >>> from keyhole import Predictor
    >>> from keyhole.keyed import Asked
    >>> predictor = Predictor(alpha=0.1)
    >>> predictor.calibrate([[0.7, 0.2, 0.1]] * 100, ([0] * 8 + [1] * 2) * 10)
    >>> fold = make_fold(alpha=0.1, start=predictor.progress)
    >>> _, (shown,) = fold.step("anna", b"", Asked("r1", [0.6, 0.3, 0.1]))
    >>> shown.region.labels
    (0, 1)
    """

    def make(alpha: float | None, start: Any) -> Fold:
        setup = make_setup(
            learner, alpha=alpha, horizon=horizon, arms=arms, features=features, groups=groups,
            score=choose_score(learner) if score is None else score, feedback=feedback, seed=seed,
            open_limit=open_limit, least_chance=least_chance,
        )  # fmt: skip
        begin = b"" if start is None else pack_start(setup, start)
        return Fold(setup=setup, lifetime=lifetime, recall=recall, start=begin)

    if not isinstance(alpha, Iterable):
        return make(alpha, start)
    alphas = read_alphas(learner, alpha)
    starts = dict.fromkeys(alphas) if start is None else start
    if not isinstance(starts, Mapping) or set(starts) != set(alphas):
        raise InvalidError(
            "start is not of these levels; give {alpha: predictor[alpha].progress, ...} of a predictor "
            "with the same alphas"
        )
    levels = LevelFold({one: make(one, starts[one]) for one in alphas})
    levels.first.setup.kind.check_levels(levels.first.setup)
    return levels
