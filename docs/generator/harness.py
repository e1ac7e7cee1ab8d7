"""The tables of the test harness: fixtures, settings and the members of its public classes.

Everything comes from signatures and docstrings.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator

from docs.generator.markdown import code, prose, table
from kapiserver import testing
from kapiserver.testing import pytest_plugin
from kapiserver.testing.control_api.operations import OPERATIONS
from kapiserver.testing.settings import server_config

_ROW = re.compile(r"^(\w+) {2,}(\S.*(?:\n {4,}\S.*)*)$", re.M)
"""A line `name    meaning` of a docstring, with the lines that continue it."""


def fixtures() -> str:
    """Return the table of fixtures."""
    rows = [
        (code(name), value._fixture_function_marker.scope, _text(value._get_wrapped_function()))
        for name, value in vars(pytest_plugin).items()
        if hasattr(value, "_fixture_function_marker") and not name.startswith("_")
    ]
    return table(("fixture", "scope", "gives"), rows)


def settings() -> str:
    """Return the table of settings that are not flags of the server."""
    rows = [(code(name), prose(text)) for name, text in _documented_rows(server_config)]
    return table(("setting", "meaning"), rows)


def control_operations() -> str:
    """Return the table of the operations of the control API."""
    rows = [
        (code(f"{each.method} {each.path}"), each.summary, ", ".join(map(code, each.arguments)))
        for each in OPERATIONS
    ]
    return table(("operation", "effect", "arguments"), rows)


def classes() -> str:
    """Return a section for each public class of `kapiserver.testing`."""
    public = [getattr(testing, name) for name in testing.__all__]
    return "\n\n".join(_class_section(each) for each in _with_parts(public))


def _with_parts(public: list[object]) -> list[type]:
    """Return the classes, and those of the parts of TestServer."""
    server = testing.TestServer()
    parts = [type(value) for name, value in vars(server).items() if not name.startswith("_")]
    own = [part for part in parts if part.__module__.startswith(testing.__name__)]
    return list(dict.fromkeys([*filter(inspect.isclass, public), *own]))


def _class_section(type_: type) -> str:
    paragraphs = (inspect.getdoc(type_) or "").split("\n\n")
    text = "\n\n".join(
        prose(" ".join(paragraph.split())) for paragraph in paragraphs if not _ROW.search(paragraph)
    )
    rows = sorted(dict(_members(type_)).items())
    return f"## {type_.__name__}\n\n{text}\n\n{table(('member', 'meaning'), rows)}"


def _members(type_: type) -> Iterator[tuple[str, str]]:
    """Yield signature and meaning of the public members, those of base classes included."""
    for base in reversed(type_.__mro__):
        if not base.__module__.startswith(testing.__name__):
            continue
        for name, text in _documented_rows(base):
            yield code(name), prose(text)
        for name, value in vars(base).items():
            text = "<br>".join((_text(value), *_arguments_rows(value)))
            blocking = getattr(base, name.removesuffix("_async"), value)
            if value is not blocking and inspect.getdoc(value) == inspect.getdoc(blocking):
                text = (
                    f"Do the same as {code(blocking.__name__)}, without blocking the caller's loop."
                )
            if name.startswith("_") or not _text(value):
                continue
            if isinstance(value, property | functools.cached_property):
                yield code(name), text
            elif inspect.isroutine(value):
                yield code(f"{name}({', '.join(_arguments(value))})"), text


def _arguments_rows(documented: object) -> list[str]:
    return [f"{code(name)}: {prose(meaning)}" for name, meaning in _documented_rows(documented)]


def _arguments(function: object) -> list[str]:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return [
        f"{'*' * (each.kind is each.VAR_POSITIONAL) + '**' * (each.kind is each.VAR_KEYWORD)}"
        f"{each.name}{'=' if each.kind is each.KEYWORD_ONLY else ''}"
        for each in parameters
    ]


def _documented_rows(documented: object) -> list[tuple[str, str]]:
    """Return the rows `name    meaning` of a docstring."""
    text = inspect.getdoc(documented) if not isinstance(documented, type) else documented.__doc__
    return [
        (name, " ".join(meaning.split()))
        for name, meaning in _ROW.findall(inspect.cleandoc(text or ""))
    ]


def _text(documented: object) -> str:
    """Return a docstring without its rows, on one line."""
    paragraphs = (inspect.getdoc(documented) or "").split("\n\n")
    return prose(" ".join(" ".join(each.split()) for each in paragraphs if not _ROW.search(each)))
