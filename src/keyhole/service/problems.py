"""What goes wrong, as HTTP: one table, and one JSON shape.

``{"error": {"code": ..., "message": ..., "field": ...}}``; the client reads the same table backwards.
"""

from typing import Any, NamedTuple

from keyhole import errors


class Problem(NamedTuple):
    """An HTTP status, a stable code, and the field at fault if it is always the same."""

    status: int
    code: str
    field: str | None = None


PROBLEMS: dict[type[errors.KeyholeError], Problem] = {
    errors.AlphaError: Problem(422, "alpha", "alpha"),
    errors.GridError: Problem(422, "grid", "arms"),
    errors.HorizonError: Problem(422, "horizon", "horizon"),
    errors.RateError: Problem(422, "rate", "options"),
    errors.LearnerError: Problem(422, "learner", "learner"),
    errors.ScoreError: Problem(422, "score", "scores"),
    errors.LabelError: Problem(422, "label", "label"),
    errors.BoundError: Problem(422, "bound", "bound"),
    errors.SeedError: Problem(422, "seed", "seed"),
    errors.FeedbackError: Problem(422, "feedback", "answer"),
    errors.StreamNameError: Problem(422, "stream_name", "name"),
    errors.InvalidError: Problem(422, "invalid"),
    errors.UnknownRoundError: Problem(404, "unknown_prediction", "id"),
    errors.AnsweredError: Problem(409, "answered", "id"),
    errors.ExpiredError: Problem(410, "expired", "id"),
    errors.UnknownStreamError: Problem(404, "unknown_stream", "name"),
    errors.StreamExistsError: Problem(409, "stream_exists", "name"),
    errors.ArchivedError: Problem(409, "archived", "name"),
    errors.KeyReusedError: Problem(409, "key_reused", "Idempotency-Key"),
    errors.TokenError: Problem(401, "token", "Authorization"),
    errors.ScopeError: Problem(403, "scope", "Authorization"),
    errors.ForeignRequestError: Problem(403, "foreign_request"),
    errors.MediaTypeError: Problem(415, "media_type", "Content-Type"),
    errors.TooLargeError: Problem(413, "too_large"),
    errors.TooFastError: Problem(429, "too_fast"),
    errors.MissingExtraError: Problem(501, "missing_extra"),
    errors.DatabaseError: Problem(503, "database"),
    errors.KeyholeError: Problem(400, "error"),
}
_BY_CODE = {problem.code: kind for kind, problem in PROBLEMS.items()}


def problem_of(error: errors.KeyholeError) -> Problem:
    """Return the problem of the nearest class in the table."""
    return next(PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS)


def body(error: errors.KeyholeError, *, field: str | None = None) -> dict[str, Any]:
    """Return the error as it is sent."""
    problem = problem_of(error)
    return said(problem.code, str(error), field=field or problem.field)


def said(code: str, message: str, *, field: str | None = None) -> dict[str, Any]:
    """Return the one shape that errors have."""
    return {"error": {"code": code, "message": message, "field": field}}


def raised(sent: Any) -> errors.KeyholeError:
    """Return the error that was sent."""
    try:
        told = sent["error"]
        return _BY_CODE.get(told["code"], errors.KeyholeError)(told["message"])
    except (TypeError, KeyError):
        return errors.KeyholeError(f"the service answered {str(sent)[:200]!r}")
