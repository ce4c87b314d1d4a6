"""A learner at work: what it is made with, what it has become, round by round."""
