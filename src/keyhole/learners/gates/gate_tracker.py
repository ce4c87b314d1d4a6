"""The gate tracker: accept the best of the cases, as many as keep alpha; and a budget of wrongs.

It stands on two legs. The **guard** accepts only while one more wrong answer would leave the excess,
sum((wrong - alpha) / chance) over the accepted and judged, within a budget that is small at first and
grows with the root of the rounds: that alone is the promise, whatever the threshold does;
docs/guarantees-gate.md has the proof. The **position** is the share of cases that are referred, as a
logit. It starts high, where one case in eight is accepted, and moves by wrong - alpha; an excess
pushes it up, so that it is given back, and a credit down, so that it is spent. Who goes down by one
step for every answer less than alpha that was wrong has no excess on the way: that is why the gate is
honest from its first decision.

The threshold is where that rank is among 64 of the scores seen, so that scores need not be
probabilities: any that order the cases will do.
"""

import math
from typing import ClassVar, NamedTuple

import numpy as np

from keyhole.errors import TheoremError
from keyhole.feedback import Answer, Needs
from keyhole.learners.gates import ACCEPTED, CHANCE, FOR_GATES, OWN
from keyhole.learners.lateness import Excess, Lateness
from keyhole.learners.layout import COUNT
from keyhole.learners.parameters import number, parameters, target
from keyhole.learners.rule import EVERY, NONE, About, Ask, Rule
from keyhole.numeric import Array, Counts, called, exp, kernel, logit, sigmoid

_START = 2.0  # the position of the first round: 0.88 are referred
_TOP = 3.0  # from this position on all are, and none from minus this on
_CLOSED = 3.5  # the highest position, and minus this the lowest
_HIGH = 2.2  # that of a trial: one case in ten is accepted
_KEPT = 64  # scores
_REACH = 20_000.0  # rounds over which the scores that are kept are spread
_GOLDEN = 0.6180339887498949  # its multiples, less what is whole, are spread evenly
_FIRST = 1.0  # judgement n steps by at least first / (1 + alpha n),
_MIDDLE = 2.0  # by at least middle alpha / sqrt(1 + n / 300), so that noise keeps the excess near 2,
_FADES = 300.0
_LAST = 0.01  # and by at least this
_CALM = 1.5  # wrong answers of excess, times (1 + n / 300)^(3/4), beyond which steps grow
_HASTE = 0.3  # by so much for each,
_FASTEST = 4.0  # but to no more than this many times the step
_PULL = 0.03  # times alpha and step squared, for every wrong answer of excess, in the end;
_REPAY = 0.02  # and times step squared alone at first
_MOST_PULL = 20.0  # wrong answers of excess beyond which the pull grows no more
_STRICTEST = 0.5  # times alpha: what the pull takes off the target at most
_SPARE = 6.0  # wrong answers of credit, times sqrt(1 + n / 300), which are not spent;
_SPEND = 0.1  # times alpha: what each one more adds to the target,
_FREEST = 1.0  # at most
_CREEP = 0.01  # down per referred round, times alpha, while there is credit
_HALVED_AT = 120.0  # an answer this stale moves half as far
_QUIET = 100.0  # rounds without accepting, after which high scores are tried,
_DEAR = 250.0  # and so many more for each wrong answer of excess: each trial may cost one
_LONGEST = 1000.0  # but no more than this;
_PATIENCE = 20.0  # times as many against what is said of referred cases
_ENOUGH = 20.0  # judgements of referred cases, after which half is believed of what they say
_DOUBT = 0.5  # times alpha: by how much more the accepted must be expected to be wrong to move up,
_MARGIN = 0.1  # and by how much less to move down, where no more than a few of them are audited
_SWIFT = 2.0  # times as fast it moves then, and more
_PRIOR = 2.0  # the information in the first curve, of which a judgement brings at most 1/4,
_SCANT = 0.02  # and at least this
_REMEMBERED = 2000.0  # judgements
_NEARNESS = 0.5  # a case counts e^(nearness times how far it is below the position) times less
_UNHEARD = 0.1  # up for an accepted answer before the first judgement, and in a trial until its own
_LATE = 2.0  # budget for every answer of lateness
_YOUNG_BUDGET = 2.8  # of a gate that knows little, which grows
_TRUST = 0.0095  # by so much for a judgement of an accepted answer,
_TIME = 0.001  # and for a round;
_DAY_BUDGET = 4.0  # but it is no more than this for so many rounds,
_DAY = 1000.0  # and then grows with them
_NO = np.zeros(1, dtype=np.int64)
_OPEN, _FLOOR = OWN, OWN + 1  # what a round remembers: whether the guard was open, its own threshold


@parameters
class GateTrackerParameters:
    """The parameters of the gate tracker; none of them needs tuning."""

    interpreted: ClassVar[bool] = True
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
        most = allowance(self, float(rounds), float(rounds))
        forgotten = limit(self, float(rounds)) * rounds / self.window if self.window > 0.0 else 0.0
        return Excess(least=-self.alpha * rounds, most=most + forgotten)

    def late_excess(self, rounds: int, lateness: Lateness) -> Excess:
        """Return the bounds where so many rounds wait at once for their judgement.

        The guard allows for lateness, and of what waited when it shut all may be wrong but the one that
        it had made room for. Audits and judges who err make every judgement count for more, and the
        guard measures by what they count for on average.
        """
        if self.window > 0.0:
            raise TheoremError(
                "no theorem bounds late judgements together with a memory, nor audits; leave it out"
            )
        return self._bound_late(rounds, lateness, lateness.level(rounds))

    def _bound_late(self, rounds: int, lateness: Lateness, level: int) -> Excess:
        low, high = lateness.told
        scale = lateness.weight * max(1.0, 2.0 * high - 1.0, 1.0 - 2.0 * low)
        room = self.excess(rounds).most + _LATE * level - (1.0 - self.alpha)
        each = lateness.weight * (high - self.alpha)
        least = lateness.weight * (low - self.alpha) * rounds
        # Of those that waited each next one to be judged is older by one: they are level + 1 at most.
        return Excess(least, scale * room + min(lateness.open, level + 1) * each)

    def bound_group(self, state: "GateTrackerState", lateness: Lateness) -> Excess | None:
        """Return the bounds on a group's account; None with a memory, which forgets some of it."""
        if self.window > 0.0:
            return None
        rounds, level = max(1, int(state.rounds[0])), int(state.late[0])  # its own
        return self._bound_late(rounds, lateness, level)._replace(least=-math.inf)


class GateTrackerState(NamedTuple):
    """What the gate knows; every part but the scores is one number."""

    scores: Array  # some of those seen, sorted; the first is 1 - alpha, which nobody saw
    position: Array = np.full(1, _START)  # the logit of the share that is referred
    excess: Array = np.zeros(1)  # sum((wrong - alpha) / chance), less what is forgotten
    weight: Array = np.ones(1)  # how many accepted answers a judgement stands for, on average
    grain: Array = np.ones(1)  # the same for steps: its root for audits, whole for erring judges
    judged: Counts = _NO  # accepted and judged
    rounds: Counts = _NO  # decided
    late: Array = np.zeros(1)  # how late judgements really are: grows by one for each that is older
    quiet: Counts = _NO  # rounds since the last accepted one, or the last trial
    run: Array = np.zeros(1)  # right answers since the last wrong one
    back: Array = np.full(1, -_CLOSED)  # where the position returns to if a trial fails
    heard: Counts = _NO  # judgements of referred cases
    level: Array = np.zeros(1)  # the logit of the chance to be wrong, at position 0,
    slope: Array = np.full(1, 0.5)  # and by how much it falls from a position to the next;
    sure: Array = np.array([_PRIOR, 0.0, _PRIOR])  # how well both are known: their information matrix


def start(settings: GateTrackerParameters) -> GateTrackerState:
    scores = np.zeros(_KEPT)
    scores[0] = 1.0 - settings.alpha
    return GateTrackerState(
        scores, *(part.copy() for part in GateTrackerState._field_defaults.values())
    )


@called
def begins_trial(settings: GateTrackerParameters, state: GateTrackerState) -> bool:
    """Return whether it is time to try high scores again: nothing was accepted for long.

    Where people judge referred cases, what they say stands for most of the time that passed.
    """
    if state.position[0] <= _HIGH or not is_open(settings, state):
        return False
    spent, quiet = max(0.0, state.excess[0] / state.weight[0]), state.quiet[0]
    wait = min(_LONGEST, _QUIET + _DEAR * spent)
    if state.heard[0] < _ENOUGH:
        return quiet >= wait
    goal = find_goal(settings, state)
    if quiet * settings.alpha >= 1.0 and expect_wrong(state, _HIGH, trust_curve(state)) < goal:
        return True
    return quiet >= _PATIENCE * wait


@called
def find_threshold(state: GateTrackerState, position: float) -> float:
    """Return the score at the rank of a position among those that are kept, or between two of them."""
    if position >= _TOP:
        return NONE
    if position <= -_TOP:
        return EVERY
    kept = count_kept(state)
    rank = kept * sigmoid(position)
    place = int(rank)
    if place >= kept - 1:
        return state.scores[kept - 1]
    below, above = state.scores[place], state.scores[place + 1]
    return below + (above - below) * (rank - place)


@kernel
def count_kept(state: GateTrackerState) -> int:
    return min(_KEPT, state.rounds[0] + 1)


@kernel
def choose(settings: GateTrackerParameters, state: GateTrackerState, memo: Array, ask: Ask) -> float:
    """Return the threshold of this position, or one that nothing reaches while the guard is shut."""
    is_trial = begins_trial(settings, state)
    threshold = find_threshold(state, _HIGH if is_trial else state.position[0])
    is_allowed = is_open(settings, state)
    memo[_OPEN] = 1.0 if is_allowed else 0.0
    memo[_FLOOR] = threshold
    return threshold if is_allowed else NONE


@kernel
def observe(
    settings: GateTrackerParameters, state: GateTrackerState, memo: Array, answer: Answer
) -> None:
    """Take note of a decision (its miss is NaN), of a judgement, or of an amended one."""
    if answer.miss != answer.miss:  # NaN
        note_decision(settings, state, memo, answer.score)
    elif answer.amends > 0.0:
        change = answer.miss - settings.alpha
        state.excess[0] += change / memo[CHANCE]
        moved = state.position[0] + _LAST * change
        state.position[0] = min(_CLOSED, max(-_CLOSED, moved))
    elif memo[ACCEPTED] > 0.0:
        if state.judged[0] == 0:
            state.position[0] = _START
        elif state.back[0] > -_CLOSED:
            state.position[0] -= _UNHEARD
        before = state.excess[0] / state.grain[0]
        count_wrong(settings, state, memo[CHANCE], answer)
        if state.heard[0] > 0:
            fit(state, answer)
        scale = math.sqrt(1.0 / memo[CHANCE]) * (1.0 - trust_curve(state))
        move(settings, state, before, scale, answer)
    else:
        learn_from_referred(settings, state, memo, answer)


@called
def note_decision(
    settings: GateTrackerParameters, state: GateTrackerState, memo: Array, score: float
) -> None:
    """Count the round; creep down while there is credit; forget what the memory does not reach."""
    if begins_trial(settings, state):
        state.back[0] = state.position[0]
        state.position[0] = _HIGH
        state.quiet[0] = 0
        state.run[0] = 0.0
    keep_score(state, score)
    state.rounds[0] += 1
    if settings.window > 0.0 and state.excess[0] > 0.0:
        state.excess[0] -= state.excess[0] / settings.window
    if memo[ACCEPTED] > 0.0:
        state.quiet[0] = 0
        if state.judged[0] == 0 or state.back[0] > -_CLOSED:
            state.position[0] = min(_CLOSED, state.position[0] + _UNHEARD / state.weight[0])
        return
    state.quiet[0] += 1
    if state.excess[0] < 0.0:
        credit = min(1.0, -state.excess[0] / state.weight[0])
        down = _CREEP * settings.alpha * credit / state.weight[0]
        state.position[0] = max(-_CLOSED, state.position[0] - down)


@called
def keep_score(state: GateTrackerState, score: float) -> None:
    """Sort a score into those that are kept: all at first, then one every so many, for another."""
    kept, rounds = state.rounds[0] + 1, state.rounds[0]
    place = kept
    if kept >= _KEPT:
        if rounds % int(min(_REACH, rounds + 1.0) / _KEPT) != 0:
            return
        turn = rounds * _GOLDEN
        place = int((turn - math.floor(turn)) * _KEPT)
    scores = state.scores
    while kept >= _KEPT and place < _KEPT - 1 and scores[place + 1] < score:
        scores[place] = scores[place + 1]
        place += 1
    while place > 0 and scores[place - 1] > score:
        scores[place] = scores[place - 1]
        place -= 1
    scores[place] = score


@called
def move(
    settings: GateTrackerParameters,
    state: GateTrackerState,
    before: float,
    scale: float,
    answer: Answer,
) -> None:
    """Move the position by wrong - alpha, and by the excess that is left.

    How far is settled by the excess from before: one wrong answer must not choose its own step.
    """
    alpha, judged = settings.alpha, state.judged[0]
    spread = spread_of(answer.miss)
    flow = 1.0 / (1.0 + answer.stale / _HALVED_AT)
    young = 1.0 / math.sqrt(1.0 + judged / _FADES)
    haste = min(_FASTEST, 1.0 + _HASTE * max(0.0, before - _CALM / (young * math.sqrt(young))))
    later = max(_LAST, _MIDDLE * alpha * young)
    step = max(later * haste, _FIRST / (1.0 + alpha * judged)) * flow
    if answer.miss < alpha:
        # Told right; one who errs at rate q says wrong at rate q + alpha (1 - 2q) where all is well.
        usual = 0.5 - 0.5 / spread + alpha / spread
        state.run[0] += flow
        if state.run[0] * usual >= 1.0:
            state.back[0] = -_CLOSED
    else:
        state.run[0] = 0.0
        state.position[0] = max(state.position[0], state.back[0])
        state.back[0] = -_CLOSED
    owed = state.excess[0] / state.grain[0]
    if owed > 0.0:
        share = _PULL * alpha * (1.0 - young) + _REPAY * young
        pull = min(_STRICTEST * alpha * step, share * step * step * min(_MOST_PULL, owed))
    else:
        spare = _SPARE / young + alpha * answer.stale  # What is not heard yet may have eaten it.
        pull = -alpha * step * min(_FREEST, _SPEND * max(0.0, -owed - spare))
    moved = state.position[0] + step * (answer.miss - alpha) / spread * scale + pull
    state.position[0] = min(_CLOSED, max(-_CLOSED, moved))


@called
def learn_from_referred(
    settings: GateTrackerParameters, state: GateTrackerState, memo: Array, answer: Answer
) -> None:
    """Use a judgement of a referred case: move by what all of them say of the accepted ones.

    Nothing was accepted, so that the excess stays as it is.
    """
    state.heard[0] += 1
    fit(state, answer)
    if memo[_OPEN] == 0.0 and answer.score >= memo[_FLOOR]:
        before = state.excess[0] / state.grain[0]
        move(settings, state, before, 1.0, answer)  # The guard alone was against it.
        return
    if state.back[0] > -_CLOSED:
        return
    alpha, curve = settings.alpha, trust_curve(state)
    known = state.judged[0] / state.weight[0] * (1.0 - curve)
    trust = state.heard[0] / (state.heard[0] + _ENOUGH) / (1.0 + alpha * known)
    wrong = expect_wrong(state, min(_TOP, state.position[0]), curve)
    beyond = wrong - find_goal(settings, state)
    if beyond > 0.0:
        beyond = max(0.0, beyond - _DOUBT * alpha * (1.0 - curve))
    step = trust * (1.0 + _SWIFT * curve) * beyond / (1.0 + answer.stale / _HALVED_AT)
    state.position[0] = min(_CLOSED, max(-_CLOSED, state.position[0] + step))


@kernel
def trust_curve(state: GateTrackerState) -> float:
    """Return how much the curve decides: all where referred cases are judged and few accepted ones."""
    return (1.0 - 1.0 / state.weight[0]) * state.heard[0] / (state.heard[0] + _ENOUGH)


@called
def find_goal(settings: GateTrackerParameters, state: GateTrackerState) -> float:
    """Return which share may be expected to be wrong; less than alpha where few are audited.

    Of an excess that nobody hears of nothing is given back: at alpha itself it would grow as the root
    of the accepted.
    """
    young = 1.0 / math.sqrt(1.0 + state.judged[0] / _FADES)
    return settings.alpha * (1.0 - _MARGIN * trust_curve(state) * young)


@called
def fit(state: GateTrackerState, answer: Answer) -> None:
    """Follow the chance to be wrong at the place of a score: a step of Newton's in the likelihood.

    Cases far below the position count less: two numbers cannot say how often all cases are wrong, but
    they can of those that are accepted or nearly so. Where few accepted ones are audited all count,
    because nearly all that is known of the accepted ones is what the others tell.
    """
    place = find_place(state, answer.score)
    chance = sigmoid(state.level[0] - state.slope[0] * place)
    below = max(0.0, state.position[0] - place) * (1.0 - trust_curve(state))
    near = exp(-_NEARNESS * below)
    share = near / (spread_of(answer.miss) * spread_of(answer.miss))
    told, sure = share * max(_SCANT, chance * (1.0 - chance)), state.sure
    # It forgets towards the first curve: where all scores are the same, nothing is divided by nothing.
    faded = near / _REMEMBERED
    sure[0] += told - (sure[0] - _PRIOR) * faded
    sure[1] += -told * place - sure[1] * faded
    sure[2] += told * place * place - (sure[2] - _PRIOR) * faded
    step = share * (answer.miss - chance) / find_determinant(sure)
    state.level[0] += step * (sure[2] + sure[1] * place)
    slope = state.slope[0] - step * (sure[0] * place + sure[1])
    state.slope[0] = min(4.0, max(0.0, slope))


@called
def expect_wrong(state: GateTrackerState, position: float, errors: float) -> float:
    """Return which share of what would be accepted at a position is probably wrong.

    So many standard errors are added: where few accepted answers are audited, a curve that is little
    known must not lead the position down.
    """
    accepted, total, by_level, by_slope = sigmoid(-position), 0.0, 0.0, 0.0
    for part in (0.25, 0.75):
        place = logit(1.0 - part * accepted, _CLOSED + 2.0)
        chance = sigmoid(state.level[0] - state.slope[0] * place)
        total += 0.5 * chance
        by_level += 0.5 * chance * (1.0 - chance)
        by_slope -= 0.5 * chance * (1.0 - chance) * place
    sure = state.sure
    variance = by_level * by_level * sure[2] - 2.0 * by_level * by_slope * sure[1]
    variance += by_slope * by_slope * sure[0]
    variance /= find_determinant(sure)
    return total + errors * math.sqrt(max(0.0, variance))


@kernel
def find_determinant(sure: Array) -> float:
    return max(1.0, sure[0] * sure[2] - sure[1] * sure[1])  # It is 4 at least, unless a file lies.


@called
def find_place(state: GateTrackerState, score: float) -> float:
    """Return the position at which a score would just be accepted."""
    kept = count_kept(state)
    least, most = 0, kept
    while least < most:
        middle = (least + most) // 2
        if state.scores[middle] <= score:
            least = middle + 1
        else:
            most = middle
    return logit((least + 0.5) / (kept + 1.0), _CLOSED)


@kernel
def limit(settings: GateTrackerParameters, rounds: float) -> float:
    """Return the budget by that round, in wrong answers beyond alpha of the accepted."""
    counted = min(rounds, settings.window) if settings.window > 0.0 else rounds
    return settings.budget + settings.growth * math.sqrt(counted)


@kernel
def allowance(settings: GateTrackerParameters, rounds: float, judged: float) -> float:
    """Return how much of the budget there is by that round, for one who heard so many judgements."""
    young = _DAY_BUDGET * max(1.0, rounds / _DAY)
    known = _YOUNG_BUDGET + _TRUST * judged + _TIME * rounds
    return min(limit(settings, rounds), young, known)


@kernel
def is_open(settings: GateTrackerParameters, state: GateTrackerState) -> bool:
    """Return whether one more wrong answer would leave the excess within the budget."""
    budget = allowance(settings, state.rounds[0] + 1.0, float(state.judged[0]))
    most = budget + _LATE * state.late[0]
    return state.excess[0] / state.weight[0] + (1.0 - settings.alpha) <= most


@kernel
def spread_of(wrong: float) -> float:
    """Return 1 / (1 - 2q), from what a judge who errs at rate q comes to: (judged - q) / (1 - 2q).

    What a judge says whose bias is tracked may come to anything between, and stands for one answer.
    """
    return max(1.0, abs(2.0 * wrong - 1.0))


@called
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
        least = -limit(settings, state.rounds[0]) * state.weight[0]
        state.excess[0] = max(least, state.excess[0])
    state.judged[0] += 1


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
    kind=FOR_GATES,
    about=About(
        summary="the best cases, as many as keep alpha of the accepted wrong, behind a guard",
        guarantee="wrong <= alpha accepted + 20 + 0.3 sqrt(rounds), for certain, if judged at once",
        source="this project; docs/guarantees-gate.md has the proof",
    ),
)
