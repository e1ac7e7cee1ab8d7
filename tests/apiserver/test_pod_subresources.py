"""Binding, eviction, resize and the connections of pods, nodes and services."""

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
    """A server that leaves the status of budgets to the tests."""
    server = Server(controllers=("-disruption-controller", "*"))
    yield server.api
    server.end()


@pytest.fixture
def path(api, core):
    """A pod that waits for a node."""
    assert api.post(f"{core}/pods", pod()).status == 201
    return f"{core}/pods/p"


@pytest.fixture
def running(api, path):
    """A pod that runs and is ready."""
    assert api.post(f"{path}/binding", BINDING).status == 201
    body = api.get(path).json
    body["status"]["phase"] = "Running"
    body["status"]["conditions"].append({"type": "Ready", "status": "True"})
    assert api.put(f"{path}/status", body).status == 200
    return path


@pytest.fixture
def budgets(api, namespace):
    """What makes the one budget of the pod, with a status."""
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
    """A binding puts the pod on a node, with its annotations, and says that it is scheduled."""
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
    """A pod has one node; `bindings` is the older way to say which."""
    assert api.post(f"{core}/bindings", BINDING).status == 201
    response = api.post(f"{path}/binding", BINDING)
    assert response.status == 409
    assert response.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"'
    )


def test_wrong_bindings(api, path, core):
    """What a binding must say, and of which pod."""
    response = api.post(f"{path}/binding", {"metadata": {"name": "p"}, "target": {"kind": "Pod"}})
    assert response.status == 422
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


def test_eviction_of_who_waits(api, path, budgets):
    """A pod that does not run goes without a budget being asked."""
    budgets()
    assert api.post(f"{path}/eviction", EVICTION).json["status"] == "Success"
    assert api.get(path).status == 404


def test_eviction_as_it_was(api, path):
    """An eviction may be in the version of old clients."""
    body = {**EVICTION, "apiVersion": "policy/v1beta1"}
    assert api.post(f"{path}/eviction", body).status == 201
    response = api.post(f"{path}/eviction", {**EVICTION, "apiVersion": "policy/v1alpha1"})
    assert response.status == 400


def test_eviction_without_budget(api, running):
    """Where no budget is, the pod is deleted gracefully and says why."""
    assert api.post(f"{running}/eviction", EVICTION).status == 201
    pod_ = api.get(running).json
    assert pod_["metadata"]["deletionGracePeriodSeconds"] == 30
    assert pod_["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"


def test_budget(api, running, budgets):
    """A budget that is spent or not observed refuses; one that is not is charged."""
    budget = budgets()
    response = api.post(f"{running}/eviction", EVICTION)
    assert response.status == 429
    assert response.message == "Cannot evict pod as it would violate the pod's disruption budget."
    cause = {
        "reason": "DisruptionBudget",
        "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
    }
    assert response.json["details"] == {"causes": [cause]}
    budgets(observedGeneration=0)
    response = api.post(f"{running}/eviction", EVICTION)
    assert (response.status, response.headers["Retry-After"]) == (429, "10")
    budgets(disruptionsAllowed=1)
    assert api.post(f"{running}/eviction?dryRun=All", EVICTION).status == 201
    assert api.get(budget).json["status"]["disruptionsAllowed"] == 1
    assert api.post(f"{running}/eviction", EVICTION).status == 201
    status = api.get(budget).json["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["p"]
    assert api.get(running).json["metadata"]["deletionTimestamp"]


def test_eviction_preconditions(api, running):
    """An eviction of another pod of the name is 409; one that makes no sense is 400."""
    options = {"deleteOptions": {"preconditions": {"uid": "other"}}}
    assert api.post(f"{running}/eviction", EVICTION | options).status == 409
    assert api.post(f"{running}/eviction", {"metadata": {"name": "q"}}).status == 400


def test_two_budgets(api, running, namespace, budgets):
    """Two budgets for one pod are more than evictions know how to ask."""
    budgets()
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    spec = {"selector": {"matchLabels": {"app": "x"}}, "maxUnavailable": 1}
    api.post(path, {"metadata": {"name": "c"}, "spec": spec})
    response = api.post(f"{running}/eviction", EVICTION)
    assert response.status == 500
    assert response.message.startswith("This pod has more than one PodDisruptionBudget")


def test_resize(api, core):
    """Resources change in place, nothing else does, and the class stays."""
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
    same = {"cpu": "2", "memory": "1Gi"}
    assert resize(requests=same, limits=same).message == (
        'Pod "r" is invalid: spec: Invalid value: "Burstable": Pod QOS Class may not change as a '
        "result of resizing"
    )
    assert "resource limits cannot be removed" in resize(requests={"cpu": "1"}).message
    extended = {"cpu": "1", "example.com/gpu": "1"}
    response = resize(requests=extended, limits=extended | {"cpu": "2"})
    assert "spec: Forbidden: only cpu and memory resources are mutable" in response.message


def test_connections_of_who_waits(api, path):
    """A pod without a node has an empty log, and nothing to connect to."""
    assert api.get(f"{path}/log").body == b""
    for below in ("exec?command=ls", "attach", "portforward"):
        response = api.post(f"{path}/{below}", None)
        assert (response.status, response.message) == (400, "pod p does not have a host assigned")
    assert api.get(f"{path}/proxy/a/b").message == "address not allowed"
    response = api.get(f"{path}/log?container=x")
    assert (response.status, response.message) == (400, "container x is not valid for pod p")


def test_connections_of_who_runs(api, running, core):
    """A pod on a node that is not there is 404; on one that is, no kubelet answers."""
    response = api.get(f"{running}/log")
    assert (response.status, response.message) == (404, 'nodes "n" not found')
    api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    for response in (
        api.get(f"{running}/log"),
        api.post(f"{running}/exec", None),
        api.get("/api/v1/nodes/n/proxy/metrics"),
    ):
        assert response.status == 503
        assert "no kubelet is attached" in response.message
    api.delete("/api/v1/nodes/n")
    spec = {"ports": [{"name": "http", "port": 80}]}
    api.post(f"{core}/services", {"metadata": {"name": "s"}, "spec": spec})
    response = api.get(f"{core}/services/s:http/proxy/")
    assert response.message == 'no endpoints available for service "s:http"'
    response = api.put(f"{core}/services/s:other/proxy/x", {})
    assert response.message == 'no service port "other" found for service "s"'


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
        ("tailLines=0&limitBytes=1&follow", 200, ""),
    ],
)
def test_options_of_logs(api, path, query, status, message):
    """What is asked of a log is checked before anything is asked of the pod."""
    response = api.get(f"{path}/log?{query}")
    prefix = 'PodLogOptions "p" is invalid: ' if status == 422 else ""
    error = response.message if status != 200 else ""
    assert (response.status, error) == (status, prefix + message)


def test_several_containers(api, core):
    """A log of one of several containers must say which."""
    body = pod("m")
    body["spec"]["containers"].append({"name": "d", "image": "i"})
    api.post(f"{core}/pods", body)
    response = api.get(f"{core}/pods/m/log")
    assert response.message == (
        "a container name must be specified for pod m, choose one of: [c d]"
    )


def test_graceful_deletion(api, path):
    """Who waits goes at once; who has a node goes when the kubelet says so."""
    api.post(f"{path}/binding", BINDING)
    response = api.delete(path)
    assert response.json["metadata"]["deletionGracePeriodSeconds"] == 30
    assert api.get(path).status == 200
    assert api.delete(f"{path}?gracePeriodSeconds=0").status == 200
    assert api.get(path).status == 404


def test_finalize(api):
    """A namespace ends when the last of its own finalizers is taken away."""
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
