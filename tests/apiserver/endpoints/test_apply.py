"""Server-side apply over HTTP: bodies, options, conflicts, subresources, kubectl's annotation."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from kapiserver.codecs import cbor

YAML, CBOR = "application/apply-patch+yaml", "application/apply-patch+cbor"


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


def deployment(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
            **spec,
        },
    }


@pytest.fixture
def apply(api, core):
    """Apply a tree to the config map `a`, or to another path."""

    def call(tree, manager="me", *, path=f"{core}/configmaps/a", type=YAML, options=""):
        body = cbor.encode_value(tree) if type == CBOR else yaml.safe_dump(tree).encode()
        return api.patch(f"{path}?fieldManager={manager}{options}", body, type)

    return call


def owners(tree):
    """Entries of managedFields by (manager, operation, subresource), without their times."""
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in tree["metadata"]["managedFields"]
    }


@pytest.mark.parametrize("type", [YAML, CBOR])
def test_create_and_update(apply, type):
    """The first apply creates with 201, the next one updates with 200, an equal one changes
    nothing."""
    created = apply(config_map(k="1"), type=type)
    assert created.status == 201
    assert owners(created.json) == {("me", "Apply", ""): {"f:data": {"f:k": {}}}}
    unchanged = apply(config_map(k="1"), type=type)
    assert (unchanged.status, unchanged.json) == (200, created.json)
    changed = apply(config_map(k="2"), type=type)
    assert changed.status == 200
    assert changed.json["data"] == {"k": "2"}
    assert (
        changed.json["metadata"]["resourceVersion"] != created.json["metadata"]["resourceVersion"]
    )


def test_equal_values_keep_times(api, apply, core):
    """An apply of equal values in another notation keeps the object and its times."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "creationTimestamp": None}}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "0.1"}}}
    pod["spec"] = {"containers": [container]}
    path = f"{core}/pods/p"
    stored = apply(pod, path=path).json
    assert stored["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m"}
    stored["metadata"]["managedFields"][0]["time"] = "2020-01-01T00:00:00Z"
    stored["metadata"]["labels"] = {
        "new": "one"
    }  # without which the time alone would not be stored
    stored = api.put(path, stored).json
    assert stored["metadata"]["managedFields"][0]["time"] == "2020-01-01T00:00:00Z"
    assert apply(pod, path=path).json == stored


def test_json_is_yaml(api, core):
    """A JSON body is YAML too."""
    body = json.dumps(config_map(k="1")).encode()
    response = api.patch(f"{core}/configmaps/a?fieldManager=me", body, YAML)
    assert response.status == 201


def test_writes_record_field_manager(api, core):
    """Create, update and patch record fieldManager, or else the name in the User-Agent, or else
    unknown."""
    agent = {"headers": {"User-Agent": "kubectl/v1.37.1 (linux)"}}
    created = api.post(f"{core}/configmaps", config_map(a="1"), **agent).json
    assert owners(created) == {("kubectl", "Update", ""): {"f:data": {".": {}, "f:a": {}}}}
    created["data"]["b"] = "2"
    put = api.put(f"{core}/configmaps/a?fieldManager=editor", created).json
    assert owners(put)[("editor", "Update", "")] == {"f:data": {"f:b": {}}}
    patched = api.patch(f"{core}/configmaps/a?fieldManager=p", {"data": {"c": "3"}}).json
    assert owners(patched)[("p", "Update", "")] == {"f:data": {"f:c": {}}}
    unnamed = api.patch(f"{core}/configmaps/a", {"data": {"d": "4"}}, headers={"User-Agent": ""})
    assert owners(unnamed.json)[("unknown", "Update", "")] == {"f:data": {"f:d": {}}}


def test_conflict(apply):
    """A conflict is 409 with a cause for each field; force takes the fields."""
    apply(config_map(k="1", l="1"))
    response = apply(config_map(k="2", l="2"), "you")
    assert response.status == 409
    assert response.json["reason"] == "Conflict"
    assert response.message == (
        'Apply failed with 2 conflicts: conflicts with "me":\n- .data.k\n- .data.l'
    )
    assert response.json["details"] == {
        "causes": [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "me"',
                "field": f".data.{key}",
            }
            for key in "kl"
        ]
    }
    forced = apply(config_map(k="2", l="2"), "you", options="&force=true")
    assert forced.status == 200
    assert set(owners(forced.json)) == {("you", "Apply", "")}


def test_options(api, apply, core):
    """The manager is required; other patches may not force."""
    response = api.patch(f"{core}/configmaps/a", yaml.safe_dump(config_map()).encode(), YAML)
    assert response.status == 422
    assert response.message == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for '
        "apply patch"
    )
    response = api.patch(f"{core}/configmaps/a?force=true", {})
    assert response.status == 422
    assert "force: Forbidden: may not be specified for non-apply patch" in response.message


def test_dry_run(api, apply, core):
    """A dry run returns the result and stores nothing."""
    assert apply(config_map(k="1"), options="&dryRun=All").status == 201
    assert api.get(f"{core}/configmaps/a").status == 404


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "Secret"}, "invalid object type: /v1, Kind=Secret"),
        ({"apiVersion": "v2"}, "invalid object type: /v2, Kind=ConfigMap"),
        ({"apiVersion": None}, "invalid object type: /, Kind=ConfigMap"),
        ({"metadata": {"name": "b"}}, "does not match the name on the URL (a)"),
        ({"metadata": []}, "metadata is not an object"),
        ({"oops": 1}, ".oops: field not declared in schema"),
        ({"data": {"k": 1}}, ".data.k: expected string"),
        ({"metadata": {"name": "a", "managedFields": [{}]}}, "metadata.managedFields must be nil"),
    ],
)
def test_bad_configurations(apply, change, words):
    """An invalid configuration is a 400 with the reason."""
    response = apply({**config_map(k="1"), **change})
    assert response.status == 400
    assert response.json["reason"] == "BadRequest"
    assert words in response.message


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"a: [", b"--- 1", b"\xff"])
@pytest.mark.parametrize("type", [YAML, CBOR])
def test_bad_bodies(api, core, body, type):
    """A body that cannot be decoded as a configuration is a 400."""
    response = api.patch(f"{core}/configmaps/a?fieldManager=me", body, type)
    assert response.status == 400


def test_duplicate_keys(api, core):
    """A duplicate key causes a warning, or an error under Strict, unless the configuration cannot
    be applied."""
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: '1'}\ndata: {k: '2'}\n"
    path = f"{core}/configmaps/a?fieldManager=me"
    strict = api.patch(f"{path}&fieldValidation=Strict", body, YAML)
    assert strict.status == 400
    assert strict.message.startswith("error strict decoding patch: ")
    response = api.patch(path, body + b"oops: 1\n", YAML)
    assert ".oops: field not declared in schema" in response.message
    assert response.warnings == []
    response = api.patch(path, body, YAML)
    assert response.status == 201
    assert len(response.warnings) == 1


def test_status_and_scale(api, apply, apps):
    """Status and scale can be applied through their subresources, which managedFields record."""
    path = f"{apps}/deployments/d"
    assert apply(deployment(), path=path).status == 201
    status = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 9},
        "status": {"observedGeneration": 1},
    }
    response = apply(status, "controller", path=f"{path}/status")
    assert response.status == 200
    assert response.json["status"] == {"observedGeneration": 1}
    assert response.json["spec"]["replicas"] == 1
    managers = owners(response.json)
    assert managers[("controller", "Apply", "status")] == {"f:status": {"f:observedGeneration": {}}}
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "d"},
        "spec": {"replicas": 3},
    }
    response = apply(scale, "scaler", path=f"{path}/scale", options="&force=true")
    assert (response.status, response.json["spec"]) == (200, {"replicas": 3})
    managers = owners(api.get(path).json)
    assert managers[("scaler", "Apply", "scale")] == {"f:spec": {"f:replicas": {}}}
    greedy = apply(deployment(replicas=1), path=path)
    assert greedy.status == 409
    assert greedy.message == (
        'Apply failed with 1 conflict: conflict with "scaler" with subresource "scale": '
        ".spec.replicas"
    )
    assert apply({**scale, "spec": {"oops": 1}}, path=f"{path}/scale").status == 400
    assert apply(scale, path=f"{path}x/scale").status == 404


def test_owners_across_versions(apply, namespace):
    """Field owners in one version conflict with those in another version of the group."""
    base = {
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
            "maxReplicas": 3,
        },
    }
    path = f"/apis/autoscaling/{{}}/namespaces/{namespace}/horizontalpodautoscalers/h"
    v1_path, v2_path = path.format("v1"), path.format("v2")
    assert apply({"apiVersion": "autoscaling/v2", **base}, "two", path=v2_path).status == 201
    changed = {**base, "spec": {**base["spec"], "maxReplicas": 5}}
    response = apply({"apiVersion": "autoscaling/v1", **changed}, "one", path=v1_path)
    assert response.status == 409
    assert '"two": .spec.maxReplicas' in response.message


def test_migration_from_client_side_apply(api, apply, core):
    """The first server-side apply by kubectl takes over the fields of its client-side apply."""
    config = config_map(k="1", l="1")
    annotation = "kubectl.kubernetes.io/last-applied-configuration"
    created = json.loads(json.dumps(config))
    created["metadata"]["annotations"] = {annotation: json.dumps(config)}
    api.post(f"{core}/configmaps?fieldManager=kubectl-client-side-apply", created)
    assert apply(config_map(k="2", l="1"), "other").status == 409
    response = apply(config_map(k="2", l="1"), "kubectl")
    assert response.status == 200
    assert json.loads(response.json["metadata"]["annotations"][annotation]) == config_map(
        k="2", l="1"
    )
    api.patch(f"{core}/configmaps/a?fieldManager=editor", {"data": {"l": "9"}})
    refused = apply(config_map(k="3", l="3"), "kubectl")
    assert refused.status == 409
    assert refused.message.endswith('conflict with "editor" using v1: .data.l')


def test_uid_of_missing_object(apply):
    """Applying with the uid of a missing object is a conflict and creates nothing."""
    tree = config_map(k="1")
    tree["metadata"]["uid"] = "11111111-1111-1111-1111-111111111111"
    response = apply(tree)
    assert response.status == 409
    assert "and no existing object was found" in response.message


@pytest.mark.parametrize("containers", [[{}], [None], [{"name": "a"}, {"name": "a"}]])
def test_invalid_list_keys(api, core, containers):
    """Duplicate or missing list keys are validation errors, with or without apply. An omitted key
    has the default of its field."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    pod["spec"] = {"containers": containers}
    assert api.post(f"{core}/pods", pod).status in (400, 422)
    body = yaml.safe_dump(pod).encode()
    assert api.patch(f"{core}/pods/p?fieldManager=me", body, YAML).status in (400, 422)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resourceVersion": "x"}, 'strconv.ParseUint: parsing "x": invalid syntax'),
        (
            {"creationTimestamp": "x"},
            "failed to convert new object (default/a; /v1, Kind=ConfigMap) to proper version: "
            'unable to convert unstructured object to /v1, Kind=ConfigMap: parsing time "x" as '
            '"2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
        ),
        (
            {"creationTimestamp": []},
            "failed to create typed patch object (default/a; /v1, Kind=ConfigMap): "
            ".metadata.creationTimestamp: expected any scalar, got &{[]}",
        ),
    ],
)
def test_messages(api, core, change, message):
    """The messages of refused configurations are those of kube-apiserver 1.37.2."""
    tree = {"apiVersion": "v1", "kind": "ConfigMap"}
    tree["metadata"] = {"name": "a", "namespace": "default"} | change
    body = yaml.safe_dump(tree).encode()
    response = api.patch(f"{core}/configmaps/a?fieldManager=me", body, YAML)
    assert (response.status, response.json["message"]) == (400, message)


def test_resource_version_is_a_precondition(api, apply):
    """A resourceVersion in the configuration must be the object's."""
    created = apply(config_map(k="1")).json
    tree = config_map(k="2")
    tree["metadata"]["resourceVersion"] = "1"
    assert apply(tree).status == 409
    tree["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"]
    assert apply(tree).status == 200


def test_items_that_are_no_objects(apply, apps):
    """The first item of a list by keys that is no object ends the check of the list."""
    config = deployment()
    config["spec"]["template"]["spec"]["containers"] = [1, {"name": "a", "oops": 1}]
    response = apply(config, path=f"{apps}/deployments/d")
    text = ".spec.template.spec.containers: element 0: associative list with keys may not have "
    assert response.message.endswith(f"): {text}non-map elements")
