"""The mandatory and suggested objects of API priority and fairness."""

from __future__ import annotations

from tests.controllers.waiting import wait_until

PATH = "/apis/flowcontrol.apiserver.k8s.io/v1"


def test_defaults(api):
    """The flow schemas and priority levels exist soon after the start."""
    wait_until(api, f"{PATH}/flowschemas", "workload-leader-election", lambda obj: obj is not None)
    schemas = {
        item["metadata"]["name"]: item for item in api.get(f"{PATH}/flowschemas").json["items"]
    }
    levels = api.get(f"{PATH}/prioritylevelconfigurations").json["items"]
    names = {item["metadata"]["name"] for item in levels}
    assert {
        item["spec"]["priorityLevelConfiguration"]["name"] for item in schemas.values()
    } <= names
    assert schemas["catch-all"]["spec"]["matchingPrecedence"] == 10000
    assert schemas["exempt"]["spec"]["rules"][0]["subjects"] == [
        {"kind": "Group", "group": {"name": "system:masters"}}
    ]
