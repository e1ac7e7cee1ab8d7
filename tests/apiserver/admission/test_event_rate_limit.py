"""EventRateLimit. The cases follow admission_test.go of Kubernetes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.apiserver.context import Server
from tests.apiserver.admission.pluginkit import JANE, KIM, run, write_configuration
from tests.clock import ManualClock


def limits(*rows: tuple[Any, ...]) -> dict[str, Any]:
    """The configuration of limits, each a type, qps, burst and cache size."""
    names = ("type", "qps", "burst", "cacheSize")
    return {
        "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1",
        "kind": "Configuration",
        "limits": [dict(zip(names, row, strict=False)) for row in rows],
    }


def event(name: str, component: str = "kubelet", involved: str = "p") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": involved},
        "source": {"component": component},
    }


@pytest.mark.parametrize(
    ("rows", "writes", "message"),
    [
        # each write: seconds since the one before, user, source, object
        ([("Server", 1, 2)], [(0, JANE, "a", "p"), (0, KIM, "b", "q"), (0, KIM, "c", "r")],
         "limit reached on type Server for key "),
        ([("Server", 1, 2)], [(0, JANE, "a", "p"), (0, JANE, "a", "p"), (1, JANE, "a", "p")], ""),
        ([("Server", 1, 2)], [(0, JANE, "a", "p"), (0, JANE, "a", "p"), (1, JANE, "a", "p"),
                              (0.5, JANE, "a", "p")], "limit reached on type Server for key "),
        ([("Namespace", 1, 1)], [(0, JANE, "a", "p"), (0, JANE, "a", "p")],
         "limit reached on type Namespace for key default"),
        ([("User", 1, 1)], [(0, JANE, "a", "p"), (0, KIM, "a", "p")], ""),
        ([("User", 1, 1)], [(0, JANE, "a", "p"), (0, JANE, "b", "q")],
         "limit reached on type User for key jane"),
        ([("SourceAndObject", 1, 1)], [(0, JANE, "a", "p"), (0, JANE, "b", "p"),
                                       (0, JANE, "a", "q")], ""),
        ([("SourceAndObject", 1, 1)], [(0, JANE, "a", "p"), (0, KIM, "a", "p")],
         "limit reached on type SourceAndObject for key aPoddefaultp"),
        # With a cache for one user the second user makes it forget the first.
        ([("User", 1, 1, 1)], [(0, JANE, "a", "p"), (0, KIM, "a", "p"), (0, JANE, "a", "p")], ""),
        ([("Server", 1, 1), ("User", 1, 1)], [(0, JANE, "a", "p"), (0, JANE, "a", "p")],
         "[limit reached on type Server for key , limit reached on type User for key jane]"),
        ([("User", 1, 1), ("Server", 1, 1)], [(0, JANE, "a", "p"), (0, KIM, "a", "p")],
         "limit reached on type Server for key "),
        ([("Server", 1, 1)], [(0, JANE, "a", "p"), (-5, JANE, "a", "p")],
         "limit reached on type Server for key "),
    ],
)  # fmt: skip
def test_event_rate_limit(tmp_path: Path, rows: Any, writes: Any, message: str) -> None:
    """The last event is refused with the message, or accepted."""
    clock = ManualClock()

    async def test(server: Server) -> None:
        for number, (seconds, user, component, involved) in enumerate(writes):
            clock.time += seconds
            events = server.client(user).resource("v1", "events", namespace="default")
            body = event(f"e{number}", component, involved)
            if number < len(writes) - 1 or not message:
                await events.create(body)
                continue
            with pytest.raises(StatusError) as caught:
                await events.create(body)
            assert (caught.value.status["code"], caught.value.reason) == (429, "TooManyRequests")
            assert caught.value.status["message"] == f"Too many requests: {message}"

    file = write_configuration(tmp_path, "EventRateLimit", limits(*rows))
    run(
        test,
        clock,
        enable_admission_plugins=("EventRateLimit",),
        admission_control_config_file=file,
    )
