"""Events of two groups are the same objects."""

from __future__ import annotations

from typing import Any

CORE = "/api/v1/namespaces/{}/events"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def event(name: str, namespace: str) -> dict[str, Any]:
    """An event as reporters of today send it."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": "2026-01-01T00:00:00.000001Z",
        "reportingController": "example.com/test",
        "reportingInstance": "test-1",
        "action": "Tested",
        "reason": "Because",
        "type": "Normal",
        "note": "words",
        "regarding": {"kind": "Pod", "name": "p", "namespace": namespace},
    }


def test_one_store(api, namespace: str) -> None:
    """What one group writes, the other reads, changes, lists and deletes, each in its own words."""
    core, events = CORE.format(namespace), EVENTS.format(namespace)
    made = api.post(events, event("e", namespace))
    assert made.status == 201, made.json
    assert made.json["note"] == "words"
    old = api.get(f"{core}/e").json
    assert (old["apiVersion"], old["message"], old["reportingComponent"]) == (
        "v1", "words", "example.com/test",
    )  # fmt: skip
    assert old["involvedObject"]["name"] == "p"
    assert old["metadata"]["uid"] == made.json["metadata"]["uid"]
    assert api.put(f"{core}/e", old | {"count": 2}).json["count"] == 2
    seen = api.get(f"{events}/e").json
    assert (seen["apiVersion"], seen["deprecatedCount"]) == ("events.k8s.io/v1", 2)
    assert api.patch(f"{events}/e", {"series": {"count": 3}}).status == 200
    assert api.get(f"{core}/e").json["series"]["count"] == 3
    assert [one["note"] for one in api.get(events).json["items"]] == ["words"]
    tables = [api.get(path, accept=TABLE).json for path in (core, events)]
    assert tables[0]["columnDefinitions"] == tables[1]["columnDefinitions"]
    assert tables[0]["rows"][0]["cells"][1:] == tables[1]["rows"][0]["cells"][1:]
    assert api.delete(f"{events}/e").json["status"] == "Success"
    answer = api.get(f"{events}/e")
    assert (answer.status, answer.message) == (404, 'events "e" not found')


def test_field_selectors(api, namespace: str) -> None:
    """Each group has its own names of the fields that events are selected by."""
    core, events = CORE.format(namespace), EVENTS.format(namespace)
    api.post(events, event("e", namespace))
    for path, selector, found in [
        (events, "regarding.kind=Pod", 1),
        (events, "regarding.kind=Node", 0),
        (events, "reportingController=example.com/test,reason=Because,type!=Warning", 1),
        (core, "involvedObject.kind=Pod,source=example.com/test", 1),
        (core, "reportingComponent=elsewhere", 0),
    ]:
        answer = api.get(f"{path}?fieldSelector={selector}")
        assert len(answer.json["items"]) == found, selector
    for path, name in [(events, "involvedObject.kind"), (core, "regarding.kind")]:
        answer = api.get(f"{path}?fieldSelector={name}%3DPod")
        assert answer.status == 400
        assert answer.message.endswith(f"field label not supported: {name}")


def test_watch(api, namespace: str) -> None:
    """Watchers of either group see every event, in the version of theirs."""
    core, events = CORE.format(namespace), EVENTS.format(namespace)
    with api.watch(f"{core}?watch=1") as old, api.watch(f"{events}?watch=1") as new:
        api.post(events, event("e", namespace))
        assert (old.event()["object"]["message"], new.event()["object"]["note"]) == (
            "words", "words",
        )  # fmt: skip
