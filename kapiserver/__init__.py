"""kapiserver: a Kubernetes API server in Python."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def check(objects: Iterable[Mapping[str, Any]], **options: Any) -> list[Any]:
    """Return what an API server would say to manifests: a list of
    `kapiserver.checking.finding.Finding`. The options are the fields of
    `kapiserver.checking.check.CheckOptions`. Raises ValueError for a wrong option, and RuntimeError
    in a coroutine, where `await kapiserver.checking.check.check_async(...)` does the same."""
    findings: list[Any] = import_module("kapiserver.checking.check").check(objects, **options)
    return findings
