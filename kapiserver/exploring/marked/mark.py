"""What the plugin and the runs of tests with the mark `kube_explore` share."""

from __future__ import annotations

from typing import Any

import pytest

MARKER = "kube_explore"
PLAN_OPTION = "--kapiserver-plan"
RECORD_OPTION = "--kapiserver-record"
"""An option of `testing/pytest_plugin.py`: the folder for recordings."""
TEST_RUN: pytest.StashKey[Any] = pytest.StashKey()
"""The `TestRun` of a marked test that goes on."""
