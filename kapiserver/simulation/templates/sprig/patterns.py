"""sprig's functions for regular expressions, which match in linear time (RE2), as in Go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kapiserver.api.linear_regex import compile_pattern
from kapiserver.simulation.templates.errors import check_size


def _match(pattern: str, text: str) -> bool:
    return compile_pattern(pattern).search(text) is not None


def _find(pattern: str, text: str) -> str:
    match = compile_pattern(pattern).search(text)
    return "" if match is None else match.group()


def _find_all(pattern: str, text: str, count: int) -> list[str]:
    matches = [match.group() for match in compile_pattern(pattern).finditer(text)]
    return matches if count < 0 else matches[:count]


def _replace_literally(pattern: str, text: str, new: str) -> str:
    parts: list[str] = []
    end = size = 0
    for match in compile_pattern(pattern).finditer(text):
        parts += [text[end : match.start()], new]
        size += match.start() - end + len(new)
        check_size(size)
        end = match.end()
    return "".join([*parts, text[end:]])


def _split(pattern: str, text: str, count: int) -> list[str]:
    parts: list[str] = []
    end = 0
    for match in compile_pattern(pattern).finditer(text):
        if 0 < count <= len(parts) + 1:
            break
        if match.end() > match.start():
            parts.append(text[end : match.start()])
            end = match.end()
    return [*parts, text[end:]] if count else []


PATTERNS: Mapping[str, Callable[..., Any]] = {
    "mustRegexFind": _find,
    "mustRegexMatch": _match,
    "regexFind": _find,
    "regexFindAll": _find_all,
    "regexMatch": _match,
    "regexReplaceAllLiteral": _replace_literally,
    "regexSplit": _split,
}
