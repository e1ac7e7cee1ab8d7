"""The operator under test, in a thread of the test's process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import kopf
import pytest
from website_operator import REGISTRY

FOLDER = Path(__file__).parent


@pytest.fixture
def operator(
    request: pytest.FixtureRequest,
    kube_operator: Callable[..., None],
    kube_crds: Callable[..., object],
) -> None:
    """The operator; with the time of the server if the test uses the fixture kube_apiserver."""
    kube_crds(FOLDER / "crd.yaml")
    now = time.time
    if "kube_apiserver" in request.fixturenames:
        now = request.getfixturevalue("kube_apiserver").clock.now
    kube_operator(registry=REGISTRY, memo=kopf.Memo(now=now))
