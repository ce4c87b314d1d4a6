"""When a user is told how things stand."""

import dataclasses

import pytest

from keyhole import LEARNERS, make
from keyhole.predictor.monitor import Alarm, Watch
from keyhole.predictor.notes import describe_alarm, describe_lateness
from keyhole.predictor.tally import Tally


@pytest.mark.parametrize(("answered", "stale", "said"), [(100, 30.0, 1), (99, 30.0, 0), (100, 29.9, 0)])
def test_lateness_is_told_from_a_hundred_answers_and_thirty_rounds_on(
    answered: int, stale: float, said: int
) -> None:
    notes = describe_lateness(make("kt", alpha=0.1), Tally(answered=answered, stale=stale))
    assert len(notes) == said


def test_lateness_says_what_it_does_to_the_learner_or_that_nobody_knows() -> None:
    late = Tally(answered=100, stale=1234.4)
    (told,) = describe_lateness(make("logit-tracker", alpha=0.1), late)
    assert "about 1,234 rounds pass" in told
    assert "logit-tracker: a stale answer moves it less" in told
    untold = dataclasses.replace(LEARNERS["kt"], late="")(alpha=0.1)
    assert "kt: what late answers do to it has not been measured" in describe_lateness(untold, late)[0]


def test_an_alarm_is_told_with_its_side_and_its_rounds() -> None:
    assert describe_alarm(None, alpha=0.1) == describe_alarm(Watch(), alpha=0.1) == []
    for alarm, often in ((Alarm.TOO_MANY, "more often"), (Alarm.TOO_FEW, "less often")):
        watch = Watch(alarm=alarm, since=1_200, raised=1_350)
        assert describe_alarm(watch, alpha=0.1) == [
            f"Rounds miss {often} than 0.1, since about answer 1,200; it was found at answer 1,350."
        ]
