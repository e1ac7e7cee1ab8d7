"""The lines of the log: formats, levels of modules, and credentials that do not get into them."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from kapiserver.apiserver.redaction import without_credentials
from kapiserver.apiserver.serving.process.logs import (
    FIELDS,
    JSONFormatter,
    LineFormatter,
    Verbosity,
    _ModuleFilter,
)


def _record(message: str, *, level: int = logging.INFO, **extra: object) -> logging.LogRecord:
    values = {"name": "kapiserver.rpc.calls", "levelno": level, "module": "calls", "msg": message}
    values |= {"levelname": logging.getLevelName(level), "created": 1.5, "msecs": 500.0}
    return logging.makeLogRecord(values | extra)


def test_formats() -> None:
    """A line of each format has the time, the level, the logger, the message and the fields; no
    text forges another line."""
    record = _record('a\n"b"', **{FIELDS: {"status": 200, "path": "/a\nb"}})
    assert LineFormatter().format(record) == (
        "time=1970-01-01T00:00:01.500Z level=info logger=kapiserver.rpc.calls "
        r'msg="a\n\"b\"" status=200 path="/a\nb"'
    )
    line = JSONFormatter().format(record)
    assert json.loads(line) == {
        "ts": 1500.0,
        "level": "info",
        "logger": "kapiserver.rpc.calls",
        "msg": 'a\n"b"',
        "status": 200,
        "path": "/a\nb",
    }
    assert "\n" not in line


@pytest.mark.parametrize("formatter", [LineFormatter(), JSONFormatter()])
def test_no_credentials(formatter: logging.Formatter) -> None:
    """A password in a URL of a message, a field or a traceback does not get into the line."""
    text = "cannot reach https://root:hunter2@host:2379/x"
    try:
        raise ValueError(text)
    except ValueError:
        record = _record(text, exc_info=sys.exc_info(), **{FIELDS: {"url": text}})
    line = formatter.format(record)
    assert "hunter2" not in line
    assert line.count("https://CLASSIFIED@host:2379/x") == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://a:b@c d", "http://CLASSIFIED@c d"),
        ("etcd:http://a:b@c,http://d:e@f", "etcd:http://CLASSIFIED@c,http://CLASSIFIED@f"),
        (
            "postgresql://h/d?password=a&sslpassword=b",
            "postgresql://h/d?password=CLASSIFIED&sslpassword=CLASSIFIED",
        ),
        ("http://host/path@x", "http://host/path@x"),
        ("mail a@b about http://c", "mail a@b about http://c"),
        ("Authorization: Bearer abcd.efgh-1_2=", "Authorization: Bearer CLASSIFIED"),
        ("basic words, Basic dXNlcjpwdw==", "basic words, Basic CLASSIFIED"),
        ("invalid bearer token", "invalid bearer token"),
    ],
)
def test_redaction(text: str, expected: str) -> None:
    """Users and passwords of URLs and values of Authorization are replaced, other texts stay."""
    assert without_credentials(text) == expected


@pytest.mark.parametrize(
    ("modules", "level"),
    [
        ((), 0),
        ((("calls", 2),), 2),
        ((("call?", 1), ("calls", 2)), 1),
        ((("kapiserver.rpc.*", 1),), 1),
        ((("rpc", 2), ("kapiserver", 2)), 0),
    ],
)
def test_vmodule(modules: tuple[tuple[str, int], ...], level: int) -> None:
    """The first pattern that matches the module or the logger decides what is logged."""
    verbosity = Verbosity(0, modules)
    assert verbosity.of("kapiserver.rpc.calls", "calls") == level
    levels = (logging.WARNING, logging.INFO, logging.DEBUG)
    passed = [_ModuleFilter(verbosity).filter(_record("", level=each)) for each in levels]
    assert passed == [True, level >= 1, level >= 2]
