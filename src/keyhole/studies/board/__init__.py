"""The board: every learner and every other library on a fixed set of scenarios."""
