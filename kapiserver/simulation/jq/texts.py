"""Functions of strings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from kapiserver.api.linear_regex import InvalidPattern, Matcher, compile_pattern
from kapiserver.simulation.jq.calls import expect, of_argument, of_arguments, of_pair, of_value
from kapiserver.simulation.jq.errors import JqError
from kapiserver.simulation.jq.filters import Filter, Scope, computed, values_of
from kapiserver.simulation.jq.formats import FORMATS, to_json, to_text
from kapiserver.simulation.jq.paths import positions_of
from kapiserver.simulation.jq.values import type_of

_MAX_TEXT = 1 << 20
_LAST_CHARACTER = 0x10FFFF
_FLAGS = {"i": "i", "s": "s", "n": "", "g": "", "p": "s", "l": ""}
"""The flags of regular expressions, and those of RE2 that they stand for."""


def _to_number(value: Any) -> Any:
    if type_of(value) == "number":
        return value
    text = expect(value, "string")
    try:
        number = orjson.loads(text)
    except orjson.JSONDecodeError:
        number = None
    if type_of(number) != "number" or text != text.strip():
        raise JqError("invalid number")
    return number


def _to_boolean(value: Any) -> bool:
    if value in ("true", "false") or isinstance(value, bool):
        return value in ("true", True)
    raise JqError(f"toboolean cannot be applied to: {type_of(value)}")


def _from_json(value: Any) -> Any:
    try:
        return orjson.loads(expect(value, "string"))
    except orjson.JSONDecodeError:
        raise JqError("invalid JSON") from None


def _ascii(method: Callable[[str], str]) -> Callable[[Any], str]:
    return lambda value: "".join(
        method(character) if character.isascii() else character
        for character in expect(value, "string")
    )


def _join(value: Any, separator: Any) -> str:
    texts = ["" if element is None else _joined(element) for element in expect(value, "array")]
    if not texts:
        return ""
    expect(separator, "string")
    if sum(map(len, texts)) + len(separator) * len(texts) > _MAX_TEXT:
        raise JqError("a string is too long")
    return str(separator.join(texts))


def _joined(value: Any) -> str:
    if isinstance(value, list | dict):
        raise JqError(f"cannot join: {type_of(value)}")
    return to_text(value)


def _split(value: Any, separator: Any) -> list[str]:
    text, by = expect(value, "string"), expect(separator, "string")
    return list(text.split(by)) if by and text else list(text)


def _starts(value: Any, prefix: Any) -> bool:
    return bool(expect(value, "string").startswith(expect(prefix, "string")))


def _ends(value: Any, suffix: Any) -> bool:
    return bool(expect(value, "string").endswith(expect(suffix, "string")))


def _without(method: Callable[[str, str], str]) -> Callable[[Any, Any], Any]:
    return lambda value, part: method(expect(value, "string"), expect(part, "string"))


def _without_both(text: str, part: str) -> str:
    return text.removeprefix(part).removesuffix(part)


def _trimmed(method: Callable[[str], str]) -> Callable[[Any], str]:
    return lambda value: method(expect(value, "string"))


def _explode(value: Any) -> list[int]:
    return [ord(character) for character in expect(value, "string")]


def _implode(value: Any) -> str:
    return "".join(map(_character, expect(value, "array")))


def _character(code: Any) -> str:
    if type_of(code) != "number":
        raise JqError(f"implode cannot be applied to: {type_of(code)}")
    is_valid = 0 <= code <= _LAST_CHARACTER and not 0xD800 <= code <= 0xDFFF
    return chr(int(code)) if is_valid else "\ufffd"


def _positions(value: Any, part: Any) -> list[int] | None:
    if value is None or part is None:
        return None
    if isinstance(value, list):
        return positions_of(value, part if isinstance(part, list) else [part])
    text, searched = expect(value, "string"), expect(part, "string")
    if not searched:
        return []
    starts = range(len(text) - len(searched) + 1)
    return [start for start in starts if text.startswith(searched, start)]


def _end_of_positions(at: int) -> Callable[[Any, Any], int | None]:
    def find(value: Any, part: Any) -> int | None:
        positions = _positions(value, part)
        return positions[at] if positions else None

    return find


# Regular expressions.


def _matcher(pattern: Any, flags: Any) -> Matcher:
    expect(pattern, "string")
    letters = "" if flags is None else expect(flags, "string")
    if not set(letters) <= set(_FLAGS):
        raise JqError(f"unsupported regular expression flag: {letters}")
    options = "".join(sorted({_FLAGS[letter] for letter in letters}))
    try:
        return compile_pattern(f"(?{options}){pattern}" if options else pattern)
    except InvalidPattern as error:
        raise JqError(str(error)) from None


def _match(pattern: Filter, flags: Filter) -> Filter:
    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for letters in values_of(flags, value, scope):
            for pattern_value in values_of(pattern, value, scope):
                text = expect(value, "string")
                scope.budget.spend(1 + len(text) // 4)
                for match in _matcher(pattern_value, letters).finditer(text):
                    yield scope.budget.spend_for(_described(match))
                    if letters is None or "g" not in letters:
                        break

    return computed(run)


def _described(match: Any) -> dict[str, Any]:
    """Describe a match, as jq does."""
    names = {number: name for name, number in match.re.groupindex.items()}
    captures = [
        {**_part(match, number), "name": names.get(number)}
        for number in range(1, match.re.groups + 1)
    ]
    return {**_part(match, 0), "captures": captures}


def _part(match: Any, number: int) -> dict[str, Any]:
    text = match.group(number)
    return {"offset": match.start(number), "length": len(text or ""), "string": text}


def _test(value: Any, pattern: Any, flags: Any) -> bool:
    text = expect(value, "string")
    return bool(_matcher(pattern, flags).search(text))


def _format(name: Filter) -> Filter:
    def run(value: Any, scope: Scope) -> Iterator[Any]:
        for format_name in values_of(name, value, scope):
            form = FORMATS.get(f"@{format_name}")
            if form is None:
                raise JqError(f"format not defined: {to_json(format_name)}")
            yield from form(value, scope)

    return computed(run)


TEXT_FUNCTIONS: Mapping[tuple[str, int], Callable[..., Filter]] = {
    ("ascii_downcase", 0): of_value(_ascii(str.lower)),
    ("ascii_upcase", 0): of_value(_ascii(str.upper)),
    ("endswith", 1): of_argument(_ends),
    ("explode", 0): of_value(_explode),
    ("format", 1): _format,
    ("fromjson", 0): of_value(_from_json),
    ("implode", 0): of_value(_implode),
    ("index", 1): of_pair(_end_of_positions(0)),
    ("indices", 1): of_pair(_positions),
    ("join", 1): of_argument(_join),
    ("ltrim", 0): of_value(_trimmed(str.lstrip)),
    ("ltrimstr", 1): of_argument(_without(str.removeprefix)),
    ("match", 2): _match,
    ("rindex", 1): of_pair(_end_of_positions(-1)),
    ("rtrim", 0): of_value(_trimmed(str.rstrip)),
    ("rtrimstr", 1): of_argument(_without(str.removesuffix)),
    ("split", 1): of_argument(_split),
    ("startswith", 1): of_argument(_starts),
    ("test", 2): of_arguments(_test),
    ("toboolean", 0): of_value(_to_boolean),
    ("tojson", 0): of_value(to_json),
    ("tonumber", 0): of_value(_to_number),
    ("tostring", 0): of_value(to_text),
    ("trim", 0): of_value(_trimmed(str.strip)),
    ("trimstr", 1): of_argument(_without(_without_both)),
    ("utf8bytelength", 0): of_value(lambda value: len(expect(value, "string").encode())),
}
