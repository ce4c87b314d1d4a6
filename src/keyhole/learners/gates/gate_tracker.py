"""The gate tracker: a threshold above which answers are used without asking, and a budget of wrongs.

It stands on two legs. The **guard** accepts only while one more wrong answer would leave the excess,
sum((wrong - alpha) / chance) over the accepted and judged, within a budget that grows with the root of
the rounds: that alone is the promise, whatever the threshold does; docs/guarantees-gate.md has the
proof. The **threshold** moves on the logit scale by wrong - alpha, and by what is left of the excess,
so that the share of wrong answers settles at alpha itself.

Scores need not be probabilities. A step of a twentieth of a logit is hardly one among scores that
spread over ten logits, and passes all of them where they lie between 0.78 and 0.79. So the threshold
moves in logits, or in the distance that half of the scores keep from it where that is less; from where
a trial would put it, while it lies higher than that.
"""

import math
from typing import NamedTuple

import numpy as np

from keyhole.errors import InvalidError, TheoremError
from keyhole.feedback import Answer, Needs
from keyhole.learners.gates import ACCEPTED, CHANCE, OWN
from keyhole.learners.lateness import Excess, Lateness
from keyhole.learners.layout import COUNT
from keyhole.learners.parameters import number, parameters, positive, target
from keyhole.learners.rule import EVERY, NONE, About, Ask, Rule
from keyhole.numeric import Array, Counts, kernel, logit, sigmoid

EDGE = math.log((1.0 - 1e-6) / 1e-6)  # beyond this logit a threshold is all or nothing
_TOP = EDGE + 1.0  # so far the threshold can go: one that no score reaches, not even 1
_START = 3.0  # it starts where an honest probability of being wrong would be three times alpha
_PULL = 0.1  # times step squared: a little below critical damping, where wrongs fall e-fold a logit
_CALM = 5.0  # judgements of excess that chance alone explains; beyond, steps grow by a tenth for each
_FASTEST = 4.0  # but to no more than this many times the step
_MOST_PULL = 20.0  # judgements of excess beyond which the pull grows no more
_CREEP = 0.01  # steps down per referred round, times alpha, while there is credit
_RUN = 3.0  # a run of right answers longer than this over alpha hastens the way down
_HALVED_AT = 120.0  # an answer this stale moves half as far
_QUIET = 750.0  # rounds without accepting, after which high scores are tried: each trial costs a wrong
_EARLY = 100.0  # but for the first time after as many: scores may all lie below where it starts
_BAND = 0.5  # units below the threshold in which judged referred cases are watched
_CREDIT = 2.0  # what the band must have earned before the threshold moves to its lower end
_LATE = 2.0  # budget for every answer of lateness
_FACTOR = 1.02  # by which a score moves the distance that half of them keep
_NEAREST = 0.001  # so that it can grow again after a thousand equal scores
_TENTH = 0.1  # high is what one case in ten reaches
_PACE = 0.1  # units by which high follows
_NO = np.zeros(1, dtype=np.int64)
_OPEN, _FLOOR = OWN, OWN + 1  # what a round remembers: whether the guard was open, its own threshold


@parameters
class GateTrackerParameters:
    """The parameters of the gate tracker; none of them needs tuning."""

    alpha: float = target("Target share of wrong answers among the accepted, between 0 and 1/2.")
    budget: float = number("How many wrongs beyond that it may spend at once.", default=20.0, least=1.0)
    growth: float = number(
        "The budget grows by growth sqrt(rounds); at 0 a gate that spent it is closed for ever.",
        default=0.3,
        least=0.0,
    )
    memory: float | None = number(
        "Over how many rounds the promise speaks; None for the gate's whole life.",
        default=None,
        least=10.0,
        remedy="try 5000",
    )
    step: float = positive("The step in logits, in calm times.", default=0.05)
    first: float = positive("Judgement n steps by at least first / (1 + alpha n).", default=0.5)

    def complete(self) -> None:
        if self.first < self.step:
            raise InvalidError(
                f"first step {self.first} is below the last, {self.step}; make it at least as large"
            )

    @property
    def window(self) -> float:
        """The memory, 0 for a whole life."""
        return self.memory or 0.0

    def excess(self, rounds: int) -> Excess:
        """Return the bounds.

        The guard lets a round through only if one more wrong answer leaves the excess within the
        budget, so that it stays there; each answer takes at most alpha off it. What a memory of m
        rounds forgets is at most budget / m a round. See docs/guarantees-gate.md.
        """
        most = allowance(self, float(rounds))
        forgotten = most * rounds / self.window if self.window > 0.0 else 0.0
        return Excess(least=-self.alpha * rounds, most=most + forgotten)

    def late_excess(self, rounds: int, lateness: Lateness) -> Excess:
        """Return the bounds where so many rounds wait at once for their judgement.

        The guard allows for lateness, and of what waited when it shut all may be wrong but the one that
        it had made room for.
        """
        if self.window > 0.0:
            raise TheoremError("no theorem bounds late judgements together with a memory; leave it out")
        least, most = self.excess(rounds)
        waiting = (lateness.open - 1) * (1.0 - self.alpha)
        return Excess(least, most + _LATE * lateness.level(rounds) + waiting)


class GateTrackerState(NamedTuple):
    """What the gate knows; every part is one number."""

    position: Array = np.zeros(1)  # the logit of the threshold
    excess: Array = np.zeros(1)  # sum((wrong - alpha) / chance), less what is forgotten
    weight: Array = np.ones(1)  # how many accepted answers a judgement stands for, on average
    grain: Array = np.ones(1)  # the same for steps: its root for audits, whole for erring judges
    judged: Counts = _NO  # accepted and judged
    rounds: Counts = _NO  # decided
    late: Array = np.zeros(1)  # how late judgements really are: grows by one for each that is older
    quiet: Counts = np.array([_QUIET - _EARLY], dtype=np.int64)  # rounds since the last accepted one
    run: Array = np.zeros(1)  # right answers since the last wrong one
    trial: Counts = _NO  # 1 while a lower threshold is on trial
    back: Array = np.zeros(1)  # where the threshold returns to if the trial fails
    high: Array = np.zeros(1)  # follows the logit that one case in ten reaches
    near: Array = np.ones(1)  # follows the distance, in logits, that half of the scores keep
    consulted: Counts = _NO  # judgements of referred cases since the last accepted one
    best: Counts = _NO  # right ones since the last wrong one, among referred cases above ``high``
    band: Array = np.zeros(1)  # sum(wrong - alpha) of referred cases just below, at most 0


def start(settings: GateTrackerParameters) -> GateTrackerState:
    honest = max(0.5, 1.0 - _START * settings.alpha)
    position = logit(honest, EDGE)
    state = GateTrackerState(*(part.copy() for part in GateTrackerState._field_defaults.values()))
    for part in (state.position, state.back, state.high):
        part[0] = position
    return state


@kernel
def begins_trial(settings: GateTrackerParameters, state: GateTrackerState) -> bool:
    """Return whether it is time to try high scores again: nothing was accepted for long.

    Where people judge referred cases, their word on high scores stands for the time that passed.
    """
    if state.position[0] <= state.high[0] or not is_open(settings, state):
        return False
    if state.consulted[0] * settings.alpha >= 1.0:
        return state.best[0] * settings.alpha >= 1.0
    return state.quiet[0] >= _QUIET


@kernel
def threshold_at(position: float) -> float:
    """Return the threshold of a position; beyond the edges it is all or nothing."""
    if position <= -EDGE:
        return EVERY
    return NONE if position > EDGE else sigmoid(position)


@kernel
def choose(settings: GateTrackerParameters, state: GateTrackerState, memo: Array, ask: Ask) -> float:
    """Return the threshold of this position, or one that nothing reaches while the guard is shut."""
    threshold = threshold_at(state.position[0])
    if begins_trial(settings, state):
        threshold = threshold_at(state.high[0])
    is_allowed = is_open(settings, state)
    memo[_OPEN] = 1.0 if is_allowed else 0.0
    memo[_FLOOR] = threshold
    return threshold if is_allowed else NONE


@kernel
def observe(
    settings: GateTrackerParameters, state: GateTrackerState, memo: Array, answer: Answer
) -> None:
    """Take note of a decision (its miss is NaN), or of a judgement."""
    if answer.miss != answer.miss:  # NaN
        note_decision(settings, state, memo, answer.score)
    elif memo[ACCEPTED] > 0.0:
        before = state.excess[0] / state.grain[0]
        count_wrong(settings, state, memo[CHANCE], answer)
        move(settings, state, before, math.sqrt(1.0 / memo[CHANCE]), answer)
    else:
        learn_from_referred(settings, state, memo, answer)


@kernel
def note_decision(
    settings: GateTrackerParameters, state: GateTrackerState, memo: Array, score: float
) -> None:
    """Count the round; creep down while there is credit; forget what the memory does not reach."""
    place = logit(score, EDGE)
    if begins_trial(settings, state):
        state.back[0] = state.position[0]
        state.position[0] = state.high[0]
        state.trial[0] = 1
        state.quiet[0] = 0
        state.best[0] = 0
    watch_scores(state, place)
    state.rounds[0] += 1
    if settings.window > 0.0 and state.excess[0] > 0.0:
        state.excess[0] -= state.excess[0] / settings.window
    if memo[ACCEPTED] > 0.0:
        state.quiet[0] = 0
        state.consulted[0] = 0
        return
    state.quiet[0] += 1
    if state.excess[0] < 0.0:
        credit = min(1.0, -state.excess[0] / state.weight[0])
        down = _CREEP * settings.alpha * credit / state.weight[0] * unit(state)
        state.position[0] = max(-EDGE, state.position[0] - down)


@kernel
def move(
    settings: GateTrackerParameters,
    state: GateTrackerState,
    before: float,
    scale: float,
    answer: Answer,
) -> None:
    """Move the threshold by wrong - alpha, and by the excess that is left.

    How far is settled by the excess from before: one wrong answer must not choose its own step.
    """
    alpha = settings.alpha
    spread = spread_of(answer.miss)
    flow = 1.0 / (1.0 + answer.stale / _HALVED_AT)
    owed = state.excess[0] / state.grain[0]
    haste = min(_FASTEST, 1.0 + 0.1 * max(0.0, abs(before) - _CALM))
    early = settings.first / (1.0 + alpha * state.judged[0])
    step = max(settings.step * haste, early) * flow
    shift = step * (answer.miss - alpha) / spread * scale
    if answer.miss < alpha:
        # Told right; one who errs at rate q says wrong at rate q + alpha (1 - 2q) where all is well.
        usual = 0.5 - 0.5 / spread + alpha / spread
        state.run[0] += flow
        shift *= max(1.0, state.run[0] * usual / _RUN)
        if state.run[0] * usual >= 1.0:
            state.trial[0] = 0
    else:
        state.run[0] = 0.0
        if state.trial[0] > 0:
            state.position[0] = max(state.position[0], state.back[0])
        state.trial[0] = 0
    pull = _PULL * step * step * alpha * min(_MOST_PULL, max(-_MOST_PULL, owed))
    moved = state.position[0] + (shift + pull) * unit(state)
    state.position[0] = min(_TOP, max(-EDGE, moved))


@kernel
def learn_from_referred(
    settings: GateTrackerParameters, state: GateTrackerState, memo: Array, answer: Answer
) -> None:
    """Use a judgement of a referred case: it tells what every lower threshold would have done.

    Nothing was accepted, so that the excess stays as it is.
    """
    place = logit(answer.score, EDGE)
    state.consulted[0] += 1
    if place >= state.high[0]:
        state.best[0] = state.best[0] + 1 if answer.miss < settings.alpha else 0
    if memo[_OPEN] == 0.0 and answer.score >= memo[_FLOOR]:
        before = state.excess[0] / state.grain[0]
        move(settings, state, before, 1.0, answer)  # The guard alone was against it.
        return
    band = _BAND * unit(state)
    if place < state.position[0] - band:
        return
    error = (answer.miss - settings.alpha) / spread_of(answer.miss)
    state.band[0] = min(0.0, state.band[0] + error)
    if state.band[0] <= -_CREDIT:
        state.position[0] = max(-EDGE, state.position[0] - band)
        state.band[0] = 0.0


@kernel
def allowance(settings: GateTrackerParameters, rounds: float) -> float:
    """Return the budget by that round, in wrong answers beyond alpha of the accepted."""
    counted = min(rounds, settings.window) if settings.window > 0.0 else rounds
    return settings.budget + settings.growth * math.sqrt(counted)


@kernel
def is_open(settings: GateTrackerParameters, state: GateTrackerState) -> bool:
    """Return whether one more wrong answer would leave the excess within the budget."""
    budget = allowance(settings, state.rounds[0] + 1.0) + _LATE * state.late[0]
    return state.excess[0] / state.weight[0] + (1.0 - settings.alpha) <= budget


@kernel
def spread_of(wrong: float) -> float:
    """Return 1 / (1 - 2q), from what a judge who errs at rate q comes to: (judged - q) / (1 - 2q)."""
    return abs(2.0 * wrong - 1.0)


@kernel
def count_wrong(
    settings: GateTrackerParameters, state: GateTrackerState, chance: float, answer: Answer
) -> None:
    """Add a judged accepted answer to the excess."""
    spread = spread_of(answer.miss)
    if answer.age > state.late[0]:
        state.late[0] += 1.0
    state.excess[0] += (answer.miss - settings.alpha) / chance
    state.weight[0] += (spread / chance - state.weight[0]) / (state.judged[0] + 2.0)
    state.grain[0] += (spread * math.sqrt(1.0 / chance) - state.grain[0]) / (state.judged[0] + 2.0)
    if settings.window > 0.0:
        # Credit from before the window must not pay for wrong answers in it.
        least = -allowance(settings, state.rounds[0]) * state.weight[0]
        state.excess[0] = max(least, state.excess[0])
    state.judged[0] += 1


@kernel
def unit(state: GateTrackerState) -> float:
    """Return how many logits the threshold moves where it would move one."""
    return min(1.0, state.near[0])


@kernel
def watch_scores(state: GateTrackerState, place: float) -> None:
    """Follow the distance that half of the scores keep, and the logit that one in ten reaches."""
    if state.rounds[0] == 0:
        state.high[0] = place
    if abs(place - min(state.position[0], state.high[0])) > state.near[0]:
        state.near[0] *= _FACTOR
    else:
        state.near[0] = max(_NEAREST, state.near[0] / _FACTOR)
    pace = _PACE * unit(state)
    # A pace lower than one in ten reaches: around a score that many share it would hover above them.
    reached = 1.0 if place > state.high[0] + pace else 0.0
    state.high[0] = min(EDGE, max(-EDGE, state.high[0] + pace * (reached - _TENTH)))


gate_tracker = Rule(
    name="gate-tracker",
    needs=Needs.HIT_OR_MISS,
    parameters=GateTrackerParameters,
    choose=choose,
    observe=observe,
    state=start,
    memory=OWN + 2,
    limits=lambda _: {"judged": COUNT, "rounds": COUNT},
    graded=True,
    kind="gate",
    about=About(
        summary="a threshold that settles where alpha of the accepted are wrong, behind a guard",
        guarantee="wrong <= alpha accepted + 20 + 0.3 sqrt(rounds), for certain, if judged at once",
        source="this project; docs/guarantees-gate.md has the proof",
    ),
)
