"""Every combination of a rule that promises something with the ways answers come, under attack.

A cell is a rule, a timing, a kind of answer, limits on sets, groups or none, and a life. In each cell
worlds that see every threshold drive the excess of misses up, down and from one end to the other,
within what the cell allows, and after each answer the excess must lie within what the predictor states.
Of a gate it is the excess of wrong answers among the accepted, and there are no sets to limit.
``python -m tests.predictor.combinations`` prints what is promised as the table of docs/guarantees.md.
"""

import itertools
import random
from dataclasses import replace
from typing import Any, NamedTuple

from keyhole import GATES, HIT, LEARNERS, MISS, Gate, Predictor, Probabilities, make
from keyhole.errors import FeedbackError, InvalidError, TheoremError
from keyhole.learners import Learner, safety_valve, takes
from keyhole.predictor.report import bound_excess, judge_groups
from keyhole.predictor.setup import change_alpha

ALPHA = 0.2
ANSWERS = 50  # for each world of a cell
DECISIONS = 400  # for each world of a gate's
SMALL: dict[str, dict[str, Any]] = {  # bounds that a few dozen rounds reach
    "logit-tracker": {"step": 1.0, "first": 1.5, "margin": 0.2},
    "informed-tracker": {"guard": 4.0},
    "contextual-tracker": {"guard": 4.0, "dead": 2.0},
    "tracker": {"step": 0.2},
    "aci": {"step": 0.1, "window": 20},
    "agaci": {"steps": (0.2, 0.4)},
    "self-scaled": {"budget": 4.0},
    "pi": {"saturation": 0.2},
    "tracker-decaying": {"window": None},
    "gate-tracker": {"budget": 1.0},
}
VALVE = "any rule behind a valve"
MEMORY = "gate-tracker with a memory"
RULES = (
    *sorted(n for n, rule in LEARNERS.items() if hasattr(rule.parameters, "excess")),
    VALVE,
    *sorted(GATES),
    MEMORY,
)
BOUND_GROUPS = ("contextual-tracker", "gate-tracker")  # each group for itself
TIMINGS = ("prompt", "late", "lost", "batched")
TOLD = ("plain", "chance", "wrong", "graded", "judged")
LIMITS: dict[str, dict[str, Any]] = {"none": {}, "at_least": {"at_least": 1}, "at_most": {"at_most": 1}}
LIVES = ("fresh", "calibrated", "restored", "alpha changed")
WORLDS = ("beyond", "up", "down", "swing", "dice")
GATE_WORLDS = ("up", "referred", "swing", "dice")
SCORES = (0.7, 0.2, 0.1)


class Cell(NamedTuple):
    rule: str
    timing: str
    told: str
    limits: str
    groups: bool
    life: str


def list_cells(rule: str) -> list[Cell]:
    """Return the cells of a rule; of one that takes no groups, one cell with them."""
    limits = ("none",) if is_gate(rule) else LIMITS
    found = [
        Cell(*one) for one in itertools.product([rule], TIMINGS, TOLD, limits, (False, True), LIVES)
    ]
    if takes_groups(rule):
        return found
    return [cell for cell in found if not cell.groups or cell == find_first(rule)]


def find_first(rule: str) -> Cell:
    return Cell(rule, TIMINGS[0], TOLD[0], "none", groups=True, life=LIVES[0])


def is_gate(rule: str) -> bool:
    return rule == MEMORY or rule in GATES


def takes_groups(rule: str) -> bool:
    return is_gate(rule) or (rule != VALVE and "groups" in takes(LEARNERS[rule]))


def has_guards(rule: str) -> bool:
    return rule == VALVE or hasattr(LEARNERS[rule].parameters, "late_excess")


def is_graded(rule: str) -> bool:
    return rule != VALVE and LEARNERS[rule].graded


def make_learner(name: str) -> Learner:
    if name == VALVE:
        return safety_valve(make("logit-tracker", alpha=ALPHA), budget=0.5)
    if name == MEMORY:
        options = {**SMALL["gate-tracker"], "memory": 20.0}
        return make("gate-tracker", alpha=ALPHA, options=options)
    return make(name, alpha=ALPHA, options=SMALL.get(name, {}))


class World:
    """One run: what is asked and told, and whether the statements of the predictor stood up to it."""

    def __init__(self, cell: Cell, goal: str, seed: int) -> None:
        self.cell, self.goal, self.rng = cell, goal, random.Random(seed)  # noqa: S311
        learner = make_learner(cell.rule)
        if cell.groups and takes_groups(cell.rule):
            learner = replace(learner, parameters=replace(learner.parameters, groups=2))
        self.predictor: Predictor[Any] = Predictor(
            learner,
            groups=2 if cell.groups else None,
            score=Probabilities(**LIMITS[cell.limits]),
            least_chance=0.01,
            seed=seed,
        )
        if cell.life == "calibrated":
            self.predictor.calibrate(
                [SCORES] * 30, [0] * 30, **({"groups": [[0]] * 30} if cell.groups else {})
            )
        self.answered = 0
        self.lived = self.changed = False

    @property
    def played(self) -> float:
        """How much of the run is over, from 0 to 1."""
        return self.answered / ANSWERS

    def wants_miss(self, groups: tuple[int, ...]) -> bool:
        """Return where the excess is driven: with groups the first one up and the second one down."""
        if groups:
            both = groups == (0, 1) and self.goal != "swing"
            return groups == (0,) or (both and self.rng.random() < 0.5)
        if self.goal == "dice":
            return self.rng.random() < 0.5
        return self.goal in ("up", "beyond") or (self.goal == "swing" and self.played > 0.5)

    def set_at_odds(self) -> tuple[int, ...]:
        """Return the groups of the next case: one hot, one cold, then both, which cools the latter."""
        hot, cold = self.predictor._progress.state.excess[1:3]
        return (1,) if cold > -4.0 else (0,) if hot < 4.0 else (0, 1)

    def ask(self) -> tuple[Any, bool]:
        """Return what is shown of a case, and whether it misses."""
        groups: tuple[int, ...] = ()
        if self.cell.groups:
            groups = self.rng.choice(((0,), (1,), (0, 1), (0, 1), ()))
            if self.goal == "swing":
                groups = self.set_at_odds()
        shown = self.predictor.predict(SCORES, groups=groups)
        held = len(shown)
        can_miss = held < len(SCORES) and (shown.threshold > 0.0 or self.cell.limits == "at_most")
        can_miss |= self.goal == "beyond" and self.rng.random() < 0.3  # The truth is no candidate.
        can_hit = held > 0
        missed = can_miss if self.wants_miss(groups) else not can_hit
        return shown, missed

    def tell(self, shown: Any, missed: bool) -> None:  # noqa: FBT001
        learn, told = self.predictor.learn, self.cell.told
        if told == "graded":
            # An empty set that loses nothing is what no guard can prevent; the full one never loses.
            spared = shown.threshold > 1.0 and self.goal == "down"
            learn(shown, loss=0.0 if spared or not missed else self.rng.choice((0.6, 1.0)))
        elif told == "wrong":
            flipped = missed ^ (self.rng.random() < 0.2)
            learn(shown, MISS if flipped else HIT, wrong=0.2)
        elif told == "judged":
            # A judge who always says what drives the excess on, and whom a tenth of checks corrects.
            truth: dict[str, Any] = (
                {"answer": MISS if missed else HIT} if self.rng.random() < 0.1 else {}
            )
            word = MISS if missed or not len(shown) or self.wants_miss(()) else HIT
            learn(shown, judged=word, **truth)
        elif missed and len(shown) in (0, len(SCORES)):
            learn(shown, MISS, chance=self.chance())
        else:
            label = next(k for k in range(len(SCORES)) if (k in shown) != missed)
            learn(shown, label=label, chance=self.chance())
        self.answered += 1
        self.check()
        self.live()

    def chance(self) -> float:
        return self.rng.choice((0.2, 0.4, 1.0)) if self.cell.told == "chance" else 1.0

    def live(self) -> None:
        """Let happen in the middle of the run what the life of the cell says."""
        if self.lived or self.played < 0.5:
            return
        self.lived = True
        if self.cell.life == "restored":
            self.predictor = self.predictor.restore(self.predictor.dump())
        if self.cell.life == "alpha changed":
            predictor, old = self.predictor, self.predictor.learner
            predictor._setup = change_alpha(predictor.setup, 0.1)
            progress = predictor._progress
            progress.state, *progress.states = (
                predictor.learner.unpack(old.pack(state))
                for state in (progress.state, *progress.states)
            )
            self.changed = True

    def check(self) -> None:
        """Raise unless every excess is within what is stated of it now."""
        setup, progress = self.predictor.setup, self.predictor._progress
        for group in judge_groups(setup, progress).values():
            assert (group.bound is not None) == (self.cell.rule in BOUND_GROUPS), self.cell
            if group.bound is not None:
                assert group.bound.least - 1e-5 <= group.excess <= group.bound.most + 1e-5, (
                    self.cell,
                    self.goal,
                )
        if self.changed:
            return  # Nothing is stated of rounds under several targets together.
        tally = progress.tally
        excess = tally.misses - setup.learner.alpha * tally.weight
        least, most = bound_excess(setup, progress)
        assert least - 1e-6 <= excess <= most + 1e-6, (self.cell, self.goal)

    def play(self) -> None:
        {"prompt": self.answer_at_once, "lost": self.lose_some, "late": self.hold_back}.get(
            self.cell.timing, self.answer_batches
        )()

    def answer_at_once(self) -> None:
        while self.played < 1.0:
            self.tell(*self.ask())

    def lose_some(self) -> None:
        while self.played < 1.0:
            opened = self.ask()
            for _ in range(20 * opened[1]):  # Misses are stale then, and hits are not.
                self.lose()
            self.tell(*opened)

    def lose(self) -> None:
        self.predictor.skip(self.predictor.predict(SCORES))

    def hold_back(self) -> None:
        """Tell what drives the excess on at once, and the rest when no more rounds may be open."""
        waiting = []
        while self.played < 1.0:
            waiting.append(self.ask())
            wanted = [n for n, (_, missed) in enumerate(waiting) if missed == self.wants_miss(())]
            if len(waiting) == 4:
                while waiting:  # The newest first: it is the only one that is not stale.
                    self.tell(*waiting.pop(-1 if self.goal == "swing" else 0))
            elif self.goal != "swing" and wanted and self.rng.random() < 0.7:
                self.tell(*waiting.pop(wanted[-1]))

    def answer_batches(self) -> None:
        while self.played < 1.0:
            for opened in [self.ask() for _ in range(5)]:
                self.tell(*opened)


class GateWorld(World):
    """A gate's run: cases that it would accept, and are wrong."""

    predictor: Any

    def __init__(self, cell: Cell, goal: str, seed: int) -> None:
        self.cell, self.goal, self.rng = cell, goal, random.Random(seed)  # noqa: S311
        self.lived = self.changed = False
        self.predictor = Gate(
            make_learner(cell.rule),
            groups=["first", "second"] if cell.groups else None,
            feedback="both" if goal == "referred" else "accepted",
            least_chance=0.01,
            seed=seed,
        )
        if cell.life == "calibrated":
            known: dict[str, Any] = {"groups": [["first"]] * 30} if cell.groups else {}
            self.predictor.calibrate([1.0] * 30, [True] * 30, **known)

    @property
    def played(self) -> float:
        return self.predictor.predicted_rounds / DECISIONS

    def wants_miss(self, groups: tuple[int, ...]) -> bool:
        """Return whether to be wrong: never in the second group alone, whose credit all share."""
        if groups == (1,):
            return False
        if self.goal == "dice":
            return self.rng.random() < 0.5
        return self.goal != "swing" or self.played > 0.5

    def ask(self) -> tuple[Any, bool]:
        """Return the next decision that is judged, or the last of all, and whether it is wrong."""
        while True:
            self.live()
            groups = self.rng.choice(((0,), (1,), (0, 1), ())) if self.cell.groups else ()
            names = [self.predictor.setup.names.groups[group] for group in groups]
            shown = self.predictor.decide(
                self.rng.random() if self.goal == "dice" else 1.0,
                **({"groups": names} if self.cell.groups else {}),
            )
            if self.is_judged(shown) or self.played >= 1.0:
                # What is said of referred cases opens a gate, and costs nothing.
                return shown, shown.accepted and self.wants_miss(groups)

    def is_judged(self, shown: Any) -> bool:
        return shown.accepted or self.goal == "referred"

    def tell(self, shown: Any, missed: bool) -> None:  # noqa: FBT001
        if not self.is_judged(shown):
            return
        learn, told = self.predictor.learn, self.cell.told
        if told == "graded":
            learn(shown, loss=float(missed))
        elif told == "chance":
            learn(shown, right=not missed, chance=self.chance())
        elif told == "wrong":
            learn(shown, right=not missed ^ (self.rng.random() < 0.2), wrong=0.2)
        elif told == "judged":
            # A judge who praises at first, whom checks correct; then what is blamed counts double.
            check = {"right": not missed} if self.rng.random() < 0.3 else {}
            learn(shown, judged=not missed or self.played < 0.5, **check)
        else:
            learn(shown, right=not missed)
        self.check()

    def chance(self) -> float:
        return self.rng.choice((0.2, 0.4, 1.0)) if self.goal == "dice" else 0.2

    def lose(self) -> None:
        shown = self.predictor.decide(1.0)
        if self.is_judged(shown):
            self.predictor.skip(shown)


def list_goals(cell: Cell) -> tuple[str, ...]:
    if is_gate(cell.rule):
        return GATE_WORLDS
    beyond = has_guards(cell.rule) and (cell.told, cell.limits) == ("plain", "none")
    return WORLDS[0 if beyond else 1 :]


def judge(cell: Cell) -> str:
    """Return what is promised in a cell, after its worlds failed to break it; or who refuses it."""
    world: World | None = None
    try:
        for seed, goal in enumerate(list_goals(cell)):
            world = (GateWorld if is_gate(cell.rule) else World)(cell, goal, seed)
            world.play()
    except TheoremError:
        return "nothing"
    except (FeedbackError, InvalidError, TypeError) as error:
        return f"refused: {error}"
    assert world is not None
    return "nothing" if world.changed else find_promise(world)


def find_promise(world: World) -> str:
    """Return which sides of the excess are bounded by less than what so many rounds keep anyway."""
    rounds = 10**15
    least, most = bound_excess(world.predictor.setup, world.predictor._progress, rounds=rounds)
    sides = least > -ALPHA * rounds / 2.0, most < (1.0 - ALPHA) * rounds / 2.0
    return {(True, True): "both", (False, True): "upper", (True, False): "lower"}.get(sides, "nothing")


def expect(cell: Cell) -> str:
    """Return what docs/guarantees.md says of the cell: its table, and the rules below it."""
    rule, timing, told, limits, groups, life = cell
    if is_gate(rule):
        return expect_of_gate(cell)
    if groups and not takes_groups(rule):
        return f"refused: {make_learner(rule).name} comes with 0 groups"
    if told in ("wrong", "graded", "judged") and not is_graded(rule):
        return "refused: "
    if life == "alpha changed" and rule == "self-scaled":
        return "refused: self-scaled keeps a state of another size"
    kept = {"lower", "upper"} - ({"lower"} if rule == VALVE else set())
    weighs = told in ("chance", "wrong", "judged")
    if not has_guards(rule) and (timing != "prompt" or weighs or limits == "at_most"):
        kept = set()
    if life == "alpha changed":
        kept = set()
    kept -= {"at_least": {"lower"}, "at_most": {"upper"}}.get(limits, set())
    return "both" if len(kept) == 2 else kept.pop() if kept else "nothing"


def expect_of_gate(cell: Cell) -> str:
    if cell.told == "graded":
        return "refused: Gate.learn() got an unexpected keyword argument 'loss'"
    late = cell.timing in ("late", "batched")
    forgets = cell.rule == MEMORY and (late or cell.told != "plain")
    kept = cell.rule in ("gate-tracker", MEMORY) and not forgets and cell.life != "alpha changed"
    return "upper" if kept else "nothing"


def write_table() -> str:
    """Return what is promised of every rule, as docs/guarantees.md has it."""
    lines = [
        "| rule | plain | `chance=` | `wrong=` | `loss=` | `judged=` |",
        "|---|---|---|---|---|---|",
    ]
    for rule in RULES:
        row = []
        for told in TOLD:
            found = [
                expect(Cell(rule, timing, told, "none", groups=False, life="fresh"))
                for timing in TIMINGS
            ]
            words = "refused" if found[0].startswith("refused") else found[0]
            row.append(words if len(set(found)) == 1 else f"{words}, prompt only")
        name = f"`{rule}`" if rule in LEARNERS or rule in GATES else rule
        lines.append(
            f"| {name}{', each of its groups' if rule in BOUND_GROUPS else ''} | {' | '.join(row)} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(write_table(), end="")  # noqa: T201
