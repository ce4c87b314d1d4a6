"""What is wrong with a request, in Keyhole's words: pydantic finds the faults and does not speak."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from keyhole.checks import find_near
from keyhole.errors import InvalidError

_MOST = 100  # faults: a list of more would be longer than the body
_LONGEST = 60  # characters of a value that are shown
_MISSING, _UNKNOWN, _OURS, _NO_JSON = "missing", "extra_forbidden", "value_error", "json_invalid"
_KEY = "[key]"  # where pydantic puts a fault of a key, not of its value
_WHOLE, _NUMBER, _OBJECT = "a whole number", "a number", "an object"
# What a value must be, by pydantic's name of the fault; in braces what the fault brings.
WANTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": _OBJECT,
    "enum": "{expected}",
    "finite_number": "a finite number",
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_from_float": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": "a shorter number",
    "int_type": _WHOLE,
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "model_attributes_type": _OBJECT,
    "model_type": _OBJECT,
    "string_pattern_mismatch": "printable ASCII characters",
    "string_too_long": "at most {max_length} characters long",
    "string_too_short": "at least {min_length} characters long",
    "string_type": "text",
    "too_long": "at most {max_length} long",
    "too_short": "at least {min_length} long",
}


class _Found(NamedTuple):
    """A fault: of which kind, where in the body, of what value, and what pydantic knows of it."""

    kind: str
    place: tuple[str | int, ...]
    value: object
    context: Mapping[str, Any]
    is_key: bool = False  # whether the value is a name within what is at the place


def explain_body(model: type[BaseModel], content: bytes, error: ValidationError) -> InvalidError:
    if error.error_count() > _MOST:
        return InvalidError(
            f"{error.error_count():,} values are not what they must be; /docs says what that is"
        )
    raised = error.errors(include_url=False, include_input=False)
    if raised[0]["type"] == _NO_JSON:
        return InvalidError(_explain_syntax(content, raised[0]["ctx"]["error"]))
    body = from_json(content)
    found = [_locate(body, one) for one in raised]
    # A name that is not known explains what is missing.
    worst = min(found, key=lambda one: (one.kind != _UNKNOWN, one.kind != _MISSING))
    if worst.kind == _UNKNOWN:
        return _explain_unknown(model, worst.place)
    if worst.kind == _MISSING:
        return _explain_missing(worst.place)
    return _explain_value(found)


def explain_parameter(raised: Sequence[Mapping[str, Any]]) -> InvalidError:
    """Return what is wrong with a parameter of a path, a query or a header."""
    _, *names = raised[0]["loc"]
    place, kind = tuple(names), raised[0]["type"]
    if kind == _MISSING:
        return _explain_missing(place)
    return _explain_value([_Found(kind, place, raised[0].get("input"), raised[0].get("ctx", {}))])


def _locate(body: object, raised: Mapping[str, Any]) -> _Found:
    """Return a fault at its place in the body: pydantic's also names types that were tried."""
    place: list[str | int] = []
    value: Any = body
    for part in raised["loc"]:
        if part == _KEY:
            value = place.pop()
        elif _holds(value, part):
            value = value[part]
            place.append(part)
    if raised["type"] == _MISSING:
        place.append(raised["loc"][-1])
    is_key = raised["loc"][-1:] == (_KEY,)
    return _Found(raised["type"], tuple(place), value, raised.get("ctx", {}), is_key)


def _holds(value: object, part: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(part, int) and part < len(value)
    return isinstance(value, dict) and part in value


def _explain_syntax(content: bytes, reason: str) -> str:
    if not content.strip():
        return "the body is empty; send a JSON object"
    found = re.search(r"line (\d+) column (\d+)", reason)
    where = f"it breaks off at line {found[1]}, column {found[2]}" if found else "it cannot be read"
    return f"the body is not JSON: {where}; send a JSON object"


def _explain_unknown(model: type[BaseModel], place: tuple[str | int, ...]) -> InvalidError:
    *above, name = place
    known = _find_model(model, above).model_fields
    near = find_near(name, known)
    hint = f"did you mean {near!r}?" if near else f"there are {', '.join(known)}"
    where = f"{_join(above)}: " if above else ""
    return InvalidError(f"{where}there is no field {_show(name)}; {hint}", field=_join(place))


def _explain_missing(place: Sequence[str | int]) -> InvalidError:
    return InvalidError(f"{_join(place)} is missing; it must be given", field=_join(place))


def _explain_value(found: Sequence[_Found]) -> InvalidError:
    """Return what is wrong with a value: of several forms that it may have, what each would be."""
    first = found[0].place
    near = [one for one in found if all(a == b for a, b in zip(one.place, first, strict=False))]
    # Where one form fits but for something within, that is what is wrong.
    place = max((one.place for one in near), key=len)
    here = [one for one in near if one.place == place]
    # Where one form fits but for its length or its range, that is what is wrong.
    here = [one for one in here if not one.kind.endswith("_type")] or here
    for one in here:
        if one.kind == _OURS:
            where = f"{_join(place)}: " if place else ""
            return InvalidError(f"{where}{one.context['error']}", field=_join(place) or None)
    wanted = dict.fromkeys(_say_wanted(one) for one in here)
    if _NUMBER in wanted:
        wanted.pop(_WHOLE, None)
    name = f"{'a name in ' if here[0].is_key else ''}{_join(place) or 'the body'}"
    message = f"{name} is {_show(here[0].value)}; it must be {' or '.join(wanted)}{_suggest(here)}"
    return InvalidError(message, field=_join(place) or None)


def _say_wanted(fault: _Found) -> str:
    text = WANTED.get(fault.kind, "something else: see /docs").format(**fault.context)
    return "true" if text == "True" else text


def _suggest(here: Sequence[_Found]) -> str:
    """Return a word that is nearly what was given, where a few are to choose from."""
    words = [word for one in here for word in re.findall(r"'([^']*)'", one.context.get("expected", ""))]
    near = find_near(here[0].value, words) if words and isinstance(here[0].value, str) else None
    return f"; did you mean {near!r}?" if near else ""


def _show(value: object) -> str:
    if isinstance(value, (list, dict)):
        return f"{'a list' if isinstance(value, list) else 'an object'} of length {len(value):,}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    shown = repr(value)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


def _join(place: Sequence[str | int]) -> str:
    return ".".join(str(part)[:_LONGEST] for part in place)


def _find_model(model: type[BaseModel], place: Sequence[str | int]) -> type[BaseModel]:
    for part in place:
        if isinstance(part, str) and part in model.model_fields:
            model = _list_models(model.model_fields[part].annotation)[0]
    return model


def _list_models(hint: object) -> list[type[BaseModel]]:
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return [hint]
    return [found for part in get_args(hint) for found in _list_models(part)]
