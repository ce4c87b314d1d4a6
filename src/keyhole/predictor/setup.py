"""What a predictor is made with: everything about it that never changes, checked, as JSON both ways."""

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from keyhole import learners, scores
from keyhole.checks import is_real, is_whole
from keyhole.errors import InvalidError, KeyholeWarning
from keyhole.feedback import LEAST_CHANCE, check_least_chance
from keyhole.learners import Learner
from keyhole.predictor.context import UNNAMED, Names, check_names
from keyhole.predictor.draws import check_seed
from keyhole.predictor.kinds import Kind, KindFeedback, find_kind
from keyhole.scores import Predicted, Probabilities, Score

MOST_OPEN = 10_000


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A learner, how to read model outputs, what answers reveal, the seed of every draw, and names."""

    learner: Learner
    score: Score[Predicted]
    feedback: KindFeedback
    seed: int
    open_limit: int = MOST_OPEN  # Beyond that the oldest open round is dropped.
    least_chance: float = LEAST_CHANCE  # No answer counts for more than 1 / this many rounds.
    names: Names = UNNAMED  # of the learner's features and groups
    kind: Kind = field(init=False, repr=False, compare=False)
    groups: int = field(init=False, repr=False, compare=False)  # how many are told apart
    context: int = field(init=False, repr=False, compare=False)  # how many numbers a case comes with

    def __post_init__(self) -> None:
        fill = object.__setattr__
        fill(self, "kind", find_kind(self.score))
        fill(self, "feedback", self.kind.check_feedback(self))
        if not is_whole(self.open_limit, least=1, most=10**9):
            raise InvalidError(
                f"open_limit {self.open_limit!r} is not a whole number of at least 1; try 10_000"
            )
        fill(self, "seed", check_seed(self.seed))
        fill(self, "open_limit", int(self.open_limit))
        fill(self, "least_chance", check_least_chance(self.least_chance))
        fill(self, "names", Names(*(tuple(names) for names in self.names)))
        fill(self, "groups", self.learner.groups or len(self.names.groups))
        fill(self, "context", self.learner.features + self.groups)
        check_names(self.names.features, "features", count=self.learner.features)
        check_names(self.names.groups, "groups", count=self.groups)

    def dump(self) -> dict[str, Any]:
        return {
            **self.learner.dump(),
            "score": scores.dump(self.score),
            "feedback": self.feedback.value,
            "seed": self.seed,
            "open_limit": self.open_limit,
            "least_chance": self.least_chance,
            "features": list(self.names.features),
            "groups": list(self.names.groups),
        }

    def to_json(self) -> str:
        return json.dumps(self.dump())

    @classmethod
    def load(cls, dumped: dict[str, Any], *, score: Score[Predicted] | None = None) -> "Setup":
        """Return the setup that ``dump`` wrote; a score of the user's own must be given again."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KeyholeWarning)  # It was said when the learner was made.
            learner = learners.rebuild(dumped["learner"], dumped["parameters"])
        kind = scores.load(dumped["score"]) if score is None else score
        return cls(
            learner=learner,
            score=kind,
            feedback=dumped["feedback"],
            seed=dumped["seed"],
            open_limit=dumped["open_limit"],
            least_chance=dumped["least_chance"],
            names=Names(tuple(dumped.get("features", ())), tuple(dumped.get("groups", ()))),
        )


def make_setup(
    learner: str | Learner | None = None,
    *,
    alpha: float | None = None,
    horizon: int | None = None,
    arms: int | None = None,
    options: Mapping[str, object] | None = None,
    features: int | Iterable[str] | None = None,
    groups: int | Iterable[str] | None = None,
    score: Score[Predicted] | None = None,
    feedback: str | None = None,
    seed: int | None = None,
    open_limit: int = MOST_OPEN,
    least_chance: float = LEAST_CHANCE,
) -> Setup:
    """Return the setup of a predictor with these parameters; options are the learner's further ones."""
    read = Probabilities() if score is None else score
    kind = find_kind(read)
    counts, names = kind.read_names(features, groups)
    if isinstance(learner, Learner):
        _check_learner(kind, learner, counts, given=(alpha, horizon, arms, options or None))
    else:
        known = {what: count for what, count in counts.items() if count}
        learner = learners.make(
            learner or (learners.CONTEXTUAL if known else kind.rules.default),
            alpha=_check_alpha(kind, learner, alpha),
            horizon=horizon,
            arms=arms,
            options={**(options or {}), **known},
        )
    return Setup(
        learner=learner,
        score=read,
        feedback=cast("KindFeedback", kind.default_feedback if feedback is None else feedback),
        seed=check_seed(seed),
        open_limit=open_limit,
        least_chance=least_chance,
        names=names,
    )


def _check_learner(
    kind: Kind, learner: Learner, counts: Mapping[str, int], *, given: Sequence[object]
) -> None:
    if any(value is not None for value in given):
        raise InvalidError(
            f"{learner.name} comes with its parameters; give alpha, horizon, arms and options to it, "
            f"not to the {kind.rules.player.lower()}"
        )
    for what, count in counts.items():
        if count and count != getattr(learner, what):
            raise InvalidError(
                f"{learner.name} comes with {getattr(learner, what)} {what}, not {count}; make it "
                f"with {what}={count}, or leave the learner out"
            )


def _check_alpha(kind: Kind, learner: str | None, alpha: float | None) -> float:
    if is_real(learner):
        raise InvalidError(
            f"{learner!r} is not a learner; for the share of {kind.rules.errors} write "
            f"alpha={learner!r}"
        )
    if alpha is None:
        fault = f"alpha is missing; give the share of {kind.rules.errors} you can bear, such as 0.1"
        raise InvalidError(fault, field="alpha")
    return alpha


def change_alpha(setup: Setup, alpha: float) -> Setup:
    """Return the setup with another target miss rate, or raise if the learner cannot have it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KeyholeWarning)  # It was said when the learner was made.
        parameters = _replace_alpha(setup.learner.parameters, alpha)
        learner = replace(setup.learner, parameters=parameters)
    if learner.layout.sizes != setup.learner.layout.sizes:
        raise InvalidError(
            f"{learner.name} keeps a state of another size at alpha {alpha:g}; start anew with it",
            field="alpha",
        )
    return replace(setup, learner=learner)


def _replace_alpha(parameters: Any, alpha: float) -> Any:
    inner = getattr(parameters, "inner", None)  # of the rule behind a valve
    if inner is None:
        return replace(parameters, alpha=alpha)
    return replace(parameters, inner=_replace_alpha(inner, alpha))


def refuse_unknown(
    learner: str | Learner | None, unknown: Mapping[str, object], *, holder: str = "Predictor"
) -> None:
    """Raise if one was given what it does not take, and say where that goes."""
    for name, value in unknown.items():
        rule = (
            learner.rule if isinstance(learner, Learner) else learners.find(learner or learners.DEFAULT)
        )
        if name in learners.takes(rule):
            raise InvalidError(
                f"{name} is an option of {rule.name}, not of the {holder.lower()}; give the learner: "
                f"{holder}(keyhole.make({rule.name!r}, alpha=..., options={{{name!r}: {value!r}}}))",
            )
        if name == "coverage" and holder == "Gate":  # there the field's word for the share accepted
            raise TypeError(
                "Gate takes no 'coverage': how much it accepts cannot be asked for; give the share of "
                "accepted answers that may be wrong, such as alpha=0.05"
            )
        if name in ("coverage", "confidence", "confidence_level"):
            asked = cast("float", value) if is_real(value) else 0.9
            asked = asked if 0.0 < asked < 1.0 else 0.9
            raise TypeError(
                f"{holder} takes no {name!r}, but its complement: for a coverage of {asked} write "
                f"alpha={1.0 - asked:.4g}"
            )
        if name == "labels" and holder == "Predictor":
            raise TypeError(
                "Predictor takes no 'labels'; name them where scores are read: "
                "score=keyhole.Probabilities(labels=[...])"
            )
        raise TypeError(f"{holder} takes no {name!r}; see help(keyhole.{holder})")
