"""CustomResourceDefinitions over HTTP: validation, names, updates and deletion."""

import itertools
import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.apiserver.conftest import JSON, Api, api_of_new_server
from tests.apiserver.customresources.customkit import (
    CRDS,
    SCHEMA,
    apply,
    conditions,
    definition,
    establish,
    path_of,
    version,
    wait_for_condition,
    wait_until_deleted,
    widget,
)

MERGE = "application/merge-patch+json"
SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


api = pytest.fixture(scope="module")(api_of_new_server)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"metadata": {"name": "other.example.com"}},
            'metadata.name: Invalid value: "other.example.com": must be '
            'spec.names.plural+"."+spec.group',
        ),
        (
            {"metadata": {"name": "widgets.example.com", "generateName": "w"}},
            'metadata.generateName: Invalid value: "w": must be spec.names.plural+"."+spec.group',
        ),
        ({"group": "nodots"}, "should be a domain with at least one dot"),
        ({"scope": "Everywhere"}, 'spec.scope: Unsupported value: "Everywhere"'),
        ({"versions": [version(storage=False)]}, "must have exactly one version marked as storage"),
        ({"versions": [version(), version()]}, "must contain unique version names"),
        (
            {"versions": [version("v1"), version("v2", served=True, storage=False, schema={})]},
            "spec.versions[1].schema.openAPIV3Schema.type: Required value: must not be empty at "
            "the root",
        ),
        (
            {"versions": [{"name": "v1", "served": True, "storage": True}]},
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
        (
            {"names": {"plural": "Widgets", "kind": "Widget"}},
            'spec.names.plural: Invalid value: "Widgets": a DNS-1035 label',
        ),
        (
            {"names": {"plural": "widgets", "kind": "Widget", "listKind": "Widget"}},
            "kind and listKind may not be the same",
        ),
        (
            {
                "versions": [
                    version(
                        additionalPrinterColumns=[{"name": "x", "type": "what", "jsonPath": "y"}]
                    )
                ]
            },
            'spec.additionalPrinterColumns[0].type: Invalid value: "what": must be one of '
            "boolean,date,integer,number,string",
        ),
        (
            {
                "versions": [
                    version(subresources={"scale": {**SCALE, "specReplicasPath": ".x.y"}}),
                ]
            },
            "spec.subresources.scale.specReplicasPath: Invalid value: "
            '".x.y": should be a json path under .spec',
        ),
        (
            {"versions": [version(deprecationWarning="x")]},
            "can only be set for deprecated versions",
        ),
        (
            {"versions": [version(selectableFields=[{"jsonPath": ".spec.parts"}])]},
            "must point to a field of type string, boolean or integer",
        ),
        (
            {"conversion": {"strategy": "Webhook"}},
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to "
            "Webhook",
        ),
        ({"preserveUnknownFields": True}, "must be false in order to use defaults in the schema"),
        ({"group": "widgets.k8s.io"}, 'must have approval annotation "api-approved.kubernetes.io"'),
    ],
)
def test_definition_validation(api: Api, changes: Any, message: str) -> None:
    """An invalid definition is a 422 with kube-apiserver's message."""
    crd = definition()
    metadata = changes.pop("metadata", crd["metadata"])
    crd = {**crd, "metadata": metadata, "spec": {**crd["spec"], **changes}}
    response = api.post(f"{CRDS}?dryRun=All", crd)
    assert response.status == 422, response.body
    assert message in response.message


def test_name_conflicts(api: Api) -> None:
    """A second definition of a kind in a group is not established until the first is deleted."""
    first = definition(names={"shortNames": ["wd"]})
    establish(api, first)
    group = first["spec"]["group"]
    second = definition(group=group, names={"plural": "others", "kind": "Widget"})
    assert api.post(CRDS, second).status == 201
    rejected = wait_for_condition(api, second["metadata"]["name"], "NamesAccepted", "False")
    assert conditions(rejected) == {
        "NamesAccepted": ("False", "ListKindConflict"),
        "Established": ("False", "NotAccepted"),
    }
    assert rejected["status"]["conditions"][0]["message"] == '"WidgetList" is already in use'
    assert rejected["status"]["acceptedNames"] == {"plural": "others", "kind": ""}
    assert api.get(f"/apis/{group}/v1/others").status == 404
    api.delete(f"{CRDS}/{first['metadata']['name']}")
    wait_for_condition(api, second["metadata"]["name"], "Established", "True")
    assert api.get(f"/apis/{group}/v1/others").status == 200


def test_definition_deletion(api: Api) -> None:
    """Deletion removes the objects first and waits for their finalizers. Watches get the DELETED
    events and end, and then the path is a 404."""
    crd = definition()
    path, name = establish(api, crd), crd["metadata"]["name"]
    api.post(path, widget(crd, "plain"))
    finalized = widget(crd, "held")
    finalized["metadata"]["finalizers"] = ["example.com/wait"]
    api.post(path, finalized)
    with api.watch(f"{path}?watch=1") as stream:
        assert {stream.event()["object"]["metadata"]["name"] for _ in "ab"} == {"plain", "held"}
        response = api.delete(f"{CRDS}/{name}")
        assert response.json["metadata"]["finalizers"] == [
            "customresourcecleanup.apiextensions.k8s.io"
        ]
        assert conditions(response.json)["Terminating"] == ("True", "InstanceDeletionPending")
        for _ in "ab":  # another DELETE does not change the generation
            metadata = api.delete(f"{CRDS}/{name}").json["metadata"]
            assert metadata["generation"] == response.json["metadata"]["generation"] == 1
        event_types = {stream.event()["type"] for _ in "ab"}
        assert event_types == {"MODIFIED", "DELETED"}
        assert api.post(path, widget(crd, "late")).status == 403
        api.patch(f"{path}/held", {"metadata": {"finalizers": None}})
        assert stream.event()["type"] == "DELETED"
        wait_until_deleted(api, name)
        assert stream.event() is None
    assert api.get(path).status == 404


def test_objects_invalid_under_new_schema(api: Api) -> None:
    """A stored object that is invalid under a changed schema can be read and patched, but not
    applied."""
    crd = definition()
    path = establish(api, crd)
    api.post(path, widget(crd, "a", spec={"free": {"x": 1}}))
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "free": {"type": "string"}}}}}  # fmt: skip
    api.patch(f"{CRDS}/{crd['metadata']['name']}", {"spec": {"versions": [version(schema=schema)]}})
    assert api.patch(f"{path}/a", {"metadata": {"labels": {"a": "b"}}}).status == 200
    labelled = widget(crd, "a")
    labelled["metadata"]["labels"] = {"x": "y"}
    response = apply(api, f"{path}/a", labelled, "me")
    group = crd["spec"]["group"]
    message = (
        f"failed to create typed live object (default/a; {group}/v1, Kind=Widget): .spec.free: "
    )
    assert (response.status, response.message.startswith(message)) == (400, True), response.message


def test_apply_of_set_of_objects(api: Api) -> None:
    """Objects with a list of type set whose items are objects can be created, but not applied:
    ownership of its items is undefined."""
    items = {"type": "object", "x-kubernetes-map-type": "atomic",
             "properties": {"cidr": {"type": "string"}}}  # fmt: skip
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "nets": {"type": "array", "x-kubernetes-list-type": "set", "items": items}}}}}  # fmt: skip
    crd = definition(versions=[version(schema=schema)])
    path = establish(api, crd)
    net = widget(crd, "a", spec={"nets": [{"cidr": "10.0.0.0/8"}]})
    assert api.post(path, net).status == 201
    for name in "ab":
        response = apply(api, f"{path}/{name}", {**net, "metadata": {"name": name}}, "me")
        assert (response.status, response.message) == (
            400,
            f"failed to create typed patch object (/{name}; {crd['spec']['group']}/v1, "
            "Kind=Widget): .spec.nets: element 0: associative list without keys has an element "
            "that's a map type",
        )


def test_stored_versions(api: Api) -> None:
    """Objects stay readable after a change of the storage version. The old version cannot be
    removed from the definition before it is removed from status.storedVersions."""
    crd = definition(version("v1"), version("v2", storage=False))
    path, name = establish(api, crd), crd["metadata"]["name"]
    api.post(path, widget(crd, "old"))
    swapped = [{"storage": False}, {"storage": True}]
    versions = [old | change for old, change in zip(crd["spec"]["versions"], swapped, strict=True)]
    moved = api.patch(f"{CRDS}/{name}", {"spec": {"versions": versions}}).json
    assert moved["status"]["storedVersions"] == ["v1", "v2"]
    assert api.get(f"{path}/old").json["apiVersion"].endswith("/v1")
    response = api.patch(f"{CRDS}/{name}", {"spec": {"versions": versions[1:]}})
    assert "status.storedVersions[0]: Invalid value" in response.message
    assert api.patch(f"{path_of(crd, 'v2')}/old", {"spec": {"color": "red"}}).status == 200
    api.patch(f"{CRDS}/{name}/status", {"status": {"storedVersions": ["v2"]}})
    assert api.patch(f"{CRDS}/{name}", {"spec": {"versions": versions[1:]}}).status == 200
    assert api.get(path).status == 404
    assert api.get(f"{path_of(crd, 'v2')}/old").json["spec"]["color"] == "red"


def test_discovery_and_openapi(api: Api) -> None:
    """Once a kind is established, discovery has its resources, subresources, short names and
    categories, and OpenAPI has its schemas."""
    crd = definition(
        version(subresources={"status": {}}), names={"shortNames": ["wd"], "categories": ["all"]}
    )
    establish(api, crd)
    group = crd["spec"]["group"]
    listed = api.get(f"/apis/{group}/v1").json["resources"]
    assert [resource["name"] for resource in listed] == ["widgets", "widgets/status"]
    assert listed[0]["verbs"] == [
        "delete", "deletecollection", "get", "list", "patch", "create", "update", "watch",
    ]  # fmt: skip
    assert (listed[0]["shortNames"], listed[0]["categories"]) == (["wd"], ["all"])
    assert f"apis/{group}/v1" in api.get("/openapi/v3").json["paths"]
    schemas = api.get(f"/openapi/v3/apis/{group}/v1").json["components"]["schemas"]
    name = ".".join(reversed(group.split(".")))
    schema = schemas[f"{name}.v1.Widget"]
    kinds = [{"group": group, "kind": "Widget", "version": "v1"}]
    assert schema["x-kubernetes-group-version-kind"] == kinds
    assert schema["properties"]["spec"] == SCHEMA["properties"]["spec"]
    assert schemas[f"{name}.v1.WidgetList"]["required"] == ["items"]
    swagger = api.get("/openapi/v2").json["definitions"]
    assert swagger[f"{name}.v1.Widget"]["x-kubernetes-group-version-kind"] == kinds
    changed_version = crd["spec"]["versions"][0]
    changed_version["schema"]["openAPIV3Schema"]["description"] = "Another."
    api.patch(f"{CRDS}/{crd['metadata']['name']}", {"spec": {"versions": [changed_version]}})
    schemas = api.get(f"/openapi/v3/apis/{group}/v1").json["components"]["schemas"]
    assert schemas[f"{name}.v1.Widget"]["description"] == "Another."


def test_openapi_during_definition_changes(api: Api) -> None:
    """OpenAPI requests succeed while definitions are created and deleted."""

    def come_and_go(_: int) -> None:
        obj = definition()
        establish(api, obj)
        assert api.get(path_of(obj)).status == 200
        assert api.delete(f"{CRDS}/{obj['metadata']['name']}").status == 200

    with ThreadPoolExecutor() as pool:
        changes = [pool.submit(come_and_go, at) for at in range(60)]
        for path in itertools.cycle(("v2", "v3")):
            response = api.get(f"/openapi/{path}")
            assert response.status == 200, response.body
            if all(change.done() for change in changes):
                break
        for change in changes:
            change.result()


def test_changed_schema(api: Api) -> None:
    """Stored objects are pruned and defaulted by the current schema; a schema change ends open
    watches."""
    crd = definition()
    path, name = establish(api, crd), crd["metadata"]["name"]
    api.post(path, widget(crd, "a", spec={"color": "red"}))
    with api.watch(f"{path}?watch=1") as stream:
        stream.event()
        schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "size": {"type": "integer", "default": 7}}}}}  # fmt: skip
        api.patch(f"{CRDS}/{name}", {"spec": {"versions": [version(schema=schema)]}})
        assert stream.event() is None
    assert api.get(f"{path}/a").json["spec"] == {"size": 7}


def test_status_defaults(api: Api) -> None:
    """Create drops the status of the client and sets the defaults of the schema, which updates
    keep."""
    status = {"type": "object", "default": {"phase": "Pending"},
              "properties": {"phase": {"type": "string"}, "ready": {
                  "type": "boolean", "default": False}}}  # fmt: skip
    schema = {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        "status": status}}  # fmt: skip
    crd = definition(versions=[version(schema=schema, subresources={"status": {}})])
    path = establish(api, crd)
    obj = widget(crd, "a", spec={"size": 1}, status={"phase": "Done"})
    expected = {"phase": "Pending", "ready": False}
    assert api.post(path, obj).json["status"] == expected
    assert api.get(f"{path}/a").json["status"] == expected
    assert api.patch(f"{path}/a", {"spec": {"size": 2}}).json["status"] == expected


def test_garbage_collection(api: Api) -> None:
    """Owner references and namespace deletion work for custom objects."""
    crd = definition()
    establish(api, crd)
    api.post("/api/v1/namespaces", {"metadata": {"name": "leaving"}})
    path = path_of(crd).replace("/default/", "/leaving/")
    owner = api.post(path, widget(crd, "owner")).json
    owned = {"metadata": {"name": "owned"}}
    owned["metadata"] |= {"ownerReferences": [  # type: ignore[dict-item]
        {"apiVersion": owner["apiVersion"], "kind": "Widget", "name": "owner",
         "uid": owner["metadata"]["uid"]}]}  # fmt: skip
    api.post("/api/v1/namespaces/leaving/configmaps", owned)
    query = "watch=1&fieldSelector=metadata.name=owned"
    with api.watch(f"/api/v1/namespaces/leaving/configmaps?{query}") as stream:
        assert stream.event()["type"] == "ADDED"
        api.delete(f"{path}/owner")
        assert stream.event()["type"] == "DELETED"
    api.post(path, widget(crd, "left"))
    query = "watch=1&fieldSelector=metadata.name=leaving"
    with api.watch(f"/api/v1/namespaces?{query}") as stream:
        api.delete("/api/v1/namespaces/leaving")
        while stream.event()["type"] != "DELETED":
            pass
    assert api.get(path).json["items"] == []


def test_owner_kind_defined_later(api: Api) -> None:
    """An object whose owner has an unknown kind is kept; once the kind is defined and the owner
    does not exist, the object is deleted."""
    crd = definition()
    group = crd["spec"]["group"]
    owner = {"apiVersion": f"{group}/v1", "kind": "Widget", "name": "none", "uid": "no-such-uid"}
    name = f"waits-{group.partition('.')[0]}"
    path = "/api/v1/namespaces/default/configmaps"
    obj = {"metadata": {"name": name, "ownerReferences": [owner]}}
    assert api.post(path, obj).status == 201
    with api.watch(f"{path}?watch=1&fieldSelector=metadata.name={name}") as stream:
        assert stream.event()["type"] == "ADDED"
        establish(api, crd)
        assert stream.event()["type"] == "DELETED"


def test_unserved_version(api: Api) -> None:
    """A version that is no longer served is removed from paths, discovery and OpenAPI; its objects
    are kept."""
    crd = definition(version("v1"), version("v2", storage=False))
    path, name, group = establish(api, crd), crd["metadata"]["name"], crd["spec"]["group"]
    api.post(path, widget(crd, "a"))
    versions = [crd["spec"]["versions"][0] | {"served": False}, crd["spec"]["versions"][1]]
    assert api.patch(f"{CRDS}/{name}", {"spec": {"versions": versions}}).status == 200
    assert api.get(f"{path}/a").status == 404
    assert api.get(f"/apis/{group}/v1").status == 404
    assert api.get(f"{path_of(crd, 'v2')}/a").status == 200
    assert [served["version"] for served in api.get(f"/apis/{group}").json["versions"]] == ["v2"]
    schema_names = [
        name for name in api.get("/openapi/v2").json["definitions"] if name.endswith(".Widget")
    ]
    reverse = ".".join(reversed(group.split(".")))
    assert [name for name in schema_names if name.startswith(f"{reverse}.v")] == [
        f"{reverse}.v2.Widget"
    ]


def read_to_end(stream: Any) -> list[str]:
    """Read the events of a watch until it ends."""
    events = []
    while (event := stream.event()) is not None:
        events.append(event["type"])
    return events


def test_unserved_kind(api: Api) -> None:
    """If a kind has no served version, its watches end and its paths, discovery and OpenAPI entries
    are removed. Its objects are kept, and other kinds of the group are not affected."""
    group = f"unserved-{id(api)}.example.com"
    other_crd = definition(group=group, names={"plural": "gadgets", "kind": "Gadget"})
    crd = definition(version("v1"), version("v2", storage=False), group=group)
    path, name = establish(api, crd), crd["metadata"]["name"]
    other_path = establish(api, other_crd)
    created = api.post(path, widget(crd, "a")).json
    unserved = [{**spec_version, "served": False} for spec_version in crd["spec"]["versions"]]
    with api.watch(f"{path}?watch=1") as stream, api.watch(f"{other_path}?watch=1") as untouched:
        assert stream.event()["type"] == "ADDED"
        assert api.patch(f"{CRDS}/{name}", {"spec": {"versions": unserved}}).status == 200
        assert read_to_end(stream) == []
        for version_name in ("v1", "v2"):
            assert api.get(f"{path_of(crd, version_name)}/a").status == 404
            assert api.post(path_of(crd, version_name), widget(crd, "b")).status == 404
        api.post(other_path, widget(other_crd, "x"))
        assert untouched.event()["object"]["metadata"]["name"] == "x"
    resources = api.get(f"/apis/{group}/v1").json["resources"]
    assert [resource["name"] for resource in resources] == ["gadgets"]
    assert api.get(f"/apis/{group}/v2").status == 404
    document = api.get(f"/openapi/v3/apis/{group}/v1").json
    assert [url for url in document["paths"] if "widgets" in url] == []
    assert (
        api.patch(f"{CRDS}/{name}", {"spec": {"versions": crd["spec"]["versions"]}}).status == 200
    )
    assert api.get(f"{path}/a").json == created


def test_unserved_group(api: Api) -> None:
    """A group without served versions is removed from discovery and added again when one is
    served."""
    crd = definition()
    path, name, group = establish(api, crd), crd["metadata"]["name"], crd["spec"]["group"]
    created = api.post(path, widget(crd, "a")).json
    unserved = [{**spec_version, "served": False} for spec_version in crd["spec"]["versions"]]
    api.patch(f"{CRDS}/{name}", {"spec": {"versions": unserved}})
    for url in (f"/apis/{group}", f"/apis/{group}/v1", path, f"{path}/a"):
        assert api.get(url).status == 404, url
    assert group not in [item["name"] for item in api.get("/apis").json["groups"]]
    assert f"apis/{group}/v1" not in api.get("/openapi/v3").json["paths"]
    api.patch(f"{CRDS}/{name}", {"spec": {"versions": crd["spec"]["versions"]}})
    assert api.get(f"{path}/a").json == created


def test_overwritten_status(api: Api) -> None:
    """A status update by a client that clears Established ends the watches. The controller sets the
    names and the condition again, and the objects are kept."""
    crd = definition()
    path, name = establish(api, crd), crd["metadata"]["name"]
    created = api.post(path, widget(crd, "a")).json
    with api.watch(f"{path}?watch=1") as stream:
        assert stream.event()["type"] == "ADDED"
        changed = api.get(f"{CRDS}/{name}").json
        for condition in changed["status"]["conditions"]:
            condition["status"] = "False"
        changed["status"]["acceptedNames"] = {"plural": "", "kind": ""}
        response = api.put(f"{CRDS}/{name}/status", changed)
        assert response.status == 200, response.body
        assert read_to_end(stream) == []
    established = wait_for_condition(api, name, "Established", "True")
    assert established["status"]["acceptedNames"]["plural"] == "widgets"
    assert api.get(f"{path}/a").json == created


def test_definition_changes_under_load(api: Api) -> None:
    """Concurrent writes of definitions and their objects cause no 5xx, and all definitions can be
    deleted afterwards."""
    crds = [
        definition(version("v1"), version("v2", storage=False), group=f"busy{number}.example.com")
        for number in range(3)
    ]

    def act(number: int) -> list[Any]:
        dice = random.Random(number)
        responses = []
        for _ in range(50):
            crd, version_name = dice.choice(crds), dice.choice(("v1", "v2"))
            path = path_of(crd, version_name)
            name, object_path = crd["metadata"]["name"], f"{path}/o{dice.randrange(9)}"
            described = json.loads(json.dumps(crd["spec"]["versions"]))
            described[0]["schema"]["openAPIV3Schema"]["description"] = str(dice.random())
            obj = widget(crd, object_path.rpartition("/")[2], version_name)
            acts = (
                ("POST", CRDS, crd, JSON),
                ("DELETE", f"{CRDS}/{name}", None, JSON),
                ("PATCH", f"{CRDS}/{name}", {"spec": {"versions": described}}, MERGE),
                ("POST", path, obj, JSON),
                ("GET", path, None, JSON),
                ("PATCH", object_path, {"spec": {"replicas": 5}}, MERGE),
                ("DELETE", object_path, None, JSON),
            )
            method, url, body, media = dice.choices(acts, (4, 1, 2, 8, 4, 4, 2))[0]
            responses.append(api(method, url, body, type=media))
        return responses

    with ThreadPoolExecutor(4) as pool:
        responses = [response for batch in pool.map(act, range(4)) for response in batch]
    assert [response.body for response in responses if response.status >= 500] == []
    assert {response.status for response in responses} >= {200, 201, 404, 409}
    for crd in crds:
        api.delete(f"{CRDS}/{crd['metadata']['name']}")
        wait_until_deleted(api, crd["metadata"]["name"])
