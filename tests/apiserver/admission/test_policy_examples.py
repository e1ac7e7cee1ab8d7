"""The example policies of Kubernetes' documentation, typed in anew."""

from __future__ import annotations

import pytest

from tests.apiserver.admission.policykit import DEPLOYMENTS, PODS, Cluster, deployment
from tests.apiserver.customresources.customkit import establish


@pytest.fixture
def cluster(api):
    return Cluster(api)


def image_deployment(name, image, **labels):
    body = deployment(name, labels=labels)
    body["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return body


def define_limits(cluster):
    """A custom kind of parameters: ReplicaLimit. Returns its paramKind and the path of objects."""
    group = f"rules.{cluster.namespace}.example.com"
    schema = {"type": "object", "properties": {"maxReplicas": {"type": "integer"}}}
    version = {"name": "v1", "served": True, "storage": True}
    establish(
        cluster.api,
        {
            "metadata": {"name": f"replicalimits.{group}"},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"plural": "replicalimits", "kind": "ReplicaLimit"},
                "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
            },
        },
    )  # fmt: skip
    kind = {"apiVersion": f"{group}/v1", "kind": "ReplicaLimit"}
    return kind, cluster.path("replicalimits", f"{group}/v1")


def test_replica_limit(cluster):
    """The limit of replicas is a custom object that the binding names; the message tells it."""
    kind, path = define_limits(cluster)
    cluster.create(path, {**kind, "metadata": {"name": "test"}, "maxReplicas": 3})
    name = cluster.validate(
        {
            "expression": "object.spec.replicas <= params.maxReplicas",
            "messageExpression": "'object.spec.replicas must be no greater than ' + "
            "string(params.maxReplicas)",
            "reason": "Invalid",
        },
        resource=DEPLOYMENTS,
        paramKind=kind,
        binding={
            "paramRef": {
                "name": "test", "namespace": cluster.namespace, "parameterNotFoundAction": "Deny",
            }
        },
    )  # fmt: skip
    assert cluster.api.post(cluster.deployments, deployment("nginx", 3)).status == 201
    response = cluster.api.post(cluster.deployments, deployment("big", 4))
    assert response.message == (
        f"deployments.apps \"big\" is forbidden: ValidatingAdmissionPolicy '{name}' with binding "
        f"'{name}' denied request: object.spec.replicas must be no greater than 3"
    )
    # A binding without a namespace takes the parameter of the namespace of the request.
    assert cluster.api.delete(f"{path}/test").status == 200
    assert "no params found" in cluster.api.post(cluster.deployments, deployment("x", 1)).message


def test_parameters_of_each_namespace(cluster):
    """Without a namespace in paramRef, each namespace has its own parameters."""
    kind, path = define_limits(cluster)
    cluster.create(path, {**kind, "metadata": {"name": "limit"}, "maxReplicas": 2})
    reference = {"name": "limit", "parameterNotFoundAction": "Allow"}
    cluster.validate(
        "object.spec.replicas <= params.maxReplicas",
        resource=DEPLOYMENTS,
        paramKind=kind,
        binding={"paramRef": reference, "matchResources": {"namespaceSelector": {}}},
    )
    other = Cluster(cluster.api)
    assert cluster.api.post(cluster.deployments, deployment("a", 3)).status == 422
    assert other.api.post(other.deployments, deployment("a", 3)).status == 201
    unbound = {**kind, "metadata": {"name": "limit"}, "maxReplicas": 1}
    cluster.create(path.replace(cluster.namespace, other.namespace, 2).replace(
        f"rules.{other.namespace}", f"rules.{cluster.namespace}"), unbound)  # fmt: skip
    assert other.api.post(other.deployments, deployment("b", 3)).status == 422


def test_image_matches_environment(cluster):
    """Images must come from the registry of the environment that the namespace is labelled with;
    a label of the Deployment exempts it."""
    name = cluster.validate(
        {
            "expression": "variables.exempt || variables.containers.all(c, "
            "c.image.startsWith(variables.environment + '.example.com/'))",
            "messageExpression": "'only ' + variables.environment + ' images are allowed in "
            "namespace ' + namespaceObject.metadata.name",
        },
        resource=DEPLOYMENTS,
        variables=[
            {
                "name": "environment",
                "expression": "'environment' in namespaceObject.metadata.labels ? "
                "namespaceObject.metadata.labels['environment'] : 'prod'",
            },
            {
                "name": "exempt",
                "expression": "has(object.metadata.labels) && 'exempt' in object.metadata.labels "
                "&& object.metadata.labels['exempt'] == 'true'",
            },
            {"name": "containers", "expression": "object.spec.template.spec.containers"},
        ],
    )
    path = f"/api/v1/namespaces/{cluster.namespace}"
    cluster.api.patch(path, {"metadata": {"labels": {"environment": "staging"}}})

    def post(*args, **labels):
        return cluster.api.post(cluster.deployments, image_deployment(*args, **labels))

    assert post("a", "staging.example.com/nginx").status == 201
    response = post("b", "example.com/nginx")
    assert response.status == 422
    assert response.message.endswith(
        f"with binding '{name}' denied request: only staging images are allowed in namespace "
        f"{cluster.namespace}"
    )
    assert post("c", "example.com/nginx", exempt="true").status == 201


def test_match_conditions(cluster):
    """Match conditions skip nodes' leases, requests of nodes and what the user may do anyway."""
    cluster.validate(
        "!object.metadata.name.contains('demo') || object.metadata.namespace == 'demo'",
        failurePolicy="Fail",
        matchConditions=[
            {
                "name": "exclude-leases",
                "expression": "!(request.resource.group == 'coordination.k8s.io' && "
                "request.resource.resource == 'leases')",
            },
            {
                "name": "exclude-kubelet-requests",
                "expression": "!('system:nodes' in request.userInfo.groups)",
            },
            {
                "name": "breakglass",
                "expression": "!authorizer.serviceAccount('default', 'x').group("
                "'admissionregistration.k8s.io').resource('validatingwebhookconfigurations')"
                ".name('my-webhook').check('breakglass').allowed()",
            },
            {"name": "rbac", "expression": "request.resource.group != 'rbac.authorization.k8s.io'"},
        ],
    )
    assert cluster.config_map("demo").status == 422
    assert cluster.config_map("other").status == 201


def test_sidecar_by_json_patch(cluster):
    """A sidecar is added by a JSON patch, if it is not there yet."""
    cluster.mutate(
        """[
            JSONPatch{
                op: "add", path: "/spec/initContainers/-",
                value: Object.spec.initContainers{
                    name: "mesh-proxy",
                    image: "mesh-proxy/v1.0.0",
                    restartPolicy: "Always"
                }
            }
        ]""",
        resource=PODS,
        operations=["CREATE"],
        failurePolicy="Fail",
        reinvocation="IfNeeded",
        matchConditions=[
            {
                "name": "does-not-already-have-sidecar",
                "expression": "!object.spec.initContainers.exists(ic, ic.name == 'mesh-proxy')",
            }
        ],
    )
    container = {"name": "c", "image": "example.com/c"}
    setup = {"name": "setup", "image": "example.com/setup"}
    body = {
        "metadata": {"name": "p"},
        "spec": {"containers": [container], "initContainers": [setup]},
    }
    created = cluster.create(cluster.pods, body)
    names = [each["name"] for each in created["spec"]["initContainers"]]
    assert names == ["setup", "mesh-proxy"]


def test_labels_of_a_namespace(cluster):
    """Objects get a label that tells the environment of their namespace."""
    cluster.mutate(
        """has(object.metadata.labels)
            ? [JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey(
                "example.com/environment"), value: variables.environment}]
            : [JSONPatch{op: "add", path: "/metadata/labels", value: {
                "example.com/environment": variables.environment}}]""",
        variables=[
            {
                "name": "environment",
                "expression": "namespaceObject.metadata.labels[?'environment'].orValue('test')",
            }
        ],
    )
    for name, labels in (("a", None), ("b", {"own": "x"})):
        metadata = {"labels": labels} if labels else {}
        created = cluster.config_map(name, metadata=metadata).json
        assert created["metadata"]["labels"] == {
            **(labels or {}), "example.com/environment": "test",
        }  # fmt: skip


def test_pull_policy(cluster):
    """Every container gets an image pull policy, by maps over lists in a configuration."""
    cluster.mutate(
        """Object{
            spec: Object.spec{
                containers: object.spec.containers.map(c,
                    Object.spec.containers{name: c.name, imagePullPolicy: "Always"})
            }
        }""",
        resource=PODS,
        operations=["CREATE"],
    )
    containers = [{"name": name, "image": f"example.com/{name}:1"} for name in "ab"]
    created = cluster.create(
        cluster.pods, {"metadata": {"name": "p"}, "spec": {"containers": containers}}
    )
    assert [each["imagePullPolicy"] for each in created["spec"]["containers"]] == ["Always"] * 2
    assert [each["image"] for each in created["spec"]["containers"]] == [
        "example.com/a:1", "example.com/b:1",
    ]  # fmt: skip
