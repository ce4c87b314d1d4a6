"""What goes wrong, as HTTP: one table, and one JSON shape.

``{"error": {"code": ..., "message": ..., "field": ...}}``; the client reads the same table backwards.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from keyhole import errors

if TYPE_CHECKING:
    from keyhole.service.http.round_responses import Problem


class ProblemKind(NamedTuple):
    """An HTTP status, a stable code, and the field at fault if it is always the same."""

    status: int
    code: str
    field: str | None = None


PROBLEMS: dict[type[errors.KeyholeError], ProblemKind] = {
    errors.AlphaError: ProblemKind(422, "alpha", "alpha"),
    errors.GridError: ProblemKind(422, "grid", "arms"),
    errors.HorizonError: ProblemKind(422, "horizon", "horizon"),
    errors.RateError: ProblemKind(422, "rate", "options"),
    errors.LearnerError: ProblemKind(422, "learner", "learner"),
    errors.ScoreError: ProblemKind(422, "score", "scores"),
    errors.LabelError: ProblemKind(422, "label", "label"),
    errors.BoundError: ProblemKind(422, "bound", "bound"),
    errors.ContextError: ProblemKind(422, "context", "features"),
    errors.GroupError: ProblemKind(422, "group", "groups"),
    errors.SeedError: ProblemKind(422, "seed", "seed"),
    errors.FeedbackError: ProblemKind(422, "feedback", "answer"),
    errors.StreamNameError: ProblemKind(422, "stream_name", "name"),
    errors.InvalidError: ProblemKind(422, "invalid"),
    errors.UnknownRoundError: ProblemKind(404, "unknown_prediction", "id"),
    errors.AnsweredError: ProblemKind(409, "answered", "id"),
    errors.ExpiredError: ProblemKind(410, "expired", "id"),
    errors.UnknownStreamError: ProblemKind(404, "unknown_stream", "name"),
    errors.StreamExistsError: ProblemKind(409, "stream_exists", "name"),
    errors.ArchivedError: ProblemKind(409, "archived", "name"),
    errors.QuarantinedError: ProblemKind(409, "quarantined", "name"),
    errors.KeyReusedError: ProblemKind(409, "key_reused", "Idempotency-Key"),
    errors.TokenError: ProblemKind(401, "token", "Authorization"),
    errors.ScopeError: ProblemKind(403, "scope", "Authorization"),
    errors.ForeignRequestError: ProblemKind(403, "foreign_request"),
    errors.MediaTypeError: ProblemKind(415, "media_type", "Content-Type"),
    errors.TooLargeError: ProblemKind(413, "too_large"),
    errors.HeadersError: ProblemKind(431, "headers"),
    errors.TooFastError: ProblemKind(429, "too_fast"),
    errors.MissingExtraError: ProblemKind(501, "missing_extra"),
    errors.DatabaseError: ProblemKind(503, "database"),
    errors.BusyError: ProblemKind(503, "busy"),
    errors.KeyholeError: ProblemKind(400, "error"),
}
_BY_CODE = {problem.code: kind for kind, problem in PROBLEMS.items()}


def find_problem(error: errors.KeyholeError) -> ProblemKind:
    """Return the problem of the nearest class in the table."""
    return next(PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS)


def read_error(sent: Any) -> errors.KeyholeError:
    """Return the error that was sent."""
    try:
        told = sent["error"]
        return _BY_CODE.get(told["code"], errors.KeyholeError)(told["message"])
    except (TypeError, KeyError):
        return errors.KeyholeError(f"the service answered {str(sent)[:200]!r}")


def show_problem(error: errors.KeyholeError, *, field: str | None = None) -> "Problem":
    """Return an error."""
    kind = find_problem(error)
    return show_fault(kind.code, str(error), field=field or kind.field)


def show_fault(code: str, message: str, *, field: str | None = None) -> "Problem":
    """Return the one shape that errors have."""
    return {"error": {"code": code, "message": message, "field": field}}
