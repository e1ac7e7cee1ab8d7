"""Adds the last requests of its test servers and a recording to the report of a failed test."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from kapiserver.testing.server import TestServer

SHOWN_REQUESTS = 15


def report_failure(
    item: pytest.Item, report: pytest.TestReport, servers: Sequence[TestServer], folder: Path
) -> None:
    """Record the servers of a failed test, and those that its own fixtures have made, and add a
    section to its report for each."""
    for number, server in enumerate(_running_servers(item, servers), 1):
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


def _running_servers(item: pytest.Item, servers: Sequence[TestServer]) -> list[TestServer]:
    """Return the servers, and those among the fixtures of a test, that run, each once."""
    values = getattr(item, "funcargs", {}).values()
    all_servers = [*servers, *(value for value in values if isinstance(value, TestServer))]
    return [server for server in dict.fromkeys(all_servers) if server.is_running]


def _file_name(nodeid: str) -> str:
    """Return the name of a test as a file name of at most 150 characters."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", nodeid).strip("-")[-150:]
