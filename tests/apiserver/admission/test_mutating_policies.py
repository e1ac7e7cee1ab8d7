"""MutatingAdmissionPolicy over HTTP."""

from __future__ import annotations

import pytest

from tests.apiserver.admission.policykit import (
    DEPLOYMENTS,
    GROUP,
    MUTATING,
    PODS,
    Cluster,
    deployment,
)
from tests.apiserver.customresources.customkit import establish


@pytest.fixture
def cluster(api):
    return Cluster(api)


def pod(name="p", **metadata):
    container = {"name": "c", "image": "example.com/c:1"}
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": [container]}}


def test_sidecar(cluster):
    """The documentation's injection of a sidecar."""
    cluster.mutate(
        """Object{
            spec: Object.spec{
                initContainers: [
                    Object.spec.initContainers{
                        name: "mesh-proxy", image: "mesh/proxy:v1.0.0", restartPolicy: "Always"
                    }
                ]
            }
        }""",
        resource=PODS,
        operations=["CREATE"],
        matchConditions=[
            {
                "name": "not-there",
                "expression": "!object.spec.?initContainers.orValue([])"
                ".exists(each, each.name == 'mesh-proxy')",
            }
        ],
        reinvocation="IfNeeded",
    )
    body = cluster.create(cluster.pods, pod(labels={"own": "1"}))
    (container,) = body["spec"]["initContainers"]
    assert container["image"] == "mesh/proxy:v1.0.0"
    assert container["terminationMessagePath"] == "/dev/termination-log"  # defaulted
    assert [each["name"] for each in container["volumeMounts"]]  # plugins ran again
    assert body["metadata"]["labels"] == {"own": "1"}


def test_json_patch(cluster):
    """A JSON patch may escape keys, move and test."""
    cluster.mutate(
        """[
            JSONPatch{op: "test", path: "/metadata/name", value: "c"},
            JSONPatch{op: "add", path: "/data", value: {"a": "1"}},
            JSONPatch{op: "add", path: "/metadata/labels", value: {}},
            JSONPatch{
                op: "add",
                path: "/metadata/labels/" + jsonpatch.escapeKey("example.com/a~b"),
                value: "x"
            },
            JSONPatch{op: "copy", from: "/data/a", path: "/data/b"},
            JSONPatch{op: "move", from: "/data/b", path: "/data/c"}
        ]"""
    )
    cluster.mutate("[JSONPatch{op: 'test', path: '/metadata/name', value: 'd'}, "
                   "JSONPatch{op: 'remove', path: '/data'}]")  # fmt: skip
    response = cluster.config_map("c")
    assert response.status == 422  # the label's key is invalid
    assert "example.com/a~b" in response.message


def test_patched_object(cluster):
    """A failed test of a JSON patch leaves the object as it is; mutations see earlier ones."""
    cluster.mutate(
        "[JSONPatch{op: 'add', path: '/data', value: {'a': string(1 + 1)}}]",
        "[JSONPatch{op: 'test', path: '/metadata/name', value: 'd'}, "
        "JSONPatch{op: 'remove', path: '/data'}]",
        "Object{data: {'b': object.data.a + variables.suffix}}",
        variables=[{"name": "suffix", "expression": "'-' + object.data.a"}],
    )
    assert cluster.config_map("c").json["data"] == {"a": "2", "b": "2-2"}
    response = cluster.config_map("d")
    assert response.status == 403  # the third mutation has no data to read
    assert "no such key: data" in response.message


def test_params_and_authorizer(cluster):
    """Mutations read parameters, the request and the authorizer."""
    cluster.create(cluster.path("secrets"), {"metadata": {"name": "s", "labels": {"k": "v"}}})
    cluster.mutate(
        """authorizer.requestResource.check('create').allowed()
            ? Object{metadata: Object.metadata{labels: {
                "user": request.userInfo.username.replace(":", "-"),
                "param": params.metadata.labels.k,
                "phase": namespaceObject.status.phase
            }}}
            : Object{}""",
        paramKind={"apiVersion": "v1", "kind": "Secret"},
        binding={"paramRef": {"name": "s", "parameterNotFoundAction": "Deny"}},
    )
    assert cluster.config_map().json["metadata"]["labels"] == {
        "user": "system-unsecured", "param": "v", "phase": "Active",
    }  # fmt: skip


def test_update(cluster):
    """Updates are mutated, deletions are not."""
    cluster.mutate(
        "Object{data: {'old': oldObject == null ? 'none' : oldObject.data.old}}", operations=["*"]
    )
    assert cluster.config_map().json["data"] == {"old": "none"}
    path = f"{cluster.config_maps}/c"
    patched = cluster.api.patch(path, {"data": {"new": "1", "old": None}})
    assert patched.json["data"] == {"new": "1", "old": "none"}
    assert cluster.api.delete(path).status == 200


FAILURES = {
    "Object{spec: Object.spec{containers: [Object.spec.wrong{name: 'c'}]}}": (
        'type mismatch: unexpected type name "Object.spec.wrong", expected '
        '"Object.spec.containers", which matches field name path from root Object type'
    ),
    "Object{spec: Object.spec{nope: 1}}": (
        "error applying patch: failed to convert patch object to typed object: .spec.nope: field "
        "not declared in schema"
    ),
    "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', args: ['a']}]}}": (
        "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or "
        "structs: .spec.containers[0].args"
    ),
    "Object{spec: Object.spec{nodeName: object.spec.nope}}": (
        "expression 'Object{spec: Object.spec{nodeName: object.spec.nope}}' resulted in error: no "
        "such key: nope"
    ),
    "[JSONPatch{op: 'remove', path: '/nope'}]": (
        "JSON Patch: error in remove for path: '/nope': Unable to remove nonexistent key: nope: "
        "missing value"
    ),
    "[JSONPatch{op: 'add', path: '/spec/containers', value: 3}]": None,
    "[JSONPatch{op: 'replace', path: '', value: 3}]": None,
    "[JSONPatch{op: 'nope', path: '/a'}]": None,
    "[JSONPatch{op: 'add', path: '/a', value: duration('1s').getSeconds() == 1 ? [[1]] : []}]": "",
    "[JSONPatch{op: 'add', path: '/kind', value: 'Service'}]": None,
}


@pytest.mark.parametrize("expression", FAILURES)
def test_failures(cluster, expression):
    """A mutation that fails refuses the write with kube-apiserver's words, unless failures are
    ignored. No mutation makes a 500."""
    expected = FAILURES[expression]
    name = cluster.mutate(expression, resource=PODS)
    response = cluster.api.post(cluster.pods, pod())
    if expected == "":
        assert response.status == 201  # the unknown field is dropped
        return
    assert (response.status, response.json["reason"]) == (403, "Invalid")
    prefix = f"policy '{name}' with binding '{name}' denied request: "
    assert response.message.startswith(prefix)
    if expected:
        assert response.message == prefix + expected
        assert response.json["details"]["causes"] == [{"message": response.message}]
    other = Cluster(cluster.api)
    other.mutate(expression, resource=PODS, failurePolicy="Ignore")
    assert other.api.post(other.pods, pod()).status == 201


def test_missing_params(cluster):
    """A binding without parameters refuses the write."""
    name = cluster.mutate(
        "Object{}",
        paramKind={"apiVersion": "v1", "kind": "Secret"},
        binding={"paramRef": {"name": "s", "parameterNotFoundAction": "Deny"}},
    )
    response = cluster.config_map()
    assert (response.status, response.json["reason"]) == (403, "Forbidden")
    assert response.message == (
        f"policy '{name}' with binding '{name}' denied request: failed to configure binding: no "
        "params found for policy binding with `Deny` parameterNotFoundAction"
    )


def test_denial_of_generated_name(cluster):
    """A denial before the name is generated has its prefix in the details."""
    cluster.mutate("Object{metadata: Object.metadata{labels: {'a': object.data.none}}}")
    response = cluster.api.post(cluster.config_maps, {"metadata": {"generateName": "web-"}})
    assert (response.status, response.json["details"]["name"]) == (403, "web-")


@pytest.mark.parametrize(("reinvocation", "count"), [("IfNeeded", "2"), ("Never", "1")])
def test_reinvocation(cluster, reinvocation, count):
    """A policy is invoked again if a later policy changed the object, and if it wants to be."""
    count_labels = """Object{metadata: Object.metadata{labels: {
        "count": string(int(object.metadata.?labels[?"count"].orValue("0")) + 1)
    }}}"""
    cluster.mutate(count_labels, reinvocation=reinvocation)
    cluster.mutate(
        "Object{data: {'a': 'b'}}",
        matchConditions=[{"name": "once", "expression": "!has(object.data)"}],
    )
    assert cluster.config_map().json["metadata"]["labels"]["count"] == count


def test_owner_references_and_environment(cluster):
    """Owner references, which are atomic, are added by a patch; environment variables are merged by
    the name of the container and of the variable."""
    owner = cluster.config_map("owner").json["metadata"]
    cluster.mutate(
        f"""[JSONPatch{{
            op: "add", path: "/metadata/ownerReferences", value: [
                Object.metadata.ownerReferences{{
                    apiVersion: "v1", kind: "ConfigMap", name: "owner", uid: "{owner["uid"]}"
                }}
            ]
        }}]""",
        """Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
            containers: object.spec.template.spec.containers.map(c,
                Object.spec.template.spec.containers{
                    name: c.name,
                    env: [
                        Object.spec.template.spec.containers.env{name: "REGION", value: "x"}
                    ]
                }
            )
        }}}}""",
        resource=DEPLOYMENTS,
    )
    body = cluster.create(cluster.deployments, deployment("d"))
    (reference,) = body["metadata"]["ownerReferences"]
    assert reference["name"] == "owner"
    (container,) = body["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "REGION", "value": "x"}]
    assert container["image"] == "example.com/c:1"


def test_custom_resources(cluster):
    """Custom objects are merged by the schema of their definition, pruned and defaulted."""
    group = f"{cluster.namespace}.example.com"
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "default": 3},
                    "ports": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {
                                "name": {"type": "string"}, "port": {"type": "integer"},
                            },
                        },
                    },
                },
            }
        },
    }  # fmt: skip
    version = {"name": "v1", "served": True, "storage": True}
    establish(
        cluster.api,
        {
            "metadata": {"name": f"things.{group}"},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
            },
        },
    )  # fmt: skip
    resource = {"apiGroups": [group], "apiVersions": ["v1"], "resources": ["things"]}
    cluster.mutate(
        "Object{spec: Object.spec{ports: [Object.spec.ports{name: 'b', port: 2}]}}",
        "[JSONPatch{op: 'add', path: '/spec/unknown', value: 1}]",
        resource=resource,
    )
    path = cluster.path("things", f"{group}/v1")
    body = {
        "apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "t"},
        "spec": {"ports": [{"name": "a", "port": 1}]},
    }  # fmt: skip
    response = cluster.api.post(path, body)
    assert response.status == 201, response.message
    assert response.json["spec"] == {
        "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}], "size": 3,
    }  # fmt: skip


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_old_versions(make_server, version):
    """The beta and alpha versions are in force as v1."""
    group = f"admissionregistration.k8s.io/{version}"
    server = make_server(runtime_config=f"{group}=true")
    cluster = Cluster(server.api)
    name = cluster.mutate("Object{data: {'a': 'b'}}")
    path = f"{GROUP.replace('v1', version)}/{MUTATING}ies/{name}"
    old = server.api.get(path).json
    old["spec"]["mutations"][0]["applyConfiguration"]["expression"] = "Object{data: {'c': 'd'}}"
    assert server.api.put(path, old).status == 200
    assert cluster.config_map().json["data"] == {"c": "d"}
