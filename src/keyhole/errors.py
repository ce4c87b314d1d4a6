"""What can go wrong, one name per situation; a message says the fault, the value, the remedy."""

import sys
import warnings


class KeyholeError(Exception):
    """Everything Keyhole raises on purpose."""


class InvalidError(KeyholeError, ValueError):
    """Something given is not what it must be; nothing was changed.

    ``field`` names the argument or the setting at fault, where it is one that a service takes.
    """

    def __init__(self, message: str = "", *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class HorizonError(InvalidError):
    """The horizon is not a whole number of rounds long enough for the arms."""


class ScoreError(InvalidError):
    """Scores are missing, not finite, out of range or of the wrong shape."""


class LabelError(InvalidError):
    """A label is duplicated, or was never a candidate of the round it answers."""


class FeedbackError(InvalidError):
    """The feedback tells less than the learner needs."""


class TheoremError(InvalidError):
    """No theorem covers this learner."""


class NotCompiledError(KeyholeError):
    """numba cannot compile a function."""


class UnknownRoundError(KeyholeError, LookupError):
    """No such round was ever predicted."""


class AnsweredError(KeyholeError, LookupError):
    """The round has its answer already."""


class ExpiredError(KeyholeError, LookupError):
    """The round was dropped because too many were open."""


class ReferredError(InvalidError):
    """The round was referred to a person, and the feedback does not cover such rounds."""


class SnapshotError(KeyholeError, ValueError):
    """The file is not a whole snapshot of a predictor, or a newer version wrote it."""


class MissingExtraError(KeyholeError, ImportError):
    """An optional part is not installed."""


class UnknownStreamError(KeyholeError, LookupError):
    """There is no stream of this name."""


class StreamExistsError(KeyholeError, LookupError):
    """The name is taken by another stream."""


class ArchivedError(KeyholeError, LookupError):
    """The stream is archived: it can be read, but takes no more rounds."""


class QuarantinedError(KeyholeError, LookupError):
    """The stream's rows in the database cannot be used; none of them is changed."""


class TokenError(KeyholeError):
    """The token is unknown or revoked, or cannot be made as asked."""


class RefusedError(KeyholeError):
    """The service refused the request; ``code`` says why."""

    def __init__(self, message: str = "", *, code: str = "refused") -> None:
        super().__init__(message)
        self.code = code


class BusyError(KeyholeError):
    """The service is overloaded at the moment; nothing was changed."""


class UnreachableError(KeyholeError, ConnectionError):
    """The service did not answer."""


class DatabaseError(KeyholeError):
    """The database cannot be opened, does not answer, or was written by a newer version."""


class DamagedDatabaseError(DatabaseError):
    """The file of the database is not readable as a whole: a backup has what it held."""


class LostDatabaseError(DatabaseError):
    """The file of the database is not what it was when it was opened: the service stops."""


class KeyholeWarning(UserWarning):
    """Everything Keyhole warns of."""


class TheoryWarning(KeyholeWarning):
    """The learner works, but its theorem does not cover these settings, or this many rounds."""


class BoundWarning(KeyholeWarning):
    """A residual was larger than its bound, so that no threshold would have covered it."""


class SpeedWarning(KeyholeWarning):
    """Something works, but would be many times faster another way."""


def warn_user(message: str, category: type[KeyholeWarning]) -> None:
    """Warn at the line that led here: the first on the way back that is not in this package."""
    frame, level = sys._getframe(1), 2  # noqa: SLF001
    while (
        frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "keyhole"
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
