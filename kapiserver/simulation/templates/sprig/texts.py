"""sprig's functions for texts. The text is the last argument, so that it can come from a pipe."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kapiserver.api.go_format import go_value, quote
from kapiserver.simulation.templates.errors import check_size

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def _abbrev(width: int, text: str) -> str:
    return text if width < 4 or len(text) <= width else text[: width - 3] + "..."


def _camel_case(text: str) -> str:
    return "".join(part[:1].upper() + part[1:].lower() for part in _WORDS.findall(text))


def _cat(*values: Any) -> str:
    return join([go_value(value) for value in values if value is not None], " ")


def _contains(part: str, text: str) -> bool:
    return part in text


def _indent(spaces: int, text: str) -> str:
    padding = " " * min(max(spaces, 0), 1000)
    check_size(len(text) + len(padding) * (text.count("\n") + 1))
    return padding + text.replace("\n", "\n" + padding)


def _initials(text: str) -> str:
    return "".join(word[0] for word in text.split())


def join(texts: Sequence[str], separator: str) -> str:
    """Join texts. Raises TemplateError if the result is too long."""
    check_size(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _join(separator: str, values: Any) -> str:
    return join(_texts_of(values), separator)


def _texts_of(values: Any) -> list[str]:
    items = values if isinstance(values, list) else [values]
    return [go_value(item) for item in items if item is not None]


def _plural(one: str, many: str, count: int) -> str:
    return one if count == 1 else many


def _quote(*values: Any) -> str:
    return join([quote(go_value(value)) for value in values if value is not None], " ")


def _squote(*values: Any) -> str:
    return join([f"'{go_value(value)}'" for value in values if value is not None], " ")


def _repeat(count: int, text: str) -> str:
    check_size(max(count, 0) * len(text))
    return text * count


def _replace(old: str, new: str, text: str) -> str:
    check_size(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _split(separator: str, text: str) -> dict[str, Any]:
    return _numbered(_parts(separator, text))


def _splitn(separator: str, count: int, text: str) -> dict[str, Any]:
    parts = text.split(separator, count - 1) if count > 0 and separator else [text]
    return _numbered(parts)


def _parts(separator: str, text: str) -> list[str]:
    return text.split(separator) if separator else list(text)


def _numbered(parts: list[str]) -> dict[str, Any]:
    return {f"_{index}": part for index, part in enumerate(parts)}


def _substr(start: int, end: int, text: str) -> str:
    first = max(start, 0)
    return text[first:] if end < 0 or end > len(text) else text[first:end]


def _swap_words(separator: str) -> Callable[[str], str]:
    def joined(text: str) -> str:
        return separator.join(part.lower() for part in _WORDS.findall(text))

    return joined


def _trim_all(characters: str, text: str) -> str:
    return text.strip(characters)


def _trunc(count: int, text: str) -> str:
    if count < 0:
        return text[count:] if -count < len(text) else text
    return text[:count]


def _wrap(width: int, text: str) -> str:
    return _wrap_with(width, "\n", text)


def _wrap_with(width: int, separator: str, text: str) -> str:
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] = f"{lines[-1]} {word}"
        else:
            lines.append(word)
    return join(lines, separator)


def _on_text(method: Callable[[str], str]) -> Callable[[str], str]:
    def run(text: str) -> str:
        return method(text)

    return run


def _has_prefix(part: str, text: str) -> bool:
    return text.startswith(part)


def _has_suffix(part: str, text: str) -> bool:
    return text.endswith(part)


def _trim_prefix(part: str, text: str) -> str:
    return text.removeprefix(part)


def _trim_suffix(part: str, text: str) -> str:
    return text.removesuffix(part)


def _title(text: str) -> str:
    return re.sub(r"(?<!\S)\S", lambda match: match.group().upper(), text)


def _untitle(text: str) -> str:
    return re.sub(r"(?<!\S)\S", lambda match: match.group().lower(), text)


TEXTS: Mapping[str, Callable[..., Any]] = {
    "abbrev": _abbrev,
    "camelcase": _camel_case,
    "cat": _cat,
    "contains": _contains,
    "hasPrefix": _has_prefix,
    "hasSuffix": _has_suffix,
    "indent": _indent,
    "initials": _initials,
    "join": _join,
    "kebabcase": _swap_words("-"),
    "lower": _on_text(str.lower),
    "nindent": lambda spaces, text: "\n" + _indent(spaces, text),
    "nospace": _on_text(lambda text: "".join(text.split())),
    "plural": _plural,
    "quote": _quote,
    "repeat": _repeat,
    "replace": _replace,
    "snakecase": _swap_words("_"),
    "sortAlpha": lambda values: sorted(_texts_of(values)),
    "split": _split,
    "splitList": _parts,
    "splitn": _splitn,
    "squote": _squote,
    "substr": _substr,
    "swapcase": _on_text(str.swapcase),
    "title": _title,
    "toString": go_value,
    "toStrings": _texts_of,
    "trim": _on_text(str.strip),
    "trimAll": _trim_all,
    "trimPrefix": _trim_prefix,
    "trimSuffix": _trim_suffix,
    "trimall": _trim_all,
    "trunc": _trunc,
    "untitle": _untitle,
    "upper": _on_text(str.upper),
    "wrap": _wrap,
    "wrapWith": _wrap_with,
}
