"""What a stream is: everything about it that never changes, checked."""

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np

from keyhole import learners, scores
from keyhole.draws import checked_seed
from keyhole.errors import InvalidError, LabelError, LearnerError, ScoreError, StreamNameError
from keyhole.feedback import Regime, check_enough, checked_regime
from keyhole.learners import Learner
from keyhole.scores import BoundedResiduals, Case, Probabilities, Region, ScaledResiduals, Score
from keyhole.scores.intervals import Centred
from keyhole.scores.labels import Candidates

DAY = 86_400.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TAG_BYTES = 5


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """A learner, a way to read model outputs, a regime, a seed, and the limits of a stream.

    Parameters
    ----------
    learner, score, regime, seed
        As for ``keyhole.Predictor``.
    open_limit
        How many rounds may wait for an answer; past that the oldest expires.
    lifetime
        After how many seconds a round without an answer expires.
    window
        Over how many answered rounds the recent miss rate runs.
    """

    learner: Learner
    score: Score[Region]
    regime: Regime
    seed: int
    open_limit: int = 10_000
    lifetime: float = 7 * DAY
    window: int = 1000

    def __post_init__(self) -> None:
        check_enough(self.learner.name, self.learner.needs, self.regime)
        for name, least, most in (("open_limit", 1, 10**6), ("window", 20, 10**5)):
            value = getattr(self, name)
            if not least <= value <= most:
                raise InvalidError(f"{name} {value} is not from {least} to {most}")
        if not 1.0 <= self.lifetime <= 3650 * DAY:
            raise InvalidError(
                f"lifetime {self.lifetime} is not from a second to ten years, in seconds"
            )

    @property
    def labels(self) -> Sequence[Any] | None:
        """The names of the places of an array of scores, if they are fixed."""
        return self.score.labels if isinstance(self.score, Probabilities) else None

    def dump(self) -> str:
        """Return the blueprint as JSON."""
        return json.dumps(
            {
                "learner": self.learner.name,
                "parameters": asdict(self.learner.parameters),  # type: ignore[call-overload]
                "score": self.score.dump(),
                "regime": self.regime.value,
                "seed": self.seed,
                "open_limit": self.open_limit,
                "lifetime": self.lifetime,
                "window": self.window,
            }
        )

    def read(self, output: Any) -> Case[Region]:
        """Return the case of a model output, or raise."""
        mapped = isinstance(output, Mapping)
        if self.labels is not None and mapped and tuple(output) != self.labels:
            unknown = sorted(set(output) - set(self.labels))
            if unknown:
                raise LabelError(
                    f"label {unknown[0]!r} is not one of the stream's {len(self.labels)} labels"
                )
        if isinstance(self.score, Probabilities) == isinstance(output, (int, float)):
            wanted = "scores" if isinstance(self.score, Probabilities) else "a centre"
            raise ScoreError(f"the stream takes {wanted}; give that instead")
        return self.score.read(output)

    def pack(self, case: Case[Region]) -> tuple[bytes, str | None]:
        """Return a case as bytes, and its labels as JSON if the stream does not fix them."""
        if isinstance(case, Centred):
            return np.float64(case.centre).tobytes(), None
        if not isinstance(case, Candidates):
            raise ScoreError("a stream keeps label scores and centres only")
        fixed = isinstance(case.labels, range) or case.labels == self.labels
        return case.scores.tobytes(), None if fixed else json.dumps(case.labels)

    def unpack(self, output: bytes, labels: str | None) -> Case[Region]:
        """Return the case that ``pack`` wrote."""
        numbers = np.frombuffer(output)
        if not isinstance(self.score, Probabilities):
            return self.score.read(float(numbers[0]))
        if labels is not None:
            return Candidates(tuple(json.loads(labels)), numbers)
        return Candidates(range(numbers.size) if self.labels is None else self.labels, numbers)

    def tag(self, number: int) -> str:
        """Return what makes a round's id hard to guess and a mistyped one unknown."""
        key = self.seed.to_bytes(8, "big")
        return blake2b(str(number).encode(), key=key, digest_size=_TAG_BYTES).hexdigest()


@lru_cache(maxsize=4096)
def load(text: str) -> Blueprint:
    """Return the blueprint that ``dump`` wrote."""
    given = json.loads(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It was said when the stream was made.
        learner = learners.rebuild(given.pop("learner"), given.pop("parameters"))
    score, regime = scores.rebuild(given.pop("score")), Regime(given.pop("regime"))
    return Blueprint(learner=learner, score=score, regime=regime, **given)


def draft(
    learner: str,
    *,
    alpha: float,
    horizon: int | None = None,
    arms: int | None = None,
    options: Mapping[str, Any] | None = None,
    labels: Sequence[str] | None = None,
    power: float | None = None,
    bound: float | None = None,
    scale: float | None = None,
    regime: str = Regime.SEMI_BANDIT,
    seed: int | None = None,
    limits: Mapping[str, Any] | None = None,
) -> tuple[Blueprint, list[str]]:
    """Return the blueprint of these settings, and what Keyhole warns of about them."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        blueprint = Blueprint(
            learner=_learner(learner, alpha=alpha, horizon=horizon, arms=arms, options=options),
            score=_score(labels, power=power, bound=bound, scale=scale),
            regime=checked_regime(regime),
            seed=checked_seed(seed),
            **(limits or {}),
        )
    return blueprint, [str(warning.message) for warning in said]


def is_name(name: str) -> bool:
    """Return whether a stream can have this name."""
    return _NAME.fullmatch(name) is not None


def checked_name(name: str) -> str:
    """Return the name if a stream can have it, else raise."""
    if not is_name(name):
        raise StreamNameError(
            f"{name!r} cannot name a stream; use up to 64 letters, digits, dots, dashes and "
            "underscores, a letter or digit first"
        )
    return name


def _learner(name: str, *, options: Mapping[str, Any] | None, **common: Any) -> Learner:
    try:
        return learners.make(name, options=options, **common)
    except (TypeError, OverflowError) as error:
        raise LearnerError(f"options {dict(options or {})} do not fit {name}: {error}") from None


def _score(
    labels: Sequence[str] | None, *, power: float | None, bound: float | None, scale: float | None
) -> Score[Region]:
    kinds = ("labels or power", "bound", "scale")
    given = [
        kind
        for kind, told in zip(
            kinds,
            (labels is not None or power is not None, bound is not None, scale is not None),
            strict=True,
        )
        if told
    ]
    if len(given) > 1:
        raise InvalidError(f"{given[0]} and {given[1]} exclude each other; give one of them")
    if bound is not None:
        return BoundedResiduals(bound=bound)
    if scale is not None:
        return ScaledResiduals(scale=scale)
    return Probabilities(power=1.0 if power is None else power, labels=labels)
