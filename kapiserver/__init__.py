"""kapiserver: a Kubernetes API server in Python."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def check(objects: Iterable[Mapping[str, Any]], **options: Any) -> list[Any]:
    """Return what an API server would say to manifests, as a list of
    `kapiserver.checking.finding.Finding`.

    The options are those of `kapiserver.checking.check.check`. Raises TypeError and ValueError for
    a wrong option, and RuntimeError in a coroutine, where `await check_async(...)` of the same
    module does the same.
    """
    findings: list[Any] = import_module("kapiserver.checking.check").check(objects, **options)
    return findings
