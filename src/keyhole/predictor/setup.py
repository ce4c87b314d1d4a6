"""What a predictor is made with: everything about it that never changes, checked, as JSON both ways."""

import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, cast

from keyhole import learners, scores
from keyhole.checks import is_real, is_whole
from keyhole.errors import InvalidError, KeyholeWarning
from keyhole.feedback import Feedback, GateFeedback, check_enough, check_feedback, check_gate_feedback
from keyhole.learners import Learner
from keyhole.predictor.context import UNNAMED, Names, check_names, read_names
from keyhole.predictor.draws import check_seed
from keyhole.predictor.rounds import R
from keyhole.scores import Probabilities, Score

MOST_OPEN = 10_000


@dataclass(frozen=True, kw_only=True)
class Setup(Generic[R]):
    """A learner, a way to read model outputs, a feedback, a seed, and how many rounds may wait.

    Parameters
    ----------
    learner
        The rule at work, with its parameters.
    score
        How to read a model's output.
    feedback
        What the world can tell.
    seed
        Fixes every draw.
    open_limit
        How many rounds may wait for an answer; past that the oldest is dropped.
    names
        What the features and groups of the learner are called, where they are.
    """

    learner: Learner
    score: Score[R]
    feedback: Feedback | GateFeedback
    seed: int
    open_limit: int = MOST_OPEN
    names: Names = UNNAMED

    def __post_init__(self) -> None:
        fill = object.__setattr__
        scores.check_score(self.score)
        fill(self, "feedback", self._check_feedback())
        if not is_whole(self.open_limit, least=1, most=10**9):
            raise InvalidError(f"open_limit {self.open_limit!r} is not a whole number of at least 1")
        fill(self, "seed", check_seed(self.seed))
        fill(self, "open_limit", int(self.open_limit))
        fill(self, "names", Names(*(tuple(names) for names in self.names)))
        check_names(self.names.features, "features", count=self.learner.features)
        is_gate = self.learner.rule.kind == "gate"  # It has a state for each group, by any name.
        count = len(self.names.groups) if is_gate else self.learner.groups
        check_names(self.names.groups, "groups", count=count)

    @property
    def states(self) -> int:
        """How many groups have a state of their own: those of a gate."""
        return len(self.names.groups) if self.learner.rule.kind == "gate" else 0

    def _check_feedback(self) -> Feedback | GateFeedback:
        """Return the feedback, or raise if the learner cannot work in it, or not with such a score."""
        is_gate = self.learner.rule.kind == "gate"
        if is_gate != (self.score.kind == "gate"):
            right = "keyhole.Gate" if is_gate else "keyhole.Predictor"
            raise InvalidError(f"{self.learner.name} is a rule for {right}; use it there")
        if is_gate:
            return check_gate_feedback(self.feedback)
        feedback = check_feedback(self.feedback)
        check_enough(self.learner.name, self.learner.needs, feedback)
        return feedback

    def dump(self) -> dict[str, Any]:
        """Return the setup as JSON values; floats keep every bit."""
        return {
            **self.learner.dump(),
            "score": scores.dump(self.score),
            "feedback": self.feedback.value,
            "seed": self.seed,
            "open_limit": self.open_limit,
            "features": list(self.names.features),
            "groups": list(self.names.groups),
        }

    def to_json(self) -> str:
        """Return the setup as JSON."""
        return json.dumps(self.dump())

    @classmethod
    def load(cls, dumped: dict[str, Any], *, score: Score[R] | None = None) -> "Setup[R]":
        """Return the setup that ``dump`` wrote; a score of the user's own must be given again."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KeyholeWarning)  # It was said when the learner was made.
            learner = learners.rebuild(dumped["learner"], dumped["parameters"])
        kind: Any = scores.load(dumped["score"]) if score is None else score
        return cls(
            learner=learner,
            score=kind,
            feedback=dumped["feedback"],
            seed=dumped["seed"],
            open_limit=dumped["open_limit"],
            names=Names(tuple(dumped.get("features", ())), tuple(dumped.get("groups", ()))),
        )


def make_setup(
    learner: str | Learner | None = None,
    *,
    alpha: float | None = None,
    horizon: int | None = None,
    arms: int | None = None,
    options: Mapping[str, Any] | None = None,
    features: int | Iterable[str] | None = None,
    groups: int | Iterable[str] | None = None,
    score: Score[R] | None = None,
    feedback: str = Feedback.SEMI_BANDIT,
    seed: int | None = None,
    open_limit: int = MOST_OPEN,
) -> Setup[R]:
    """Return the setup of a predictor with these parameters; options are the learner's further ones."""
    counted, named = read_names(features, "features")
    groups_counted, groups_named = read_names(groups, "groups")
    context = {"features": counted, "groups": groups_counted}
    return Setup(
        learner=_find_learner(
            learner, context, alpha=alpha, horizon=horizon, arms=arms, more=options or {}
        ),
        score=cast("Score[R]", Probabilities() if score is None else score),
        feedback=cast("Feedback", feedback),
        seed=check_seed(seed),
        open_limit=open_limit,
        names=Names(named, groups_named),
    )


def _find_learner(
    learner: str | Learner | None,
    context: Mapping[str, int],
    *,
    alpha: float | None,
    horizon: int | None,
    arms: int | None,
    more: Mapping[str, Any],
) -> Learner:
    if isinstance(learner, Learner):
        if not alpha is horizon is arms is None:
            raise InvalidError(
                f"{learner.name} comes with its parameters; give alpha, horizon and arms to it, "
                "not to the predictor",
            )
        for kind, count in context.items():
            if count and count != getattr(learner, kind):
                raise InvalidError(
                    f"{learner.name} comes with {getattr(learner, kind)} {kind}, not {count}; make it "
                    f"with {kind}={count}, or leave the learner out",
                )
        return learner
    if is_real(learner):
        raise InvalidError(
            f"{learner!r} is not a learner; for the share of misses write alpha={learner!r}",
        )
    if alpha is None:
        raise InvalidError(
            "alpha is missing; give the share of misses you can bear, such as 0.1", field="alpha"
        )
    known = {kind: count for kind, count in context.items() if count}
    name = learner or (learners.CONTEXTUAL if known else learners.DEFAULT)
    return learners.make(name, alpha=alpha, horizon=horizon, arms=arms, options={**more, **known})


def refuse_unknown(
    learner: str | Learner | None, unknown: Mapping[str, Any], *, holder: str = "Predictor"
) -> None:
    """Raise if a predictor or gate was given what it does not take, and say where that goes."""
    for name, value in unknown.items():
        rule = (
            learner.rule if isinstance(learner, Learner) else learners.find(learner or learners.DEFAULT)
        )
        if name in learners.takes(rule):
            raise InvalidError(
                f"{name} is an option of {rule.name}, not of the {holder.lower()}; give the learner: "
                f"{holder}(keyhole.make({rule.name!r}, alpha=..., options={{{name!r}: {value!r}}}))",
            )
        if name == "labels" and holder == "Predictor":
            raise TypeError(
                "Predictor takes no 'labels'; name them where scores are read: "
                "score=keyhole.Probabilities(labels=[...])"
            )
        raise TypeError(f"{holder} takes no {name!r}; see help(keyhole.{holder})")
