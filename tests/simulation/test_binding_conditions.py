"""Binding conditions of devices: what keeps a pod waiting, and why it gets another device."""

from __future__ import annotations

import re

import pytest

from kapiserver.simulation.scheduler.devices.binding_conditions import (
    DeviceBindingError,
    seconds_to_wait,
)
from tests.simulation.devices import a_claim, allocated
from tests.times import text_of

NOW = 1_700_000_000


def condition(kind, status="True"):
    return {"type": kind, "status": status, "reason": "Tested", "message": "as the test says"}


@pytest.mark.parametrize(
    ("conditions", "seconds", "result"),
    [
        ([], 0, 600),
        ([condition("a")], 599, 1),
        ([condition("a"), condition("b", "False")], 10, 590),
        ([condition("a"), condition("b")], 700, None),
        ([condition("a"), condition("b"), condition("c", "False")], 0, None),
        ([], 600, "device binding timeout: claim=c"),
        (
            [condition("a"), condition("b"), condition("c")], 0,
            'device binding failed: claim=c, reason=Tested, message="as the test says"',
        ),
    ],
)  # fmt: skip
def test_binding_conditions(conditions, seconds, result):
    """A pod waits until all conditions of its device are true, and at most ten minutes."""
    claim = allocated(a_claim("c"), ("gpus", "x"))
    (device,) = claim["status"]["allocation"]["devices"]["results"]
    claim["status"]["allocation"]["allocationTimestamp"] = text_of(NOW)
    assert seconds_to_wait(claim, NOW + seconds) is None
    device |= {"bindingConditions": ["a", "b"], "bindingFailureConditions": ["c"]}
    identity = {name: device[name] for name in ("driver", "pool", "device")}
    other = identity | {"device": "y", "conditions": [condition("c")]}
    claim["status"]["devices"] = [other, identity | {"conditions": conditions}]
    if isinstance(result, str):
        with pytest.raises(DeviceBindingError, match=re.escape(result)):
            seconds_to_wait(claim, NOW + seconds)
    else:
        assert seconds_to_wait(claim, NOW + seconds) == result
