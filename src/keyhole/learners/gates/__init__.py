"""What the rules of gates share: the first slots of a round's memo, which the gate itself fills.

A gate's rule has the same two kernels as any other. ``choose`` returns the threshold from which a
score is accepted. ``observe`` is called twice: at once after every decision, with a miss of NaN and
the score, and again if the round is judged, with a miss of 1 for wrong and 0 for right (corrected,
and then beyond [0, 1], where judges are known to err). Both calls are one kernel because both change
one state, and because whoever plays a rule then knows two kernels, whatever the rule is for.
"""

from keyhole.learners.rule import RuleKind

FOR_GATES = RuleKind(
    name="gate",
    player="Gate",
    default="gate-tracker",
    errors="wrong answers",
    remedy="gate-tracker's are bounded",
    use="for gates",
    example=""">>> gate = keyhole.Gate(keyhole.make("{}", alpha=0.1))
>>> decision = gate.decide(1.0)
>>> gate.learn(decision, right=True)
>>> gate.rounds
1
""",
)

ACCEPTED = 0  # 1 if the round was accepted, else 0
CHANCE = 1  # the chance that it would be judged, known from the audit; 1 where all are
OWN = 2  # the first slot that is the rule's own
