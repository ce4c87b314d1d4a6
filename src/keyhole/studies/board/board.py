"""The board: who plays, on what, how that is measured, and how the entrants rank.

The scenarios, the sizes and the seed are fixed; whatever changes a number changes ``VERSION``.
"""

import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keyhole.errors import HorizonError, InvalidError, KeyholeError
from keyhole.feedback import Feedback, Needs
from keyhole.learners import GATES, LEARNERS, Learner, make
from keyhole.numeric import Array, fingerprint
from keyhole.predictor import file as snapshot
from keyhole.scenarios import Scenario
from keyhole.scenarios.airfoil import AirfoilScenario
from keyhole.scenarios.contextual import ForecastScenario
from keyhole.scenarios.drifts import DriftScenario
from keyhole.scenarios.gate_cases import GATE_SCENARIOS, GateCases
from keyhole.simulation import adversaries
from keyhole.simulation.channel import Channel
from keyhole.simulation.gate_runs import best_fixed, simulate_gate
from keyhole.studies.board.peers import EVERYTHING, PEERS, PeerRule
from keyhole.studies.compare.contest import (
    Estimate,
    Terms,
    best_per_segment,
    draw_rounds,
    estimate,
    make_entrant,
    play_entrant,
)
from keyhole.studies.compare.listing import Listed, list_scenarios

VERSION = 1
ALPHA, SEED = 0.1, 0
FIRST_DAY, LONG_RUN = "first day", "long run"
PARTS = (LONG_RUN, FIRST_DAY)
_TOLD_ALL = Needs.LABEL_ALWAYS.value
_FEW = 0.01  # a best threshold that accepts less than this is none to be compared with


@dataclass(frozen=True)
class Size:
    """How much is played: rounds and runs of sets, runs of gates, and the rounds of a first day."""

    rounds: int
    runs: int
    gate_runs: int
    first: int = 200

    def slice_part(self, part: str) -> slice:
        return slice(0, self.first) if part == FIRST_DAY else slice(self.first, self.rounds)


FULL = Size(rounds=2_000, runs=5, gate_runs=20)
QUICK = Size(rounds=600, runs=2, gate_runs=4)


class Division(NamedTuple):
    """What is ranked together, and the words and the scale of its tables and panels."""

    title: str
    heads: tuple[str, ...]
    rate: str
    size: str
    best: str
    legend: str
    ticks: tuple[float, ...]
    sign: float  # 1 where a small size is good, -1 where a large one is


SETS = Division(
    title="Sets and intervals",
    heads=("entrant", "kept", "miss rate", "worst on any", "size/best"),
    rate="misses", size="size", best="smallest", legend="lower is smaller.",
    ticks=(1.0, 2.0, 5.0, 10.0), sign=1.0,
)  # fmt: skip
GATED = Division(
    title="Gates",
    heads=("rule", "kept", "wrong", "worst on any", "accepted/best"),
    rate="wrong", size="accepted", best="most accepted",
    legend="Of gates, higher is more accepted.",
    ticks=(0.0, 0.5, 1.0), sign=-1.0,
)  # fmt: skip
DIVISIONS = (SETS, GATED)


@dataclass(frozen=True)
class BoardScenario:
    """A scenario of ``keyhole compare``, and how its answers come back.

    ``kind`` is "labels", "intervals", "attack" or "gate". Against an adversary there is no first day,
    and no best size to compare with.
    """

    name: str
    kind: str
    of: str  # the scenario's name there
    about: str
    answers: str = "at once"  # how they come, in words
    channel: Channel = field(default_factory=Channel)
    audit: float = 1.0

    @property
    def division(self) -> Division:
        return GATED if self.kind == "gate" else SETS

    @property
    def parts(self) -> tuple[str, ...]:
        return (LONG_RUN,) if self.kind == "attack" else PARTS


def _vary_answers(name: str, kind: str, about: str) -> list[BoardScenario]:
    """Return a scenario three times: its answers come at once, late, and seldom."""
    late, sparse = "100 rounds late", "to one round in ten"
    return [
        BoardScenario(name, kind, name, about),
        BoardScenario(f"{name}-late", kind, name, about, late, Channel(delay=100)),
        BoardScenario(f"{name}-sparse", kind, name, about, sparse, Channel(lost=0.9)),
    ]


_DIGITS, _AIRFOIL = "handwritten digits (real)", "airfoil self-noise around a regression (real)"
_IMAGENET = "generated outputs for 1,000 labels"
_ATTACKS = {
    "just-below": "scores just below the threshold",
    "lure-and-strike": "scores of 1 until the threshold is high, then of 0",
    "alternating": "easy or hard rounds, changed once the entrant has adapted",
}
SCENARIOS: dict[str, BoardScenario] = {
    one.name: one
    for one in (
        *_vary_answers("digits", "labels", _DIGITS),
        BoardScenario("digits-drifting", "labels", "digits-by-label", f"{_DIGITS}, first all zeros"),
        BoardScenario("imagenet", "labels", "imagenet-like", _IMAGENET),
        BoardScenario(
            "imagenet-drifting", "labels", "imagenet-like-shift", f"{_IMAGENET}, changing four times",
        ),
        *_vary_answers("airfoil", "intervals", _AIRFOIL),
        BoardScenario(
            "airfoil-drifting", "intervals", "airfoil-in-order",
            f"{_AIRFOIL}, one experiment after another",
        ),
        BoardScenario(
            "day-ahead", "intervals", "hourly",
            "synthetic forecast errors that follow hour, weekend and season", "24 rounds at a time",
            Channel(batch=24),
        ),
        *(
            BoardScenario(name, "attack", name, f"an adversary: {about}")
            for name, about in _ATTACKS.items()
        ),
        BoardScenario("gate-digits", "gate", "digits", _DIGITS),
        BoardScenario("gate-late", "gate", "digits", _DIGITS, "100 rounds late", Channel(delay=100)),
        BoardScenario("gate-sparse", "gate", "digits", _DIGITS, "to one in ten accepted", audit=0.1),
        BoardScenario(
            "gate-overconfident", "gate", "overconfident",
            "a synthetic model that is surer of itself than it should be",
        ),
        BoardScenario(
            "gate-drifting", "gate", "accuracy halves",
            "a synthetic calibrated model, half of its right answers wrong from midway",
        ),
        BoardScenario(
            "gate-attacked", "gate", "turning",
            "answers that gain trust, then are wrong, again and again",
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class BoardCell:
    """One entrant on one scenario: what each run did in each part, or why it did not play.

    ``rates`` are miss rates (of gates: wrong among the accepted); ``sizes`` are relative to those of
    the best thresholds in hindsight (of gates: the share accepted), NaN where there is none.
    """

    entrant: str
    scenario: str
    told: str
    key: str  # what tells the code that played from any other
    rates: dict[str, list[float]] = field(default_factory=dict)
    sizes: dict[str, list[float]] = field(default_factory=dict)
    refusal: str | None = None

    def rate(self, part: str) -> Estimate:
        return estimate(self.rates[part])

    def size(self, part: str) -> Estimate:
        return estimate(self.sizes[part])


@dataclass(frozen=True)
class Board:
    """All that was played, and by what size."""

    size: Size
    played: tuple[BoardCell, ...]

    def find_scenarios(self, division: Division) -> list[BoardScenario]:
        names = {one.scenario for one in self.played}
        known = SCENARIOS.values()
        return [one for one in known if one.name in names and one.division is division]

    def keeps(self, one: BoardCell, part: str) -> bool:
        """Return whether the promise is kept in a part, as ``keyhole compare`` judges it."""
        runs = len(one.rates[part])
        length = self.size.slice_part(part)
        terms = Terms(alpha=ALPHA, rounds=length.stop - length.start, runs=runs)
        return terms.is_kept(one.rate(part))

    def of_scenario(self, name: str, part: str) -> list[BoardCell]:
        """Return who played a scenario: who keeps the promise first, then by size."""
        ran = [one for one in self.played if one.scenario == name and part in one.rates]
        sign = SCENARIOS[name].division.sign

        def order(one: BoardCell) -> tuple[bool, float, str]:
            size = one.size(part).mean
            return not self.keeps(one, part), math.inf if math.isnan(size) else sign * size, one.entrant

        return sorted(ran, key=order)

    def rank(self, part: str, division: Division) -> list["Standing"]:
        """Return the entrants: who keeps the promise on the most scenarios first, then by size."""
        scenarios = {one.name: one for one in self.find_scenarios(division) if part in one.parts}
        by_entrant: dict[str, list[BoardCell]] = {}
        for one in self.played:
            if one.scenario in scenarios:
                by_entrant.setdefault(one.entrant, []).append(one)
        every = [self._sum_up(played, part, scenarios) for played in by_entrant.values()]

        def order(one: Standing) -> tuple[int, float, str]:
            size = one.size.mean
            return -one.kept, math.inf if math.isnan(size) else division.sign * size, one.entrant

        return sorted((one for one in every if one is not None), key=order)

    def _sum_up(
        self, played: list[BoardCell], part: str, scenarios: Mapping[str, BoardScenario]
    ) -> "Standing | None":
        ran = [one for one in played if part in one.rates]
        if not ran:
            return None
        given = [one for one in ran if scenarios[one.scenario].kind != "attack"]
        sized = [one for one in given if not math.isnan(one.size(part).mean)]
        worst = max(ran, key=lambda one: one.rate(part).mean)
        return Standing(
            entrant=played[0].entrant,
            told=played[0].told,
            kept=sum(self.keeps(one, part) for one in ran),
            ran=len(ran),
            scenarios=len(scenarios),
            rate=_mean_by_run([one.rates[part] for one in given]),
            worst=worst.rate(part),
            worst_on=worst.scenario,
            size=_mean_by_run([one.sizes[part] for one in sized], geometric=True),
        )


@dataclass(frozen=True)
class Standing:
    """An entrant over all scenarios of a kind; one that it cannot play counts as not kept.

    Means are over what it played, the attacks apart; that of sizes is geometric.
    """

    entrant: str
    told: str
    kept: int
    ran: int
    scenarios: int
    rate: Estimate
    worst: Estimate
    worst_on: str
    size: Estimate


def _mean_by_run(values: list[list[float]], *, geometric: bool = False) -> Estimate:
    """Return the mean over scenarios, with its error over runs."""
    if not values:
        return Estimate(math.nan, math.nan)
    table = np.array(values)
    if geometric:
        return estimate(np.exp(np.log(np.maximum(table, 1e-3)).mean(axis=0)).tolist())
    return estimate(table.mean(axis=0).tolist())


def list_entrants() -> list[str]:
    """Return the learners, those of installed packages included, the gates' rules and the peers."""
    return [*LEARNERS, *GATES, *(name for name, rule in PEERS.items() if rule.installed)]


def pick_entrants(asked: Sequence[str] | None) -> list[str]:
    """Return those of these names; "learners" and "peers" stand for all of a kind."""
    known = list_entrants()
    if asked is None:
        return known
    kinds = {"peers": [name for name in known if name in PEERS]}
    kinds["learners"] = [name for name in known if name not in PEERS]
    picked: list[str] = []
    for name in asked:
        if name not in kinds and name not in known:
            rule = PEERS.get(name)
            hint = f"pip install {rule.package}" if rule else f"there are {', '.join(known)}"
            raise InvalidError(f"there is no {name!r} to play here; {hint}")
        picked += kinds.get(name, [name])
    return list(dict.fromkeys(picked))


def pick_board_scenarios(asked: Sequence[str] | None) -> list[BoardScenario]:
    for name in asked or ():
        if name not in SCENARIOS:
            raise InvalidError(f"the board has no scenario {name!r}; it has {', '.join(SCENARIOS)}")
    return [SCENARIOS[name] for name in asked or SCENARIOS]


def list_pairs(
    entrants: Iterable[str], scenarios: Iterable[BoardScenario]
) -> list[tuple[str, BoardScenario]]:
    """Return who plays what: gates' rules on gates, all others on the rest."""
    everyone = list(entrants)
    return [
        (name, one)
        for one in scenarios
        for name in everyone
        if (name in GATES) == (one.division is GATED)
    ]


def play(entrant: str, scenario: BoardScenario, size: Size) -> BoardCell:
    if scenario.division is GATED:
        return _play_gate(entrant, scenario, size)
    if entrant in PEERS:
        return _play_peer(entrant, scenario, size)
    return _play_learner(entrant, scenario, size)


def make_key(entrant: str) -> str:
    """Return what tells an entrant's code from any other: a version, or a digest of its kernels."""
    if entrant in PEERS:
        return f"{PEERS[entrant].package} {PEERS[entrant].installed}"
    rule = (GATES if entrant in GATES else LEARNERS)[entrant]
    kernels: list[Any] = [rule.choose, rule.observe]
    return " ".join(fingerprint(one) for one in kernels)


@cache
def _draw(scenario: BoardScenario, size: Size) -> tuple[Listed, list[Scenario]]:
    listed = list_scenarios()[scenario.of]
    return listed, draw_rounds([listed], _make_terms(scenario, size))[listed.name]


def _make_terms(scenario: BoardScenario, size: Size, feedback: str = Feedback.SEMI_BANDIT) -> Terms:
    return Terms(
        alpha=ALPHA, rounds=size.rounds, runs=size.runs, seed=SEED, feedback=feedback,
        channel=scenario.channel,
    )  # fmt: skip


def _play_learner(name: str, scenario: BoardScenario, size: Size) -> BoardCell:
    needs = LEARNERS[name].needs
    feedback = Feedback.FULL if needs is Needs.LABEL_ALWAYS else Feedback.SEMI_BANDIT
    terms = _make_terms(scenario, size, feedback)
    listed, staged = _draw(scenario, size)
    try:
        learner = make_entrant(name, listed, staged, terms)
    except HorizonError as error:
        return BoardCell(name, scenario.name, needs.value, make_key(name), refusal=str(error))
    told = feedback.tells if learner.informed else needs
    run = play_entrant(learner, listed, staged, terms)
    runs = zip(run.scores, run.misses, run.thresholds, strict=True)
    return _judge(name, scenario, told.value, size, staged, runs)


def _judge(
    name: str,
    scenario: BoardScenario,
    told: str,
    size: Size,
    staged: list[Scenario],
    runs: Iterable[tuple[Array, Array, Array]],
) -> BoardCell:
    """Return the cell of some runs, each given by its scores, misses and thresholds."""
    rates: dict[str, list[float]] = {part: [] for part in scenario.parts}
    sizes: dict[str, list[float]] = {part: [] for part in scenario.parts}
    for number, (scores, misses, thresholds) in enumerate(runs):
        given = staged[number] if staged else DriftScenario(scores)
        own = given.sizes(thresholds)
        best = given.sizes(best_per_segment(given.scores, ALPHA, given.changes))
        for part in scenario.parts:
            rounds = size.slice_part(part)
            relative = math.nan if not staged else _divide(own[rounds], best[rounds])
            rates[part].append(_round(misses[rounds].mean()))
            sizes[part].append(relative)
    return BoardCell(name, scenario.name, told, make_key(name), rates, sizes)


def _divide(own: Array, best: Array) -> float:
    return _round(own.mean() / best.mean()) if best.mean() > 0.0 else math.nan


def _round(value: float) -> float:
    return float(f"{value:.5g}")


def _play_peer(name: str, scenario: BoardScenario, size: Size) -> BoardCell:
    rule = PEERS[name]
    if scenario.kind != "intervals" and not rule.labels:
        reason = "it places both ends of an interval, and has no use for the score of a label"
        return BoardCell(name, scenario.name, _TOLD_ALL, make_key(name), refusal=reason)
    _, staged = _draw(scenario, size)
    runs = [
        _run_peer(rule, scenario, staged[run : run + 1], SEED + run, size) for run in range(size.runs)
    ]
    return _judge(name, scenario, _TOLD_ALL, size, staged, runs)


def _run_peer(
    rule: PeerRule, scenario: BoardScenario, staged: list[Scenario], seed: int, size: Size
) -> tuple[Array, Array, Array]:
    """Play one run; return scores, misses, and the thresholds at which sets are as large.

    Which answers come, and when, is as in the learners' run of that seed.
    """
    attack = None if staged else adversaries.find(scenario.of)
    hard = adversaries.repertoire(size.rounds, seed=seed)
    notes = adversaries.notes()
    errors = read_errors(staged[0]) if staged else np.empty(size.rounds)
    deliveries = scenario.channel.deliver(size.rounds, seed=seed)
    comes = deliveries.report < deliveries.told_if_hit
    misses, thresholds = np.zeros(size.rounds, dtype=bool), np.empty(size.rounds)
    with warnings.catch_warnings():
        peer = rule.make(ALPHA)
        warnings.simplefilter("ignore")  # Of small samples they warn in every round.
        ends, sent = _ask(peer), 0
        for n in range(size.rounds):
            lower, upper = ends
            two_sided = scenario.kind == "intervals"
            thresholds[n] = 1.0 - (0.5 * (upper - lower) if two_sided else upper) - 1e-12
            if attack is not None:
                played = adversaries.next_score(attack.kind, notes, hard, n, thresholds[n], ALPHA)
                errors[n] = 1.0 - played
            misses[n] = errors[n] > upper or (two_sided and errors[n] < lower)
            if attack is not None:
                adversaries.take_note(notes, bool(misses[n]))
            back: list[float] = []
            while sent < size.rounds and deliveries.arrivals[deliveries.order[sent]] <= n:
                number = int(deliveries.order[sent])
                back += [float(errors[number])] if comes[number] else []
                sent += 1
            if back:
                peer.learn(back)
                ends = _ask(peer)
    return 1.0 - np.abs(errors), misses, thresholds


def _ask(peer: Any) -> tuple[float, float]:
    """Return a peer's interval within [-1, 1]; everything where it names no number."""
    return tuple(  # type: ignore[return-value]
        widest if math.isnan(end) else min(1.0, max(-1.0, end))
        for end, widest in zip(peer.ask(), EVERYTHING, strict=True)
    )


def read_errors(scenario: Scenario) -> Array:
    """Return the errors of forecasts, signed, in units of the bound; of labels 1 - score."""
    sizes = 1.0 - scenario.scores
    if isinstance(scenario, AirfoilScenario):
        return np.copysign(sizes, scenario.outcomes - scenario.centres)
    if isinstance(scenario, ForecastScenario):
        return np.copysign(sizes, scenario.errors)
    return sizes


@cache
def _draw_cases(name: str, rounds: int, seed: int) -> GateCases:
    return GATE_SCENARIOS[name](rounds, seed=seed)


def _play_gate(name: str, scenario: BoardScenario, size: Size) -> BoardCell:
    learner: Learner = make(name, alpha=ALPHA)
    delays = np.full(size.rounds, int(scenario.channel.delay))
    rates: dict[str, list[float]] = {part: [] for part in scenario.parts}
    sizes: dict[str, list[float]] = {part: [] for part in scenario.parts}
    for number in range(size.gate_runs):
        cases = _draw_cases(scenario.of, size.rounds, SEED + number + 1)
        run = simulate_gate(learner, *cases, seed=SEED + number, audit=scenario.audit, delays=delays)
        threshold, most = best_fixed(*cases, alpha=ALPHA)
        best = cases.scores >= threshold
        for part in scenario.parts:
            rounds = size.slice_part(part)
            accepted = run.accepted[rounds]
            wrong = run.wrong[rounds][accepted]
            rates[part].append(_round(wrong.mean()) if wrong.size else 0.0)
            is_known = most >= _FEW and best[rounds].any()
            sizes[part].append(_round(accepted.mean() / best[rounds].mean()) if is_known else math.nan)
    return BoardCell(name, scenario.name, "the accepted", make_key(name), rates, sizes)


def play_board(
    entrants: Sequence[str],
    scenarios: Sequence[BoardScenario],
    size: Size,
    folder: Path,
    *,
    report: Callable[[str], None] = lambda _: None,
) -> Board:
    """Play what the folder does not hold yet, and return all that it holds of these scenarios.

    Each cell is a file, written when it is finished, so that a run can be stopped and continued, and
    environments with other libraries can add to it.
    """
    pairs = list_pairs(entrants, scenarios)
    for entrant, scenario in pairs:
        report(f"{entrant} on {scenario.name}")
        path = _find_cell(folder, size, entrant, scenario.name)
        if path.exists() and _read_cell(path).key == make_key(entrant):
            continue
        played = play(entrant, scenario, size)
        path.parent.mkdir(parents=True, exist_ok=True)
        snapshot.write(path, _write_cell(played).encode())
    names, places = {one.name for one in scenarios}, list(SCENARIOS)
    kept = [_read_cell(path) for path in sorted(_find_folder(folder, size).glob("*.json"))]
    shown = [one for one in kept if one.scenario in names]
    shown.sort(key=lambda one: (places.index(one.scenario), one.entrant))
    return Board(size, tuple(shown))


def _find_folder(folder: Path, size: Size) -> Path:
    return folder / f"v{VERSION}-{size.rounds}x{size.runs}"


def _find_cell(folder: Path, size: Size, entrant: str, scenario: str) -> Path:
    name = "".join(letter if letter.isalnum() or letter in "+-" else "_" for letter in entrant)
    return _find_folder(folder, size) / f"{scenario}--{name}.json"


def _read_cell(path: Path) -> BoardCell:
    try:
        return _make_played(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, KeyError) as error:
        raise KeyholeError(
            f"{path} cannot be read ({error}); delete it and it is played again"
        ) from None


def _make_played(fields: dict[str, Any]) -> BoardCell:
    return BoardCell(**_map_sizes(fields, lambda size: math.nan if size is None else size))


def _write_cell(played: BoardCell) -> str:
    """Return a cell as JSON, in which NaN is null."""
    return json.dumps(_map_sizes(asdict(played), lambda size: None if math.isnan(size) else size))


def _map_sizes(fields: dict[str, Any], change: Callable[[Any], float | None]) -> dict[str, Any]:
    sizes = {part: [change(value) for value in values] for part, values in fields["sizes"].items()}
    return {**fields, "sizes": sizes}


def write_record(board: Board, path: Path) -> None:
    head = {"version": VERSION, "alpha": ALPHA, "seed": SEED, "size": asdict(board.size)}
    cells = ",\n".join(map(_write_cell, board.played))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{json.dumps(head)[:-1]}, "played": [\n{cells}\n]}}\n', encoding="utf-8")


def read_record(path: Path) -> Board:
    record = json.loads(path.read_text(encoding="utf-8"))
    if record["version"] != VERSION:
        raise InvalidError(f"{path} is of version {record['version']} of the board, not {VERSION}")
    return Board(Size(**record["size"]), tuple(map(_make_played, record["played"])))


def list_absent() -> Iterator[str]:
    """Yield the packages of peers that are not installed here."""
    yield from dict.fromkeys(rule.package for rule in PEERS.values() if rule.installed is None)
