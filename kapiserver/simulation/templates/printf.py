"""`print` and `printf` of templates. Mirrors package fmt."""

from __future__ import annotations

import re
from typing import Any

from kapiserver.api.go_format import go_value, quote
from kapiserver.simulation.templates.errors import TemplateError, check_size
from kapiserver.simulation.templates.values import Number, to_number, type_name

_VERB = re.compile(r"%([-+# 0]*)(\d{1,4})?(?:\.(\d{0,4}))?(.)", re.DOTALL)
_MAX_WIDTH = 1000


def sprint(*values: Any) -> str:
    """Write values one after the other, with a space between two that are not texts."""
    parts: list[str] = []
    for index, value in enumerate(values):
        if index and not isinstance(value, str) and not isinstance(values[index - 1], str):
            parts.append(" ")
        parts.append(go_value(value))
        check_size(sum(map(len, parts[-2:])))
    check_size(sum(map(len, parts)))
    return "".join(parts)


def sprintf(form: str, *values: Any) -> str:
    """Write values as a format says. A verb that does not fit a value is written in the text, as
    Go does: `%!d(string=x)`."""
    remaining = list(values)
    size = len(form)

    def written(match: re.Match[str]) -> str:
        nonlocal size
        text = _formatted(match, remaining)
        size += len(text)
        check_size(size)
        return text

    text = _VERB.sub(written, form)
    if text.endswith("%") and not form.endswith("%%") and form.endswith("%"):
        text = f"{text[:-1]}%!(NOVERB)"
    if remaining:
        extra = ", ".join(f"{type_name(value)}={go_value(value)}" for value in remaining)
        text = f"{text}%!(EXTRA {extra})"
    return text


def _formatted(match: re.Match[str], remaining: list[Any]) -> str:
    """Return the text for one verb, and take its value."""
    flags, width, precision, verb = match.groups()
    if verb == "%":
        return "%"
    if not remaining:
        return f"%!{verb}(MISSING)"
    if int(width or 0) > _MAX_WIDTH or int(precision or 0) > _MAX_WIDTH:
        raise TemplateError(f"a width is larger than {_MAX_WIDTH}")
    value = remaining.pop(0)
    text = _verb_text(verb, flags, None if precision is None else int(precision or 0), value)
    if text is None:
        described = "" if value is None else f"={go_value(value)}"
        text = f"%!{verb}({type_name(value)}{described})"
    return _padded(text, flags, int(width or 0))


def _verb_text(verb: str, flags: str, precision: int | None, value: Any) -> str | None:
    """Return a value as a verb writes it; None if the verb does not fit."""
    if verb == "v":
        return go_value(value)
    if verb == "T":
        return type_name(value)
    if verb == "t":
        return go_value(value) if isinstance(value, bool) else None
    if verb == "s":
        return go_value(value)[:precision] if isinstance(value, str | list | dict) else None
    if verb == "q":
        return quote(value) if isinstance(value, str) else None
    number = to_number(value) if isinstance(value, Number) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        return _hexadecimal(verb, value)
    return _number_text(verb, flags, precision, number)


def _hexadecimal(verb: str, value: Any) -> str | None:
    if not isinstance(value, str) or verb not in "xX":
        return None
    text = value.encode().hex()
    return text if verb == "x" else text.upper()


def _number_text(verb: str, flags: str, precision: int | None, number: float) -> str | None:
    sign = "+" if "+" in flags else " " if " " in flags else ""
    if isinstance(number, int):
        if verb == "c":
            return chr(number) if 0 <= number <= 0x10FFFF else "\ufffd"
        kind = {"d": "d", "x": "x", "X": "X", "o": "o", "b": "b"}.get(verb)
        alternate = "#" if "#" in flags and verb != "d" else ""
        return None if kind is None else format(number, f"{sign}{alternate}{kind}")
    if verb not in "eEfFgG":
        return None
    if verb in "gG" and precision is None:
        return go_value(number)
    return format(number, f"{sign}.{6 if precision is None else precision}{verb}")


def _padded(text: str, flags: str, width: int) -> str:
    if "-" in flags:
        return text.ljust(width)
    return text.zfill(width) if "0" in flags else text.rjust(width)
