"""Errors as HTTP has them: one table, which servers read forwards and clients backwards."""

from typing import Any, NamedTuple

from keyhole import errors
from keyhole.service.wire.responses import Fault, Problem


class ProblemKind(NamedTuple):
    """An HTTP status, a stable code, and the field at fault if it is always the same."""

    status: int
    code: str
    field: str | None = None


PROBLEMS: dict[type[errors.KeyholeError], ProblemKind] = {
    errors.HorizonError: ProblemKind(422, "horizon", "horizon"),
    errors.ScoreError: ProblemKind(422, "score", "scores"),
    errors.LabelError: ProblemKind(422, "label", "label"),
    errors.FeedbackError: ProblemKind(422, "feedback", "answer"),
    errors.InvalidError: ProblemKind(422, "invalid"),
    errors.UnknownRoundError: ProblemKind(404, "unknown_prediction", "id"),
    errors.AnsweredError: ProblemKind(409, "answered", "id"),
    errors.ExpiredError: ProblemKind(410, "expired", "id"),
    errors.UnknownStreamError: ProblemKind(404, "unknown_stream", "name"),
    errors.StreamExistsError: ProblemKind(409, "stream_exists", "name"),
    errors.ArchivedError: ProblemKind(409, "archived", "name"),
    errors.QuarantinedError: ProblemKind(409, "quarantined", "name"),
    errors.TokenError: ProblemKind(401, "token", "Authorization"),
    errors.MissingExtraError: ProblemKind(501, "missing_extra"),
    errors.DatabaseError: ProblemKind(503, "database"),
    errors.BusyError: ProblemKind(503, "busy"),
    errors.KeyholeError: ProblemKind(400, "error"),
}
REFUSALS = {
    "erased": ProblemKind(410, "erased", "id"),
    "foreign_request": ProblemKind(403, "foreign_request"),
    "headers": ProblemKind(431, "headers"),
    "key_reused": ProblemKind(409, "key_reused", "Idempotency-Key"),
    "media_type": ProblemKind(415, "media_type", "Content-Type"),
    "refused": ProblemKind(403, "refused"),
    "scope": ProblemKind(403, "scope", "Authorization"),
    "too_fast": ProblemKind(429, "too_fast"),
    "too_large": ProblemKind(413, "too_large"),
}
_BY_CODE = {problem.code: kind for kind, problem in PROBLEMS.items()}


def find_problem(error: errors.KeyholeError) -> ProblemKind:
    """Return the problem of the nearest class in the table, or of the reason for a refusal."""
    if isinstance(error, errors.RefusedError):
        return REFUSALS[error.code]
    return next(PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS)


def read_error(received: Any) -> errors.KeyholeError:
    """Return the error that JSON describes; whatever else it is, an error that shows it."""
    try:
        code, message, field = (received["error"][name] for name in ("code", "message", "field"))
    except (TypeError, KeyError):
        return errors.KeyholeError(f"the service answered {str(received)[:200]!r}")
    if code in REFUSALS:
        return errors.RefusedError(message, code=code)
    kind = _BY_CODE.get(code, errors.KeyholeError)
    return kind(message, field=field) if issubclass(kind, errors.InvalidError) else kind(message)


def show_problem(error: errors.KeyholeError, *, field: str | None = None) -> Problem:
    kind = find_problem(error)
    own = getattr(error, "field", None)
    return Problem(Fault(kind.code, str(error), field or own or kind.field))
