"""Whether a server is alive and ready: named checks and the texts of /healthz, /livez, /readyz.

Knows no HTTP beyond its own answers. Mirrors apiserver/pkg/server/healthz of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Health:
    """The checks of one server: name -> nothing wrong ("") or what is, for the log only."""

    checks: dict[str, Callable[[], str]] = field(default_factory=lambda: {"ping": lambda: ""})
    draining: bool = False
