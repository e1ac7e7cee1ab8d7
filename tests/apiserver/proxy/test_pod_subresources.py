"""Binding, eviction, resize, log and streams of pods."""

import copy

import pytest

from tests.apiserver.conftest import Server

BINDING = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
EVICTION = {"metadata": {"name": "p"}}


def pod(name="p", **spec):
    containers = [{"name": "c", "image": "i"}]
    metadata = {"name": name, "labels": {"app": "x"}}
    return {"metadata": metadata, "spec": {"containers": containers, **spec}}


@pytest.fixture(scope="module")
def api():
    """A server whose disruption controller is off: the tests write the status of the set_budget."""
    server = Server(controllers=("-disruption-controller", "*"))
    yield server.api
    server.end()


@pytest.fixture
def path(api, core):
    """The path of a pod that is not scheduled."""
    assert api.post(f"{core}/pods", pod()).status == 201
    return f"{core}/pods/p"


@pytest.fixture
def running(api, path):
    """The path of a pod that is running and ready."""
    assert api.post(f"{path}/binding", BINDING).status == 201
    body = api.get(path).json
    body["status"]["phase"] = "Running"
    body["status"]["conditions"].append({"type": "Ready", "status": "True"})
    assert api.put(f"{path}/status", body).status == 200
    return path


@pytest.fixture
def set_budget(api, namespace):
    """A function that sets the status of the pod's disruption budget and returns its path."""
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"

    def make(**status):
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
        if api.get(f"{path}/b").status == 404:
            assert api.post(path, {"metadata": {"name": "b"}, "spec": spec}).status == 201
        body = api.get(f"{path}/b").json
        body["status"] = {
            "observedGeneration": 1, "expectedPods": 1, "desiredHealthy": 1, "currentHealthy": 1,
            "disruptionsAllowed": 0, **status,
        }  # fmt: skip
        assert api.put(f"{path}/b/status", body).status == 200
        return f"{path}/b"

    return make


def test_binding(api, path):
    """A binding sets the node, copies the annotations and sets the condition PodScheduled."""
    body = copy.deepcopy(BINDING)
    body["metadata"]["annotations"] = {"a": "b"}
    nominated = api.get(path).json
    nominated["status"]["nominatedNodeName"] = "m"
    assert api.put(f"{path}/status", nominated).json["status"]["nominatedNodeName"] == "m"
    response = api.post(f"{path}/binding", body)
    assert response.status == 201
    assert response.json == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    }  # fmt: skip
    bound = api.get(path).json
    assert bound["spec"]["nodeName"] == "n"
    assert bound["metadata"]["annotations"] == {"a": "b"}
    assert bound["metadata"]["generation"] == 1
    assert "nominatedNodeName" not in bound["status"]
    condition = bound["status"]["conditions"][0]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert condition["lastTransitionTime"]


def test_bound_twice(api, path, core):
    """A second binding is a conflict. The older path `bindings` binds too."""
    assert api.post(f"{core}/bindings", BINDING).status == 201
    response = api.post(f"{path}/binding", BINDING)
    assert response.status == 409
    assert response.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"'
    )


def test_invalid_bindings(api, path, core):
    """Invalid targets, other names, stale uids and scheduling gates are errors. kube-apiserver
    answers 500 to an invalid target, with the same message."""
    response = api.post(f"{path}/binding", {"metadata": {"name": "p"}, "target": {"kind": "Pod"}})
    assert response.status == 400
    assert 'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"' in (
        response.message
    )
    other = BINDING | {"metadata": {"name": "q"}}
    assert api.post(f"{path}/binding", other).status == 400
    assert api.post(f"{core}/bindings", other).status == 404
    stale = BINDING | {"metadata": {"name": "p", "uid": "other"}}
    assert api.post(f"{path}/binding", stale).status == 409
    gated = pod("g", schedulingGates=[{"name": "a"}])
    assert api.post(f"{core}/pods", gated).json["status"]["conditions"][0]["lastTransitionTime"]
    response = api.post(f"{core}/pods/g/binding", BINDING | {"metadata": {"name": "g"}})
    assert "pod g has non-empty .spec.schedulingGates" in response.message


def test_eviction_of_pending_pod(api, path, set_budget):
    """The eviction of a pending pod ignores the budget."""
    set_budget()
    assert api.post(f"{path}/eviction", EVICTION).json["status"] == "Success"
    assert api.get(path).status == 404


def test_eviction_v1beta1(api, path):
    """policy/v1beta1 evictions are accepted; other versions are a 400."""
    body = {**EVICTION, "apiVersion": "policy/v1beta1"}
    assert api.post(f"{path}/eviction", body).status == 201
    response = api.post(f"{path}/eviction", {**EVICTION, "apiVersion": "policy/v1alpha1"})
    assert response.status == 400


def test_eviction_without_budget(api, running):
    """Without a budget, an eviction deletes the pod gracefully and sets a condition."""
    assert api.post(f"{running}/eviction", EVICTION).status == 201
    pod_ = api.get(running).json
    assert pod_["metadata"]["deletionGracePeriodSeconds"] == 30
    assert pod_["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"


def test_budget(api, running, set_budget):
    """A budget without allowed disruptions, or with an old observedGeneration, refuses the eviction
    with 429. Otherwise the eviction decrements the allowed disruptions."""
    budget = set_budget()
    response = api.post(f"{running}/eviction", EVICTION)
    assert response.status == 429
    assert response.message == "Cannot evict pod as it would violate the pod's disruption budget."
    cause = {
        "reason": "DisruptionBudget",
        "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
    }
    assert response.json["details"] == {"causes": [cause]}
    set_budget(observedGeneration=0)
    response = api.post(f"{running}/eviction", EVICTION)
    assert (response.status, response.headers["Retry-After"]) == (429, "10")
    set_budget(disruptionsAllowed=1)
    assert api.post(f"{running}/eviction?dryRun=All", EVICTION).status == 201
    assert api.get(budget).json["status"]["disruptionsAllowed"] == 1
    assert api.post(f"{running}/eviction", EVICTION).status == 201
    status = api.get(budget).json["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["p"]
    assert api.get(running).json["metadata"]["deletionTimestamp"]


def test_eviction_preconditions(api, running):
    """An eviction with another uid is a 409; one with another name is a 400."""
    options = {"deleteOptions": {"preconditions": {"uid": "other"}}}
    assert api.post(f"{running}/eviction", EVICTION | options).status == 409
    assert api.post(f"{running}/eviction", {"metadata": {"name": "q"}}).status == 400


def test_two_budgets(api, running, namespace, set_budget):
    """The eviction of a pod with two set_budget is an error."""
    set_budget()
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    spec = {"selector": {"matchLabels": {"app": "x"}}, "maxUnavailable": 1}
    api.post(path, {"metadata": {"name": "c"}, "spec": spec})
    response = api.post(f"{running}/eviction", EVICTION)
    assert response.status == 500
    assert response.message.startswith("This pod has more than one PodDisruptionBudget")


def test_resize(api, core):
    """A resize changes CPU and memory of containers only, and must keep the QoS class."""
    body = pod("r")
    limits = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    body["spec"]["containers"][0]["resources"] = limits
    api.post(f"{core}/pods", body)
    path = f"{core}/pods/r"

    def resize(**resources):
        changed = api.get(path).json
        changed["spec"]["containers"][0] |= {"resources": resources, "image": "other"}
        return api.put(f"{path}/resize", changed)

    resized = resize(requests={"cpu": "1500m"}, limits={"cpu": "2"}).json
    assert resized["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1500m"}
    assert resized["spec"]["containers"][0]["image"] == "i"
    assert resized["metadata"]["generation"] == 2
    resources = {"cpu": "2", "memory": "1Gi"}
    assert resize(requests=resources, limits=resources).message == (
        'Pod "r" is invalid: spec: Invalid value: "Burstable": Pod QOS Class may not change as a '
        "result of resizing"
    )
    assert "resource limits cannot be removed" in resize(requests={"cpu": "1"}).message
    extended = {"cpu": "1", "example.com/gpu": "1"}
    response = resize(requests=extended, limits=extended | {"cpu": "2"})
    assert "spec: Forbidden: only cpu and memory resources are mutable" in response.message


def test_connections_of_pending_pod(api, path):
    """A pod without a node has an empty log; exec, attach and port forwarding are errors."""
    assert api.get(f"{path}/log").body == b""
    for below in ("exec?command=ls", "attach", "portforward"):
        response = api.post(f"{path}/{below}", None)
        assert (response.status, response.message) == (400, "pod p does not have a host assigned")
    response = api.get(f"{path}/log?container=x")
    assert (response.status, response.message) == (400, "container x is not valid for pod p")


def test_connections_of_running_pod(api, running, core):
    """Connections to a pod are a 404 if its node does not exist, and a 500 if the node has no
    address."""
    response = api.get(f"{running}/log")
    assert (response.status, response.message) == (404, 'nodes "n" not found')
    api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    for response in (
        api.get(f"{running}/log"),
        api.post(f"{running}/exec?stdout=1", None),
    ):
        message = "no preferred addresses found; known addresses: []"
        assert (response.status, response.message) == (500, message)
    api.delete("/api/v1/nodes/n")


@pytest.mark.parametrize("subresource", ["attach", "exec", "portforward"])
def test_streams_need_the_verb_create(make_server, subresource):
    """A user who may get a stream, as over WebSocket, needs the verb `create` too."""
    api = make_server(authorization_mode=("RBAC",)).api
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rule = {"apiGroups": [""], "resources": [f"pods/{subresource}"], "verbs": ["get"]}
    role = {"metadata": {"name": "streams"}, "rules": [rule]}
    binding = {
        "metadata": {"name": "streams"}, "subjects": [{"kind": "User", "name": "jane"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "streams"},
    }  # fmt: skip
    assert api.post(f"{roles}/roles", role).status == 201
    assert api.post(f"{roles}/rolebindings", binding).status == 201
    path = f"/api/v1/namespaces/default/pods/missing/{subresource}"
    headers = {"Impersonate-User": "jane"}
    response = api.get(path, headers=headers)
    assert (response.status, response.message) == (403, 'pods "missing" is forbidden: ')
    rule["verbs"].append("create")
    assert api.put(f"{roles}/roles/streams", role).status == 200
    assert api.get(path, headers=headers).status == 404


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (
            "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
            422,
            "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ("tailLines=a", 400, 'strconv.ParseInt: parsing "a": invalid syntax'),
        ("tailLines=0&limitBytes=1&follow", 204, ""),
        ("stream=Stdout", 422, "stream: Forbidden: may not be specified"),
    ],
)
def test_options_of_logs(api, path, query, status, message):
    """Log options are validated before the pod is examined."""
    response = api.get(f"{path}/log?{query}")
    prefix = 'PodLogOptions "p" is invalid: ' if status == 422 else ""
    error = response.message if status != 204 else ""
    assert (response.status, error) == (status, prefix + message)


def test_several_containers(api, core):
    """The log of a pod with several containers needs a container name."""
    body = pod("m")
    body["spec"]["containers"].append({"name": "d", "image": "i"})
    api.post(f"{core}/pods", body)
    response = api.get(f"{core}/pods/m/log")
    assert response.message == (
        "a container name must be specified for pod m, choose one of: [c d]"
    )


def test_graceful_deletion(api, path):
    """A scheduled pod stays until a delete with a grace period of 0."""
    api.post(f"{path}/binding", BINDING)
    response = api.delete(path)
    assert response.json["metadata"]["deletionGracePeriodSeconds"] == 30
    assert api.get(path).status == 200
    assert api.delete(f"{path}?gracePeriodSeconds=0").status == 200
    assert api.get(path).status == 404


def test_finalize(api):
    """A terminating namespace is deleted when its last finalizer is removed."""
    path = "/api/v1/namespaces/ends"
    api.post("/api/v1/namespaces", {"metadata": {"name": "ends"}})
    body = api.get(path).json
    body["spec"]["finalizers"].append("example.com/x")
    assert api.put(f"{path}/finalize", body).json["spec"]["finalizers"][-1] == "example.com/x"
    assert api.delete(path).json["status"]["phase"] == "Terminating"
    body = api.get(path).json
    body["spec"]["finalizers"] = []
    assert api.put(f"{path}/finalize", body).status == 200
    assert api.get(path).status == 404
