"""Fields that admission sets from the request: its time and its user."""

import pytest

from kapiserver.apiserver.admission.resource_rules import resource_rules
from kapiserver.apiserver.user import User

NOW, EARLIER = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"
BOUND = {"status": {"phase": "Bound"}}
PENDING = {"status": {"phase": "Pending", "lastPhaseTransitionTime": EARLIER}}
TAINT = {"key": "k", "effect": "NoExecute"}


def _rule(**taint):
    return {"spec": {"taint": {**TAINT, **taint}}}


CASES = [
    ("persistentvolumes/status", BOUND, PENDING, ("status", "lastPhaseTransitionTime"), NOW),
    (
        "persistentvolumes/status",
        PENDING,
        PENDING,
        ("status", "lastPhaseTransitionTime"),
        EARLIER,
    ),
    ("devicetaintrules.resource.k8s.io", _rule(), None, ("spec", "taint", "timeAdded"), NOW),
    (
        "devicetaintrules.resource.k8s.io",
        _rule(effect="NoSchedule", timeAdded=EARLIER),
        _rule(timeAdded=EARLIER),
        ("spec", "taint", "timeAdded"),
        NOW,
    ),
    (
        "devicetaintrules.resource.k8s.io",
        _rule(value="v", timeAdded=EARLIER),
        _rule(timeAdded=EARLIER),
        ("spec", "taint", "timeAdded"),
        EARLIER,
    ),
]


@pytest.mark.parametrize(("resource", "new", "old", "path", "expected"), CASES)
def test_timestamps(resource, new, old, path, expected):
    """A change sets the timestamp; an unchanged value keeps it."""
    resource_rules(resource).set_defaults(new, old, User(name="u"), NOW)
    value = new
    for name in path:
        value = value[name]
    assert value == expected


def test_devices():
    """Taints of devices get timeAdded unless the driver set it."""
    devices = [{"taints": [dict(TAINT), {**TAINT, "timeAdded": EARLIER}]}]
    new = {"spec": {"devices": devices}}
    rules = resource_rules("resourceslices.resource.k8s.io")
    rules.set_defaults(new, None, User(name="u"), NOW)
    assert [taint["timeAdded"] for taint in devices[0]["taints"]] == [NOW, EARLIER]
