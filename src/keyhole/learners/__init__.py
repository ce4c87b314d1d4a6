"""The rules that pick thresholds: one file each, and the table of them all.

A rule of one's own joins the table by ``register``, or by an entry point of the group
``keyhole.learners`` in the package that brings it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

from keyhole.checks import find_near
from keyhole.errors import InvalidError
from keyhole.learners.entries import Ask, compile_learner
from keyhole.learners.gates import FOR_GATES
from keyhole.learners.lateness import Excess
from keyhole.learners.parameters import parameters
from keyhole.learners.rule import FOR_SETS, About, Distribution, Learner, Rule, RuleKind
from keyhole.learners.valve import SUFFIX, safety_valve, unwrap, wrap
from keyhole.packages import add_entry_points

__all__ = [
    "CONTEXTUAL", "DEFAULT", "GATES", "LEARNERS", "SUFFIX", "About", "Ask", "Distribution", "Excess",
    "Learner", "Rule", "compile_learner", "find", "make", "make_suited", "parameters", "rebuild",
    "register", "safety_valve", "takes", "unwrap", "wrap",
]  # fmt: skip

DEFAULT, DEFAULT_GATE = FOR_SETS.default, FOR_GATES.default
CONTEXTUAL = "contextual-tracker"  # the default where features or groups are known
_COMMON = {"alpha", "horizon", "arms"}
_BUDGET = "budget"  # the valve's one option


class _Table(Mapping[str, Rule[...]]):
    """Every rule by name: ``help(LEARNERS["kt"])`` says what one does, needs and promises.

    A rule is called with its parameters, ``LEARNERS["kt"](alpha=0.1)``, and gives a learner; so does
    ``keyhole.make("kt", alpha=0.1)``. A built-in rule is a module in a folder of rules, named as it
    is, and imported when the rule is first asked for.
    """

    def __init__(self, *first: str, kind: RuleKind, folder: str, group: str) -> None:
        files = Path(__file__).with_name(folder).glob("[!_]*.py")
        ours = sorted(path.stem.replace("_plus", "+").replace("_", "-") for path in files)
        self._known: dict[str, Rule[...] | None] = dict.fromkeys((*first, *ours))
        self._kind, self._folder, self._group = kind, folder, group
        self._asked_packages = False

    def __getitem__(self, name: str) -> Rule[...]:
        if name not in self._known:
            self._ask_packages()
        rule = self._known[name]
        if rule is None:
            module = name.replace("-", "_").replace("+", "_plus")
            found = import_module(f"{__name__}.{self._folder}.{module}")
            rule = self._known[name] = getattr(found, module)
        return rule

    def __iter__(self) -> Iterator[str]:
        self._ask_packages()
        return iter(tuple(self._known))

    def __len__(self) -> int:
        self._ask_packages()
        return len(self._known)

    def __repr__(self) -> str:
        return f"<{len(self)} rules: {', '.join(self)}>"

    def add(self, rule: Rule[...]) -> None:
        if not isinstance(rule, Rule):
            raise InvalidError(f"{rule!r} is not a rule; make one with keyhole.learners.Rule(...)")
        if rule.kind != self._kind:
            raise InvalidError(
                f"{rule.name} is a rule for a {rule.kind.name}, and not for a {self._kind.name}"
            )
        if rule.name in self._known and self[rule.name] is not rule:
            raise InvalidError(f"there is a learner {rule.name!r} already; choose another name")
        if not rule.name or SUFFIX in rule.name:
            raise InvalidError(f"{rule.name!r} cannot name a learner; {SUFFIX!r} means a valve")
        self._known[rule.name] = rule

    def _ask_packages(self) -> None:
        if not self._asked_packages:
            self._asked_packages = True
            add_entry_points(self._group, "learner", self.add)


LEARNERS = _Table(DEFAULT, CONTEXTUAL, kind=FOR_SETS, folder="rules", group="keyhole.learners")
GATES = _Table(DEFAULT_GATE, kind=FOR_GATES, folder="gates", group="keyhole.gates")


def list_rules() -> list[Rule[...]]:
    """Return every rule there is, of sets first."""
    return [*LEARNERS.values(), *GATES.values()]


def register(rule: Rule[...]) -> Rule[...]:
    """Put a rule in its table, and return it: ``make``, the simulator, the command line know it then.

    The table is ``keyhole.LEARNERS``, of a rule for gates ``keyhole.GATES``.

    Examples
    --------
    >>> from keyhole import LEARNERS
    >>> register(LEARNERS["kt"]).name
    'kt'
    """
    is_gate = isinstance(rule, Rule) and rule.kind == FOR_GATES
    (GATES if is_gate else LEARNERS).add(rule)
    return rule


def find(name: str) -> Rule[...]:
    """Return the rule of that name, or raise with the nearest name."""
    if not isinstance(name, str):
        example = getattr(name, "name", DEFAULT)
        raise InvalidError(
            f"{name!r} is no learner's name; give one, such as {example!r}", field="learner"
        )
    if name in LEARNERS:
        return LEARNERS[name]
    if name.endswith(SUFFIX):
        return wrap(find(name.removesuffix(SUFFIX)))
    if name in GATES:
        return GATES[name]
    near = find_near(name, [*LEARNERS, *GATES])
    hint = f"did you mean {near!r}?" if near else f"there are {', '.join(LEARNERS)}"
    raise InvalidError(f"there is no learner {name!r}; {hint}", field="learner")


def make(
    name: str,
    *,
    alpha: float,
    horizon: int | None = None,
    arms: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Learner:
    """Return a learner by name.

    Parameters
    ----------
    name
        A key of ``keyhole.LEARNERS``; with "+valve" after it, behind a safety valve.
    alpha
        Target miss rate, between 0 and 1/2; of the informed and the contextual tracker up to 0.8.
    horizon
        Number of rounds to come, for rules that are tuned to it.
    arms
        Number of thresholds, for rules that have a grid.
    options
        Further parameters of the rule, by name; behind a valve also its ``budget``, unless the rule
        has one of its own.

    Examples
    --------
    >>> make("logit-tracker", alpha=0.1).needs.value
    'hit or miss'
    >>> make("ocp-unlock+", alpha=0.1, horizon=50_000, arms=200).needs.value
    'label if hit'
    """
    rule = find(name)
    if options is not None and not isinstance(options, Mapping):
        raise InvalidError(f"options {options!r} are not a dict; give {{name: value}}")
    inside = unwrap(rule)
    if inside is not None:
        own = {_BUDGET} - takes(inside).keys()
        given = options or {}
        inner = make(
            inside.name, alpha=alpha, horizon=horizon, arms=arms,
            options={key: given[key] for key in given if key not in own},
        )  # fmt: skip
        return safety_valve(inner, **{key: given[key] for key in given if key in own})
    common = {"horizon": horizon, "arms": arms}
    given = {key: value for key, value in common.items() if value is not None}
    for key in given:
        _check_option(rule, key, f"it has no use for {key}; leave it out")
    for key in options or {}:
        if key in _COMMON:
            raise InvalidError(f"{key} is not an option of {name}; give it beside the options")
        _check_option(
            rule, key, f"it takes {', '.join(sorted(takes(rule).keys() - _COMMON)) or 'alpha alone'}"
        )
    try:
        return rule(alpha=alpha, **given, **(options or {}))
    except (TypeError, OverflowError) as error:
        raise InvalidError(f"options {dict(options or {})} do not fit {name}: {error}") from None


def make_suited(
    name: str,
    *,
    alpha: float,
    horizon: int | None = None,
    arms: int | None = None,
    context: Mapping[str, int] | None = None,
) -> Learner:
    """Return a learner by name, given of all this what its rule has a use for.

    ``context`` is how many features and groups there are. That is for running many rules side by side;
    ``make`` refuses what would be of no use.
    """
    known = takes(find(name))
    return make(
        name,
        alpha=alpha,
        horizon=horizon if "horizon" in known else None,
        arms=arms if "arms" in known else None,
        options={key: count for key, count in (context or {}).items() if key in known},
    )


def takes(rule: Rule[...]) -> dict[str, Any]:
    """Return the default of every parameter, ``MISSING`` where there is none.

    Behind a valve these are the parameters of the rule inside, and the budget.
    """
    own = {one.name: one.default for one in fields(rule.parameters)}  # type: ignore[arg-type]
    inside = unwrap(rule)
    if inside is None:
        return own
    del own["inner"]
    return own | takes(inside)


def _check_option(rule: Rule[...], name: str, remedy: str) -> None:
    if name not in takes(rule):
        near = find_near(name, takes(rule))
        hint = f"did you mean {near!r}?" if near else remedy
        raise InvalidError(f"{rule.name} has no parameter {name!r}; {hint}", field="learner")


def rebuild(name: str, parameters: Mapping[str, Any]) -> Learner:
    """Return the learner that has exactly these parameters: the inverse of ``Learner.dump``."""
    rule = find(name)
    inside = unwrap(rule)
    if inside is not None:
        inner = rebuild(inside.name, parameters["inner"])
        return safety_valve(inner, budget=parameters["budget"])
    return rule(**parameters)
