"""A program as a user with types would write it."""

import keyhole
from keyhole.predictor.levels import LevelPredictor

predictor = keyhole.Predictor(alpha=0.1, seed=1)
shown = predictor.predict({"cat": 0.7, "dog": 0.2, "cow": 0.1})
labels = sorted(str(label) for label in shown)
predictor.learn(shown, label="cat")
rate: float = predictor.miss_rate

regression = keyhole.Predictor(alpha=0.1, score=keyhole.ScaledResiduals(), seed=1)
interval = regression.predict(3.5)
regression.learn(interval, label=3.1)

width: float = interval.upper - interval.lower
gate = keyhole.Gate(alpha=0.1, seed=1)
decision = gate.decide(0.9)
if decision.accepted:
    gate.learn(decision, right=True)
levels = LevelPredictor(alpha=[0.05, 0.2], score=keyhole.ScaledResiduals(), seed=1)
nested = levels.predict(3.5)
lower: float = nested[0.2].lower
print(lower, labels, rate, width, regression.rounds, gate.rounds)
