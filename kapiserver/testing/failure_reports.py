"""Adds the last requests of its test servers and a recording to the report of a failed test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kapiserver.testing.namespace import TestNamespace
from kapiserver.testing.server import TestServer

SHOWN_REQUESTS = 15


def report_failure(item: pytest.Item, report: pytest.TestReport, folder: Path) -> None:
    """Record the servers that a failed test has as fixtures, and add a section to its report."""
    for number, server in enumerate(_servers(item), 1):
        suffix = f"-{number}" if number > 1 else ""
        path = folder / f"{_file_name(item.nodeid)}{suffix}.json.gz"
        server.record(path, test=item.nodeid)
        requests = "\n".join(map(str, list(server.requests)[-SHOWN_REQUESTS:])) or "no requests"
        report.sections.append(
            (
                "API server",
                f"{requests}\nThe requests, writes and objects of the server: "
                f"kapiserver replay {path}",
            )
        )


def _servers(item: pytest.Item) -> Iterator[TestServer]:
    """Yield the running servers among the fixtures of a test."""
    servers: dict[int, TestServer] = {}
    for value in getattr(item, "funcargs", {}).values():
        server = value.server if isinstance(value, TestNamespace) else value
        if isinstance(server, TestServer) and server.is_running:
            servers[id(server)] = server
    yield from servers.values()


def _file_name(nodeid: str) -> str:
    """Return the name of a test as a file name of at most 150 characters."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", nodeid).strip("-")[-150:]
