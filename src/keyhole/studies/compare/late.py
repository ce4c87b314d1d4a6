"""Late, batched and lost answers: the same contest under each, and what each costs in size."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from keyhole.errors import InvalidError
from keyhole.simulation.channel import Channel
from keyhole.studies.compare.contest import Contest, Terms, hold, stage
from keyhole.studies.compare.listing import Listed
from keyhole.studies.compare.standings import LearnerStanding, standings


class NamedChannel(NamedTuple):
    """How answers come, in words and as a channel."""

    about: str
    channel: Channel


CHANNELS = {
    "prompt": NamedChannel("every answer at once", Channel()),
    "10": NamedChannel("answers 10 rounds late", Channel(delay=10)),
    "100": NamedChannel("answers 100 rounds late", Channel(delay=100)),
    "1,000": NamedChannel("answers 1,000 rounds late", Channel(delay=1_000)),
    "geom": NamedChannel("delays vary around 300 rounds", Channel(delay=300, geometric=True)),
    "b100": NamedChannel("sets asked for in batches of 100", Channel(batch=100)),
    "b1,000": NamedChannel("sets asked for in batches of 1,000", Channel(batch=1_000)),
    "lost": NamedChannel("9 answers in 10 never come", Channel(lost=0.9)),
}


@dataclass(frozen=True)
class LateContests:
    """One contest for each channel."""

    contests: Mapping[str, Contest]

    def standings(self) -> dict[str, dict[str, LearnerStanding]]:
        """Return each learner's standing under each channel, learners by name, channels by theirs."""
        found: dict[str, dict[str, LearnerStanding]] = {}
        for channel, contest in self.contests.items():
            for one in standings(contest):
                found.setdefault(one.learner, {})[channel] = one
        return found


def drop_adversaries(scenarios: Sequence[Listed]) -> list[Listed]:
    """Return the scenarios that can be judged by size, or raise if there is none."""
    given = [listed for listed in scenarios if listed.build is not None]
    if not given:
        raise InvalidError(
            "late answers are judged by size against the best in hindsight, which no adversary has; "
            "name another scenario"
        )
    return given


def hold_late(
    names: Sequence[str],
    scenarios: Sequence[Listed],
    terms: Terms,
    *,
    told: Callable[[str], None] = lambda _: None,
) -> LateContests:
    """Play every learner on every scenario under every channel, but against no adversary."""
    given = drop_adversaries(scenarios)
    stages = stage(given, terms)
    return LateContests(
        {
            name: hold(names, given, replace(terms, channel=named.channel), rounds_of=stages, told=told)
            for name, named in CHANNELS.items()
        }
    )
