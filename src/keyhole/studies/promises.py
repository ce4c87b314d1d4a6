"""What is promised of a learner, in words and numbers: its certain bound, its theorem, or neither."""

import textwrap

from keyhole.checks import is_whole
from keyhole.errors import HorizonError, TheoremError
from keyhole.learners import SUFFIX, Learner, bounds, strategy
from keyhole.learners.parameters import HORIZON
from keyhole.learners.rule import FOR_SETS

_WIDTH = 80
_INDENT = 11  # as wide as the words that lines begin with
_MOST = int(HORIZON.most)
_AT_ONCE = "every round is answered before the next prediction"


def check_horizon(rounds: int) -> None:
    """Raise if these are no rounds of which anything could be promised."""
    if rounds > _MOST:
        raise HorizonError(f"horizon {rounds:,} is too many rounds to count; use at most {_MOST:,}")
    if not is_whole(rounds, least=1):
        raise HorizonError(f"horizon {rounds} is not a number of rounds, 1 or more; try 10000")


def describe_promises(learner: Learner, *, rounds: int, waiting: int = 1) -> str:
    """Return what is promised after so many rounds, for any learner, 80 columns wide.

    ``waiting`` is how many rounds may be open at once; 1 means answers that come at once.
    """
    check_horizon(rounds)
    certain = _certain if learner.rule.kind == FOR_SETS else _certain_of_decisions
    lines = [
        f"{learner.name}: alpha {learner.alpha:g}, {rounds:,} rounds; {learner.rule.use}",
        "",
        *certain(learner, rounds, waiting),
        *_theorem(learner, rounds),
    ]
    return "\n".join(
        textwrap.fill(line, _WIDTH, subsequent_indent=" " * _INDENT) if line else "" for line in lines
    )


def _certain(learner: Learner, rounds: int, waiting: int) -> list[str]:
    """Return the bounds that hold on every sequence, whatever the draws."""
    try:
        excess = bounds.excess(learner, rounds=rounds, open=waiting)
    except TheoremError as error:
        if hasattr(learner.parameters, "excess"):
            return [f"certain    nothing: {error}."]
        return [
            "certain    nothing: no theorem bounds its misses on every sequence. Behind a valve, "
            f"{learner.name}{SUFFIX}, they are bounded."
        ]
    when = _AT_ONCE if waiting == 1 else f"at most {waiting:,} rounds are open at once"
    low = max(0.0, learner.alpha + excess.least / rounds)
    high = min(1.0, learner.alpha + excess.most / rounds)
    lines = [
        f"certain    misses - alpha T between {excess.least:,.1f} and {excess.most:,.1f}, on every "
        f"sequence, if {when} and threshold 0 cannot miss",
        f"miss rate  between {low:.4f} and {high:.4f} (target {learner.alpha:g})",
    ]
    if high >= 1.0:
        lines.append(f"{'':{_INDENT}}VACUOUS: after so few rounds that says nothing.")
    return lines


def _certain_of_decisions(learner: Learner, rounds: int, waiting: int) -> list[str]:
    """Return the bound on wrong answers; the share of them depends on how much is accepted."""
    try:
        most = bounds.excess(learner, rounds=rounds, open=waiting).most
    except TheoremError:
        return ["certain    nothing: no theorem bounds its wrong answers on every sequence."]
    tenth = max(1, rounds // 10)
    at_once = "every accepted answer is judged before the next decision"
    when = at_once if waiting == 1 else f"at most {waiting:,} rounds wait for their judgement at once"
    return [
        f"certain    wrong - alpha accepted at most {most:,.1f}, on every sequence, if {when}",
        f"wrong      at most {_cap(learner.alpha + most / rounds)} of the accepted if all cases are, "
        f"{_cap(learner.alpha + most / tenth)} if a tenth is (target {learner.alpha:g})",
    ]


def _cap(share: float) -> str:
    return f"{min(1.0, share):.4f}"


def _theorem(learner: Learner, rounds: int) -> list[str]:
    """Return what is proven beside that: numbers for the paper's learners, words for the others."""
    try:
        asked = bounds.conditions_of(learner) if learner.horizon is not None else None
        loss = bounds.loss_of(learner) if asked else None
    except TheoremError:
        loss = asked = None
    if loss is None or asked is None:
        return [f"theorem    {learner.rule.about.guarantee}", f"source     {learner.rule.about.source}"]
    arms = 0 if learner.thresholds is None else learner.thresholds.size
    rates = strategy.Epoch(*learner.settings.epochs[0].tolist())
    return [
        f"theorem    {arms} arms; bonus (beta) {rates.bonus:.3g}, exploration (gamma) "
        f"{rates.exploration:.3g}, rate (eta) {rates.rate:.3g}",
        f"conditions at least 5 arms: {_yes(asked.enough_arms)}; "
        f"gamma <= 1/2: {_yes(asked.moderate_exploration)}; "
        f"(1 + 2 beta) K eta <= gamma: {_yes(asked.slow_enough)}",
        *(_regret(learner, rounds, loss.span) if asked.hold else _silent(arms)),
    ]


def _silent(arms: int) -> list[str]:
    enough = strategy.theorem_horizon(max(arms, 5))
    return [
        f"{'':{_INDENT}}THE THEOREM DOES NOT APPLY, so that nothing is promised. "
        f"With {max(arms, 5)} arms it does from {enough:,} rounds on."
    ]


def _regret(learner: Learner, rounds: int, span: float) -> list[str]:
    regret, misses = bounds.regret(learner), bounds.miss_rate(learner)
    on_target = bounds.miss_rate_speaks_from(learner, below=learner.alpha)
    return [
        f"{'':{_INDENT}}The theorem applies, if {_AT_ONCE}.",
        f"regret     <= {regret:,.0f}, that is {regret / rounds:.3f} a round; "
        f"a round can cost {span:.3f}",
        f"{'':{_INDENT}}{_verdict(regret / rounds, span, bounds.regret_speaks_from(learner))}",
        f"miss rate  <= {misses:.3f}, known before the first round (target {learner.alpha:g})",
        f"{'':{_INDENT}}{_verdict(misses, 1.0, bounds.miss_rate_speaks_from(learner))}",
        f"{'':{_INDENT}}It falls below the target from {on_target:,} rounds on. It needs that "
        "threshold 0 cannot miss: the true label is always among the candidates.",
        "afterwards miss rate - alpha <= regret / T + C_mc, where C_mc comes from the run itself "
        "(keyhole.simulation.metrics.coverage_slack): a check, not a forecast.",
    ]


def _verdict(bound: float, trivial: float, speaks_from: float) -> str:
    if bound < trivial:
        return f"Such a bound says something from {speaks_from:,} rounds on."
    return f"VACUOUS: it says nothing below {speaks_from:,} rounds."


def _yes(holds: bool) -> str:  # noqa: FBT001
    return "yes" if holds else "NO"
