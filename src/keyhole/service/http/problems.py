"""What goes wrong, as HTTP: one table, and one JSON shape.

``{"error": {"code": ..., "message": ..., "field": ...}}``; the client reads the same table backwards.
"""

from typing import Any, NamedTuple

from keyhole import errors


class Kind(NamedTuple):
    """An HTTP status, a stable code, and the field at fault if it is always the same."""

    status: int
    code: str
    field: str | None = None


PROBLEMS: dict[type[errors.KeyholeError], Kind] = {
    errors.AlphaError: Kind(422, "alpha", "alpha"),
    errors.GridError: Kind(422, "grid", "arms"),
    errors.HorizonError: Kind(422, "horizon", "horizon"),
    errors.RateError: Kind(422, "rate", "options"),
    errors.LearnerError: Kind(422, "learner", "learner"),
    errors.ScoreError: Kind(422, "score", "scores"),
    errors.LabelError: Kind(422, "label", "label"),
    errors.BoundError: Kind(422, "bound", "bound"),
    errors.ContextError: Kind(422, "context", "features"),
    errors.GroupError: Kind(422, "group", "groups"),
    errors.SeedError: Kind(422, "seed", "seed"),
    errors.FeedbackError: Kind(422, "feedback", "answer"),
    errors.StreamNameError: Kind(422, "stream_name", "name"),
    errors.InvalidError: Kind(422, "invalid"),
    errors.UnknownRoundError: Kind(404, "unknown_prediction", "id"),
    errors.AnsweredError: Kind(409, "answered", "id"),
    errors.ExpiredError: Kind(410, "expired", "id"),
    errors.UnknownStreamError: Kind(404, "unknown_stream", "name"),
    errors.StreamExistsError: Kind(409, "stream_exists", "name"),
    errors.ArchivedError: Kind(409, "archived", "name"),
    errors.QuarantinedError: Kind(409, "quarantined", "name"),
    errors.KeyReusedError: Kind(409, "key_reused", "Idempotency-Key"),
    errors.TokenError: Kind(401, "token", "Authorization"),
    errors.ScopeError: Kind(403, "scope", "Authorization"),
    errors.ForeignRequestError: Kind(403, "foreign_request"),
    errors.MediaTypeError: Kind(415, "media_type", "Content-Type"),
    errors.TooLargeError: Kind(413, "too_large"),
    errors.HeadersError: Kind(431, "headers"),
    errors.TooFastError: Kind(429, "too_fast"),
    errors.MissingExtraError: Kind(501, "missing_extra"),
    errors.DatabaseError: Kind(503, "database"),
    errors.BusyError: Kind(503, "busy"),
    errors.KeyholeError: Kind(400, "error"),
}
_BY_CODE = {problem.code: kind for kind, problem in PROBLEMS.items()}


def find_problem(error: errors.KeyholeError) -> Kind:
    """Return the problem of the nearest class in the table."""
    return next(PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS)


def read_error(sent: Any) -> errors.KeyholeError:
    """Return the error that was sent."""
    try:
        told = sent["error"]
        return _BY_CODE.get(told["code"], errors.KeyholeError)(told["message"])
    except (TypeError, KeyError):
        return errors.KeyholeError(f"the service answered {str(sent)[:200]!r}")
