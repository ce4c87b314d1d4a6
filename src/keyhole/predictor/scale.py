"""The scale of residuals, found from the first true values.

It is the median of those known, which one outlier cannot move far, and fixed from the twenty-fifth on;
a user's first guess is one of them. Before the first, intervals are the whole line. What bounds the
misses of a learner uses only that threshold 0 cannot miss and that a threshold above 1 must: it holds
whatever the scale, as long as the scale of a round is set before its outcome, as here.
"""

import struct
from dataclasses import dataclass, field

from keyhole.errors import SnapshotError
from keyhole.scores import ScaledScore

_MOST = 25
_HEAD = struct.Struct("<dB")
_FIXED = 255  # stands for the number of residuals where they are left out


@dataclass(slots=True)
class Scale:
    """The scale up to now, 0 while there is none, and the absolute residuals it comes from."""

    value: float = 0.0
    residuals: list[float] = field(default_factory=list)
    _fitted: ScaledScore | None = field(default=None, repr=False, compare=False)

    @classmethod
    def start(cls, score: object) -> "Scale | None":
        """Return the scale before the first round; None for scores that have none to find."""
        if not hasattr(score, "at_scale"):
            return None
        guess: float | None = getattr(score, "scale", None)
        return cls() if guess is None else cls(guess, [guess])

    def fit(self, score: ScaledScore) -> ScaledScore:
        """Return the score at the scale of now."""
        if self._fitted is None:
            self._fitted = score.at_scale(self.value or None)
        return self._fitted

    def add(self, residual: float) -> None:
        """Learn a residual, if the scale is not fixed yet."""
        if len(self.residuals) >= _MOST:
            return
        from statistics import median

        self.residuals.append(abs(residual))
        self.value = median(self.residuals) or max(self.residuals) or self.value
        self._fitted = None

    def pack(self) -> bytes:
        """Return the scale as bytes; floats keep every bit."""
        count = len(self.residuals)
        return _HEAD.pack(self.value, count) + struct.pack(f"<{count}d", *self.residuals)

    def pack_narrow(self) -> bytes:
        """Return the scale as few bytes: once it is fixed, nothing depends on the residuals."""
        count = len(self.residuals)
        return _HEAD.pack(self.value, _FIXED) if count >= _MOST else self.pack()

    @classmethod
    def unpack(cls, content: bytes) -> tuple["Scale", int]:
        """Return the scale that was packed, and how many bytes it took."""
        if len(content) < _HEAD.size:
            raise SnapshotError("the scale of the residuals is cut short; restore it from a copy")
        value, count = _HEAD.unpack_from(content)
        if count == _FIXED:
            return cls(value, [value] * _MOST), _HEAD.size
        end = _HEAD.size + 8 * count
        if count > _MOST or len(content) < end:
            raise SnapshotError("the scale of the residuals is cut short; restore it from a copy")
        return cls(value, list(struct.unpack_from(f"<{count}d", content, _HEAD.size))), end
