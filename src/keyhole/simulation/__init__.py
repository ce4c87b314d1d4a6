"""Whole runs at once, against scores, adversaries, and answers that come late, never or wrong."""

from keyhole.simulation import metrics
from keyhole.simulation.channel import Channel
from keyhole.simulation.simulate import Simulation, simulate_against

__all__ = ["Channel", "Simulation", "metrics", "simulate_against"]
