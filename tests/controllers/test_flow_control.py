"""The mandatory and suggested objects of API priority and fairness."""

from __future__ import annotations

from tests.controllers.waiting import wait_until

PATH = "/apis/flowcontrol.apiserver.k8s.io/v1"


def test_defaults(api):
    """The flow schemas and priority levels exist soon after the start."""
    wait_until(api, f"{PATH}/flowschemas", "service-accounts", lambda obj: obj is not None)
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


def missing_level(api, name):
    """The cell of a FlowSchema in the column MISSINGPL."""
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = api.get(f"{PATH}/flowschemas/{name}", accept=accept).json
    columns = [column["name"] for column in table["columnDefinitions"]]
    return table["rows"][0]["cells"][columns.index("MissingPL")]


def test_dangling(api):
    """The condition Dangling says whether the priority level of a FlowSchema is missing."""

    def wait_for(status):
        def is_done(obj):
            return obj is not None and any(
                (each["type"], each["status"]) == ("Dangling", status)
                for each in obj["status"].get("conditions") or ()
            )

        return wait_until(api, f"{PATH}/flowschemas", "some", is_done)

    spec = {"priorityLevelConfiguration": {"name": "mine"}, "matchingPrecedence": 5000}
    api.post(f"{PATH}/flowschemas", {"metadata": {"name": "some"}, "spec": spec})
    schema = wait_for("True")
    (condition,) = schema["status"]["conditions"]
    assert condition["reason"] == "NotFound"
    assert condition["message"] == (
        'This FlowSchema references the PriorityLevelConfiguration object named "mine" but there '
        "is no such object"
    )
    (entry,) = (each for each in schema["metadata"]["managedFields"] if "subresource" in each)
    assert entry["manager"] == "api-priority-and-fairness-config-consumer-v1"
    assert (entry["operation"], entry["subresource"]) == ("Apply", "status")
    assert missing_level(api, "some") == "True"

    level = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
    api.post(f"{PATH}/prioritylevelconfigurations", {"metadata": {"name": "mine"}, "spec": level})
    (condition,) = wait_for("False")["status"]["conditions"]
    assert (condition["reason"], condition["message"].rpartition('"')[2]) == (
        "Found", " and it exists",
    )  # fmt: skip
    assert missing_level(api, "some") == "False"
    api.delete(f"{PATH}/prioritylevelconfigurations/mine")
    wait_for("True")
    api.delete(f"{PATH}/flowschemas/some")


def test_maintenance(api):
    """The server restores what it maintains, and deletes what an earlier release suggested."""
    schemas, levels = f"{PATH}/flowschemas", f"{PATH}/prioritylevelconfigurations"
    wait_until(api, schemas, "service-accounts", lambda obj: obj is not None)
    spec = {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 5000}
    for name, value in (("old", "true"), ("new", "false")):
        metadata = {"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": value}}
        assert api.post(schemas, {"metadata": metadata, "spec": spec}).status == 201
    lendable = {"spec": {"limited": {"lendablePercent": 1}}}
    assert api.patch(f"{levels}/workload-low", lendable).status == 200
    own = {"metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}}}
    assert api.patch(f"{levels}/workload-high", lendable | own).status == 200
    assert api.delete(f"{schemas}/service-accounts").status == 200

    def has_percent(obj):
        return obj["spec"]["limited"]["lendablePercent"] == 90

    wait_until(api, levels, "workload-low", has_percent)
    wait_until(api, schemas, "service-accounts", lambda obj: obj is not None)
    wait_until(api, schemas, "old", lambda obj: obj is None)
    assert api.get(f"{levels}/workload-high").json["spec"]["limited"]["lendablePercent"] == 1
    assert api.delete(f"{schemas}/new").status == 200
    assert api.delete(f"{levels}/workload-high").status == 200
