"""CustomResourceDefinitions over HTTP: their rules, their names, their changes and their end."""

import itertools
import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.apiserver.conftest import JSON, Api, Server
from tests.apiserver.customkit import (
    CRDS,
    SCHEMA,
    apply,
    conditions,
    definition,
    establish,
    gone,
    path_of,
    until,
    version,
    widget,
)

MERGE = "application/merge-patch+json"
SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """A server of these tests' own: it fills with groups."""
    server = Server()
    yield server.api
    server.end()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"metadata": {"name": "other.example.com"}},
            'metadata.name: Invalid value: "other.example.com": must be '
            'spec.names.plural+"."+spec.group',
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
def test_a_definition_is_held_to_its_rules(api: Api, changes: Any, message: str) -> None:
    """What is wrong with a definition is said in kube-apiserver's words."""
    crd = definition()
    metadata = changes.pop("metadata", crd["metadata"])
    crd = {**crd, "metadata": metadata, "spec": {**crd["spec"], **changes}}
    response = api.post(f"{CRDS}?dryRun=All", crd)
    assert response.status == 422, response.body
    assert message in response.message


def test_names_that_are_taken_are_not_accepted_until_they_are_free(api: Api) -> None:
    """A second definition of a kind in the group is not established; when the first is gone, it
    is."""
    first = definition(names={"shortNames": ["wd"]})
    establish(api, first)
    group = first["spec"]["group"]
    second = definition(group=group, names={"plural": "others", "kind": "Widget"})
    assert api.post(CRDS, second).status == 201
    found = until(api, second["metadata"]["name"], "NamesAccepted", "False")
    assert conditions(found) == {
        "NamesAccepted": ("False", "ListKindConflict"),
        "Established": ("False", "NotAccepted"),
    }
    assert found["status"]["conditions"][0]["message"] == '"WidgetList" is already in use'
    assert found["status"]["acceptedNames"] == {"plural": "others", "kind": ""}
    assert api.get(f"/apis/{group}/v1/others").status == 404
    api.delete(f"{CRDS}/{first['metadata']['name']}")
    until(api, second["metadata"]["name"], "Established", "True")
    assert api.get(f"/apis/{group}/v1/others").status == 200


def test_deleting_a_definition_removes_its_objects_and_ends_their_watches(api: Api) -> None:
    """Objects go first, held back by their finalizers; watches are told and end; then the path is
    unknown."""
    crd = definition()
    path, name = establish(api, crd), crd["metadata"]["name"]
    api.post(path, widget(crd, "plain"))
    held = widget(crd, "held")
    held["metadata"]["finalizers"] = ["example.com/wait"]
    api.post(path, held)
    with api.watch(f"{path}?watch=1") as stream:
        assert {stream.event()["object"]["metadata"]["name"] for _ in "ab"} == {"plain", "held"}
        response = api.delete(f"{CRDS}/{name}")
        assert response.json["metadata"]["finalizers"] == [
            "customresourcecleanup.apiextensions.k8s.io"
        ]
        assert conditions(response.json)["Terminating"] == ("True", "InstanceDeletionPending")
        for _ in "ab":  # whoever asks again changes nothing that counts
            again = api.delete(f"{CRDS}/{name}").json["metadata"]
            assert again["generation"] == response.json["metadata"]["generation"] == 1
        seen = {stream.event()["type"] for _ in "ab"}
        assert seen == {"MODIFIED", "DELETED"}
        assert api.post(path, widget(crd, "late")).status == 405
        api.patch(f"{path}/held", {"metadata": {"finalizers": None}})
        assert stream.event()["type"] == "DELETED"
        gone(api, name)
        assert stream.event() is None
    assert api.get(path).status == 404


def test_what_is_stored_may_not_fit_a_younger_schema(api: Api) -> None:
    """It is served and may be changed; a configuration is not applied to it."""
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
    told = f"failed to create typed live object (default/a; {group}/v1, Kind=Widget): .spec.free: "
    assert (response.status, response.message.startswith(told)) == (400, True), response.message


def test_a_set_of_objects_is_not_applied(api: Api) -> None:
    """A definition may have one, which can be created and patched; of whom its items are nobody
    can tell."""
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


def test_stored_versions_hold_their_version(api: Api) -> None:
    """The storage version moves on, objects stay readable, and the old version must stay until the
    status does not name it any more."""
    crd = definition(version("v1"), version("v2", storage=False))
    path, name = establish(api, crd), crd["metadata"]["name"]
    api.post(path, widget(crd, "old"))
    swapped = [{"storage": False}, {"storage": True}]
    versions = [one | two for one, two in zip(crd["spec"]["versions"], swapped, strict=True)]
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


def test_discovery_and_openapi_know_custom_kinds_at_once(api: Api) -> None:
    """Resources, subresources, short names, categories; schemas as served, with what they are."""
    crd = definition(
        version(subresources={"status": {}}), names={"shortNames": ["wd"], "categories": ["all"]}
    )
    establish(api, crd)
    group = crd["spec"]["group"]
    listed = api.get(f"/apis/{group}/v1").json["resources"]
    assert [one["name"] for one in listed] == ["widgets", "widgets/status"]
    assert listed[0]["verbs"] == [
        "delete", "deletecollection", "get", "list", "patch", "create", "update", "watch",
    ]  # fmt: skip
    assert (listed[0]["shortNames"], listed[0]["categories"]) == (["wd"], ["all"])
    assert f"apis/{group}/v1" in api.get("/openapi/v3").json["paths"]
    schemas = api.get(f"/openapi/v3/apis/{group}/v1").json["components"]["schemas"]
    name = ".".join(reversed(group.split(".")))
    found = schemas[f"{name}.v1.Widget"]
    said = [{"group": group, "kind": "Widget", "version": "v1"}]
    assert found["x-kubernetes-group-version-kind"] == said
    assert found["properties"]["spec"] == SCHEMA["properties"]["spec"]
    assert schemas[f"{name}.v1.WidgetList"]["required"] == ["items"]
    swagger = api.get("/openapi/v2").json["definitions"]
    assert swagger[f"{name}.v1.Widget"]["x-kubernetes-group-version-kind"] == said
    more = crd["spec"]["versions"][0]
    more["schema"]["openAPIV3Schema"]["description"] = "Another."
    api.patch(f"{CRDS}/{crd['metadata']['name']}", {"spec": {"versions": [more]}})
    schemas = api.get(f"/openapi/v3/apis/{group}/v1").json["components"]["schemas"]
    assert schemas[f"{name}.v1.Widget"]["description"] == "Another."


def test_openapi_while_definitions_come_and_go(api: Api) -> None:
    """Whatever goes while a document is made, the document is answered."""

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


def test_a_changed_schema_holds_for_what_is_stored(api: Api) -> None:
    """Objects stored before are pruned and defaulted by the schema of today; watches end, so that
    clients see it."""
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


def test_a_status_has_its_defaults_from_the_beginning(api: Api) -> None:
    """What a client says of the status is dropped when it creates an object, but what the schema
    says is there at once, and remains when the object changes."""
    status = {"type": "object", "default": {"phase": "Pending"},
              "properties": {"phase": {"type": "string"}, "ready": {
                  "type": "boolean", "default": False}}}  # fmt: skip
    schema = {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        "status": status}}  # fmt: skip
    crd = definition(versions=[version(schema=schema, subresources={"status": {}})])
    path = establish(api, crd)
    said = widget(crd, "a", spec={"size": 1}, status={"phase": "Done"})
    expected = {"phase": "Pending", "ready": False}
    assert api.post(path, said).json["status"] == expected
    assert api.get(f"{path}/a").json["status"] == expected
    assert api.patch(f"{path}/a", {"spec": {"size": 2}}).json["status"] == expected


def test_custom_objects_have_owners_and_namespaces(api: Api) -> None:
    """The garbage collector and the end of a namespace see them."""
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


def test_an_owner_of_a_kind_that_comes_later_is_looked_up_then(api: Api) -> None:
    """What names an owner of an unknown kind stays; when the kind is defined and there is no such
    owner, it goes."""
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


def test_a_version_that_is_not_served_leaves_the_documents(api: Api) -> None:
    """Neither path, discovery nor OpenAPI know it any more; its objects stay."""
    crd = definition(version("v1"), version("v2", storage=False))
    path, name, group = establish(api, crd), crd["metadata"]["name"], crd["spec"]["group"]
    api.post(path, widget(crd, "a"))
    versions = [crd["spec"]["versions"][0] | {"served": False}, crd["spec"]["versions"][1]]
    assert api.patch(f"{CRDS}/{name}", {"spec": {"versions": versions}}).status == 200
    assert api.get(f"{path}/a").status == 404
    assert api.get(f"/apis/{group}/v1").status == 404
    assert api.get(f"{path_of(crd, 'v2')}/a").status == 200
    assert [one["version"] for one in api.get(f"/apis/{group}").json["versions"]] == ["v2"]
    known = [one for one in api.get("/openapi/v2").json["definitions"] if one.endswith(".Widget")]
    reverse = ".".join(reversed(group.split(".")))
    assert [one for one in known if one.startswith(f"{reverse}.v")] == [f"{reverse}.v2.Widget"]


def ended(stream: Any) -> list[str]:
    """What a watch still tells, until it ends."""
    seen = []
    while (event := stream.event()) is not None:
        seen.append(event["type"])
    return seen


def test_a_kind_that_is_served_in_no_version(api: Api) -> None:
    """Its watches end, no path, discovery or document knows it, and its objects wait in the store
    until it is served again; nothing else in the group is touched."""
    group = f"unserved-{id(api)}.example.com"
    other = definition(group=group, names={"plural": "gadgets", "kind": "Gadget"})
    crd = definition(version("v1"), version("v2", storage=False), group=group)
    path, name = establish(api, crd), crd["metadata"]["name"]
    others = establish(api, other)
    created = api.post(path, widget(crd, "a")).json
    unserved = [{**one, "served": False} for one in crd["spec"]["versions"]]
    with api.watch(f"{path}?watch=1") as stream, api.watch(f"{others}?watch=1") as untouched:
        assert stream.event()["type"] == "ADDED"
        assert api.patch(f"{CRDS}/{name}", {"spec": {"versions": unserved}}).status == 200
        assert ended(stream) == []
        for version_name in ("v1", "v2"):
            assert api.get(f"{path_of(crd, version_name)}/a").status == 404
            assert api.post(path_of(crd, version_name), widget(crd, "b")).status == 404
        api.post(others, widget(other, "x"))
        assert untouched.event()["object"]["metadata"]["name"] == "x"
    resources = api.get(f"/apis/{group}/v1").json["resources"]
    assert [one["name"] for one in resources] == ["gadgets"]
    assert api.get(f"/apis/{group}/v2").status == 404
    document = api.get(f"/openapi/v3/apis/{group}/v1").json
    assert [one for one in document["paths"] if "widgets" in one] == []
    assert (
        api.patch(f"{CRDS}/{name}", {"spec": {"versions": crd["spec"]["versions"]}}).status == 200
    )
    assert api.get(f"{path}/a").json == created


def test_a_group_that_is_served_in_no_version(api: Api) -> None:
    """The group leaves discovery with its only kind, and comes back with it."""
    crd = definition()
    path, name, group = establish(api, crd), crd["metadata"]["name"], crd["spec"]["group"]
    created = api.post(path, widget(crd, "a")).json
    unserved = [{**one, "served": False} for one in crd["spec"]["versions"]]
    api.patch(f"{CRDS}/{name}", {"spec": {"versions": unserved}})
    for where in (f"/apis/{group}", f"/apis/{group}/v1", path, f"{path}/a"):
        assert api.get(where).status == 404, where
    assert group not in [one["name"] for one in api.get("/apis").json["groups"]]
    assert f"apis/{group}/v1" not in api.get("/openapi/v3").json["paths"]
    api.patch(f"{CRDS}/{name}", {"spec": {"versions": crd["spec"]["versions"]}})
    assert api.get(f"{path}/a").json == created


def test_a_kind_that_somebody_says_is_not_established(api: Api) -> None:
    """Its watches end and it gets its names again; its objects stay."""
    crd = definition()
    path, name = establish(api, crd), crd["metadata"]["name"]
    created = api.post(path, widget(crd, "a")).json
    with api.watch(f"{path}?watch=1") as stream:
        assert stream.event()["type"] == "ADDED"
        found = api.get(f"{CRDS}/{name}").json
        for one in found["status"]["conditions"]:
            one["status"] = "False"
        found["status"]["acceptedNames"] = {"plural": "", "kind": ""}
        response = api.put(f"{CRDS}/{name}/status", found)
        assert response.status == 200, response.body
        assert ended(stream) == []
    again = until(api, name, "Established", "True")
    assert again["status"]["acceptedNames"]["plural"] == "widgets"
    assert api.get(f"{path}/a").json == created


def test_rules_hold_for_objects_and_their_changes(api: Api) -> None:
    """Rules in CEL are compiled with the definition and asked at every write."""
    rules = [
        {"rule": "self.low <= self.high", "message": "low must not be above high"},
        {
            "rule": "self.high >= oldSelf.high",
            "messageExpression": "'not below ' + string(oldSelf.high)",
        },
    ]
    spec = {"type": "object", "x-kubernetes-validations": rules,
            "properties": {"low": {"type": "integer"}, "high": {"type": "integer"}}}  # fmt: skip
    crd = definition(version(schema={"type": "object", "properties": {"spec": spec}}))
    path = establish(api, crd)
    wrong = api.post(path, widget(crd, "a", spec={"low": 3, "high": 2}))
    assert wrong.status == 422
    assert wrong.message.endswith("spec: Invalid value: low must not be above high")
    assert api.post(path, widget(crd, "a", spec={"low": 1, "high": 5})).status == 201
    lower = api.patch(f"{path}/a", {"spec": {"high": 4}})
    assert lower.message.endswith("spec: Invalid value: not below 5")
    spec["x-kubernetes-validations"] = [{"rule": "self.nothing > 1"}]
    bad = definition(version(schema={"type": "object", "properties": {"spec": spec}}))
    response = api.post(CRDS, bad)
    assert response.status == 422
    assert "undefined field 'nothing'" in response.message


def test_definitions_come_and_go_under_load(api: Api) -> None:
    """Whatever clients do at once to definitions and their objects, no answer is the server's
    fault, and in the end all is gone."""
    crds = [
        definition(version("v1"), version("v2", storage=False), group=f"busy{one}.example.com")
        for one in range(3)
    ]

    def act(number: int) -> list[Any]:
        dice = random.Random(number)
        answers = []
        for _ in range(50):
            crd, spoken = dice.choice(crds), dice.choice(("v1", "v2"))
            path = path_of(crd, spoken)
            name, at = crd["metadata"]["name"], f"{path}/o{dice.randrange(9)}"
            described = json.loads(json.dumps(crd["spec"]["versions"]))
            described[0]["schema"]["openAPIV3Schema"]["description"] = str(dice.random())
            obj = widget(crd, at.rpartition("/")[2], spoken)
            acts = (
                ("POST", CRDS, crd, JSON),
                ("DELETE", f"{CRDS}/{name}", None, JSON),
                ("PATCH", f"{CRDS}/{name}", {"spec": {"versions": described}}, MERGE),
                ("POST", path, obj, JSON),
                ("GET", path, None, JSON),
                ("PATCH", at, {"spec": {"replicas": 5}}, MERGE),
                ("DELETE", at, None, JSON),
            )
            method, where, body, media = dice.choices(acts, (4, 1, 2, 8, 4, 4, 2))[0]
            answers.append(api(method, where, body, type=media))
        return answers

    with ThreadPoolExecutor(4) as pool:
        answers = [one for some in pool.map(act, range(4)) for one in some]
    assert [one.body for one in answers if one.status >= 500] == []
    assert {one.status for one in answers} >= {200, 201, 404, 409}
    for crd in crds:
        api.delete(f"{CRDS}/{crd['metadata']['name']}")
        gone(api, crd["metadata"]["name"])
