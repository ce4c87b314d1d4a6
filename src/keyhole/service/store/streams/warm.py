"""Kernels compile at their first call; a service makes that call before it is asked anything."""

from collections.abc import Iterable

from keyhole.learners import compile_learner
from keyhole.service.store.streams.stream import Stream


def compile_streams(streams: Iterable[Stream]) -> None:
    """Compile, or load, what these streams use."""
    learners = {here.setup.learner.name: here.setup.learner for here in streams}
    for learner in learners.values():
        if not learner.runs_interpreted:
            compile_learner(learner)
