"""What a gate is told: its rule and groups, and judgements; each is read here or refused."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from keyhole import learners
from keyhole.checks import is_list, is_real
from keyhole.errors import FeedbackError, InvalidError, ReferredError
from keyhole.feedback import GateFeedback
from keyhole.learners import Learner
from keyhole.predictor.context import Names
from keyhole.predictor.draws import check_seed
from keyhole.predictor.rounds import check_chance
from keyhole.predictor.setup import Setup
from keyhole.scores import BestScore, Decision


def find_groups(groups: Iterable[str] | None, known: tuple[str, ...]) -> tuple[int, ...]:
    """Return the places of the groups' states, after that of all rounds, or raise."""
    if isinstance(groups, Mapping):
        raise InvalidError(
            f"groups {groups!r} are not a list; give the names of those it is in", field="groups"
        )
    if groups is not None and not is_list(groups):
        raise InvalidError(f"groups {groups!r} are not a list; give [{groups!r}]", field="groups")
    named = [groups] if isinstance(groups, str) else list(() if groups is None else groups)
    for name in named:
        if name not in known:
            raise InvalidError(
                f"there is no group {name!r}; the gate was made with "
                f"{', '.join(map(repr, known)) or 'none'}: Gate(groups=[...]) names them",
                field="groups",
            )
    return tuple(1 + known.index(name) for name in dict.fromkeys(named))


def read_chance(chance: Any, decision: Decision, feedback: Any) -> float:
    """Return the chance with which an accepted answer is judged, or raise."""
    if chance is None:
        if decision.accepted and feedback == GateFeedback.REFERRED:
            raise FeedbackError(
                "with feedback='referred' accepted answers are judged by audit; say with what "
                "chance this one was picked: chance=0.1"
            )
        return 1.0
    return check_chance(chance)


def check_judged(decision: Any, feedback: Any) -> None:
    """Raise if nobody judges such a decision, so that it does not wait."""
    if feedback == GateFeedback.ACCEPTED and isinstance(decision, Decision) and not decision.accepted:
        raise ReferredError(
            f"round {decision.id} was referred, and this gate learns from accepted answers alone; "
            "make it with feedback='both' to use what people say of referred ones"
        )


def read_wrong(right: Any, wrong: Any) -> float:
    """Return 1 for a wrong answer, 0 for a right one; corrected for judges who err at a known rate."""
    if not isinstance(right, (bool, np.bool_)):
        raise FeedbackError(f"right={right!r} is neither True nor False")
    if not (is_real(wrong) and 0.0 <= wrong < 0.5):
        raise FeedbackError(
            f"judges who err at rate {wrong!r} tell nothing that can be used; give a rate below 1/2"
        )
    return (float(not right) - wrong) / (1.0 - 2.0 * wrong)


def _check_groups(groups: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the groups, or raise if they are not different strings."""
    if isinstance(groups, str) or not (groups is None or is_list(groups)):
        raise InvalidError(
            f"groups {groups!r} are not a list of different names; try ['new', 'old']", field="groups"
        )
    names = tuple(() if groups is None else groups)
    if not all(isinstance(name, str) for name in names):
        raise InvalidError(
            f"groups {groups!r} are not named by strings; try ['new', 'old']", field="groups"
        )
    if len(set(names)) < len(names):
        raise InvalidError(
            f"groups {groups!r} are not a list of different names; try ['new', 'old']", field="groups"
        )
    return names


def find_rule(rule: str | Learner, *, alpha: float | None, memory: float | None) -> Learner:
    """Return the learner of a rule's name, or the learner that was given."""
    if isinstance(rule, Learner):
        if alpha is not None or memory is not None:
            raise InvalidError(
                f"{rule.name} comes with its parameters; give alpha and memory to it, not to the gate",
            )
        return rule
    if is_real(rule):
        raise InvalidError(
            f"{rule!r} is not a rule; for the share of wrong answers write alpha={rule!r}",
        )
    if alpha is None:
        raise InvalidError(
            "alpha is missing; give the share of wrong answers you can bear, such as 0.05",
        )
    options = {} if memory is None else {"memory": memory}
    return learners.make(rule, alpha=alpha, options=options)


def make_setup(
    learner: Learner, feedback: str, *, groups: Sequence[str] | None, seed: int | None, open_limit: int
) -> Setup[Any]:
    """Return the setup of a gate: it reads scores, and tells these groups apart."""
    return Setup(
        learner=learner,
        score=cast("Any", BestScore()),
        feedback=cast("Any", feedback),
        seed=check_seed(seed),
        open_limit=open_limit,
        names=Names(groups=_check_groups(groups)),
    )


def refuse_features(features: Any) -> None:
    """Raise if there are features: a gate takes none."""
    if features is not None:
        raise InvalidError(
            "a gate takes no features: it would learn what they mean from the cases it let "
            "through alone; let the model that makes the score use them, or name groups",
            field="features",
        )
