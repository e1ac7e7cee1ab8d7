"""A project of RPC groups, and the import path that tests change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rpc.dummy import CONVERSION, TYPES, V1, V1ALPHA1
from tests.rpc.rpckit import Project


@pytest.fixture(name="project")
def _project(tmp_path: Path) -> Iterator[Project]:
    path = list(sys.path)
    yield Project(tmp_path)
    sys.path[:] = path


@pytest.fixture(name="dummy")
def _dummy(project: Project) -> Project:
    """The document's group dummy in both versions, generated."""
    project.proto("v1", V1, group="dummy")
    project.proto("v1alpha1", V1ALPHA1, group="dummy")
    project.write("dummy/types.py", TYPES)
    project.write("dummy/v1alpha1/conversion.py", CONVERSION)
    assert project.problems() == []
    return project
