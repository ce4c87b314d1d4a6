"""What can go wrong, one name per situation; a message says the fault, the value, the remedy."""

import sys
import warnings


class KeyholeError(Exception):
    """Everything Keyhole raises on purpose."""


class InvalidError(KeyholeError, ValueError):
    """Something given is not what it must be; nothing was changed."""


class AlphaError(InvalidError):
    """The target miss rate is not between 0 and 1/2."""


class GridError(InvalidError):
    """The thresholds are not an increasing grid on [0, 1] that starts at 0."""


class HorizonError(InvalidError):
    """The horizon is not a whole number of rounds long enough for the arms."""


class RateError(InvalidError):
    """A rate of a learner is out of its range."""


class LearnerError(InvalidError):
    """There is no such learner, or it has no such parameter."""


class ScoreError(InvalidError):
    """Scores are missing, not finite, out of range or of the wrong shape."""


class LabelError(InvalidError):
    """A label is duplicated, or was never a candidate of the round it answers."""


class OutputsError(InvalidError):
    """A file of model outputs does not hold what it must."""


class BoundError(InvalidError):
    """A residual's bound or scale is not a positive number."""


class ContextError(InvalidError):
    """A feature is not one that the predictor knows, or not a number."""


class GroupError(ContextError):
    """A group is not one that the predictor knows."""


class SeedError(InvalidError):
    """The seed is not a whole number of at most 64 bits."""


class FeedbackError(InvalidError):
    """The feedback tells less than the learner needs."""


class TheoremError(InvalidError):
    """No theorem speaks of this learner."""


class NotCompiledError(KeyholeError):
    """A function is not one that numba can compile."""


class EngineError(KeyholeError):
    """Work cannot be done where it was to be done."""


class SelectionError(InvalidError):
    """No experiment or table of the paper has that name."""


class RunsError(KeyholeError):
    """A file of finished runs cannot be read."""


class RoundError(KeyholeError, LookupError):
    """The round cannot be answered."""


class UnknownRoundError(RoundError):
    """No such round was ever predicted."""


class AnsweredError(RoundError):
    """The round has its answer already."""


class ExpiredError(RoundError):
    """The round was dropped because too many were open."""


class ReferredError(InvalidError):
    """The round was referred to a person, and the gate's feedback tells nothing of such rounds."""


class SnapshotError(KeyholeError, ValueError):
    """The file is not a whole snapshot of a predictor."""


class NewerSnapshotError(SnapshotError):
    """The file was written by a newer version."""


class MissingExtraError(KeyholeError, ImportError):
    """An optional part is not installed."""


class StreamError(KeyholeError, LookupError):
    """The stream cannot be used as asked."""


class UnknownStreamError(StreamError):
    """There is no stream of this name."""


class StreamExistsError(StreamError):
    """The name is taken by another stream."""


class ArchivedError(StreamError):
    """The stream is archived: it can be read, and takes no more rounds."""


class QuarantinedError(StreamError):
    """What the database holds of the stream cannot be used; nothing of it is changed."""


class StreamNameError(InvalidError):
    """The name is not one a stream can have."""


class KeyReusedError(KeyholeError):
    """The idempotency key came with another request before."""


class TokenError(KeyholeError):
    """The token is unknown or revoked, or cannot be made as asked."""


class BindingError(KeyholeError):
    """The service would be open to strangers."""


class ScopeError(KeyholeError):
    """The token does not allow this."""


class ForeignRequestError(KeyholeError):
    """The request comes from another site, or names a host that this service is not."""


class MediaTypeError(KeyholeError):
    """The body is not JSON."""


class TooLargeError(KeyholeError):
    """The body is larger than the service takes."""


class HeadersError(KeyholeError):
    """The headers are larger than the service takes."""


class BusyError(KeyholeError):
    """The service has too much to do at this moment; nothing was changed."""


class TooFastError(KeyholeError):
    """One client sends more requests than the service takes from one."""


class UnreachableError(KeyholeError, ConnectionError):
    """The service did not answer."""


class DatabaseError(KeyholeError):
    """The database cannot be opened, or does not answer."""


class LostDatabaseError(DatabaseError):
    """The file of the database is not what it was when it was opened: the service stops."""


class NewerStoreError(DatabaseError):
    """The database was written by a newer version."""


class KeyholeWarning(UserWarning):
    """Everything Keyhole warns of."""


class TheoryWarning(KeyholeWarning):
    """The learner works, but its theorem does not cover these settings."""


class HorizonWarning(KeyholeWarning):
    """The learner goes on past the horizon it was tuned for."""


class BoundWarning(KeyholeWarning):
    """A residual was larger than its bound, so that no threshold would have covered it."""


class SpeedWarning(KeyholeWarning):
    """Something works, and would be many times faster another way."""


class LearnerWarning(KeyholeWarning):
    """A package brings a learner that cannot be used."""


def warn_user(message: str, category: type[KeyholeWarning]) -> None:
    """Warn at the line that led here: the first on the way back that is not in this package."""
    frame, level = sys._getframe(1), 2  # noqa: SLF001
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == "keyhole" or module.startswith("keyhole.")
