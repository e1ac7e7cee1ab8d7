"""A project of RPC groups, and the import path that tests change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rpc.rpckit import Project


@pytest.fixture(name="project")
def _project(tmp_path: Path) -> Iterator[Project]:
    path = list(sys.path)
    yield Project(tmp_path)
    sys.path[:] = path
