"""The scale of residuals, found from the first true values.

It is the median of those known, which one outlier cannot move far, and fixed from the twenty-fifth on;
a user's first guess is one of them. Before the first that is not 0, intervals are the whole line, and
of zeros alone no more than 24 are kept: a stream that begins with them has a scale from the first other
one on. What bounds the misses of a learner uses only that threshold 0 cannot miss and that a threshold
above 1 must: it holds whatever the scale, as long as the scale of a round is set before its outcome, as
here.
"""

import struct
from bisect import insort
from dataclasses import dataclass, field

from keyhole.errors import SnapshotError
from keyhole.scores import ScaledScore

MOST = 25
HALF = 13  # From here on, each further residual shows one on either side that the median cannot be.
_VALUE = struct.Struct("<d")
FIXED = 255  # stands for the number of residuals once nothing depends on them


@dataclass(slots=True)
class Scale:
    """The scale up to now, 0 while there is none, and what it comes from: so many absolute residuals.

    ``middle`` are those, in order, that it may still become, as many left out above as below them;
    ``largest`` is the largest of all.
    """

    value: float = 0.0
    count: int = 0
    middle: list[float] = field(default_factory=list)
    largest: float = 0.0
    _fitted: ScaledScore | None = field(default=None, repr=False, compare=False)

    @classmethod
    def start(cls, score: object) -> "Scale | None":
        """Return the scale before the first round; None for scores that have none to find."""
        if not hasattr(score, "at_scale"):
            return None
        guess: float | None = getattr(score, "scale", None)
        return cls() if guess is None else cls(guess, 1, [guess], guess)

    @property
    def is_fixed(self) -> bool:
        return self.count >= MOST

    def fit(self, score: ScaledScore) -> ScaledScore:
        if self._fitted is None:
            self._fitted = score.at_scale(self.value or None)
        return self._fitted

    def add(self, residual: float) -> None:
        """Learn a residual, if the scale is not fixed yet."""
        if self.count >= MOST:
            return
        if self.count == MOST - 1 and not self.largest and not residual:
            return  # Zeros alone are no scale that could be fixed.
        self.count += 1
        self.largest = max(self.largest, abs(residual))
        insort(self.middle, abs(residual))
        if self.count > HALF:
            self.middle = self.middle[1:-1]
        self._find_value()
        if self.count == MOST:
            self.middle, self.largest = [], 0.0

    def _find_value(self) -> None:
        from statistics import median

        self.value = median(self.middle) or self.largest or self.value
        self._fitted = None

    def pack(self) -> bytes:
        """Return the scale as bytes; floats keep every bit."""
        if self.count >= MOST:
            return bytes((FIXED,)) + _VALUE.pack(self.value)
        kept = self.middle if self.count <= HALF else [*self.middle, self.largest]
        return bytes((self.count,)) + struct.pack(f"<{len(kept)}d", *kept)

    @classmethod
    def unpack(cls, content: bytes) -> tuple["Scale", int]:
        """Return the scale that was packed, and how many bytes it took."""
        count = content[0] if content else MOST
        kept = 1 if count == FIXED else count if count <= HALF else 2 * HALF - count + 1
        end = 1 + _VALUE.size * kept
        if (count >= MOST and count != FIXED) or len(content) < end:
            raise SnapshotError("the scale of the residuals is cut short; restore it from a copy")
        numbers = list(struct.unpack_from(f"<{kept}d", content, 1))
        if count == FIXED:
            return cls(numbers[0], MOST), end
        scale = cls(0.0, count, numbers, max(numbers, default=0.0))
        if count > HALF:
            scale.largest = numbers.pop()
        if count:
            scale._find_value()
        return scale, end
