"""Validation of pod resources, and of their resize."""

import copy

import pytest

from tests.objects import GONE, POD, changed, defaulted, strategy, texts

C = "spec/containers/0"
AT = "spec.containers[0].resources"
WHOLE = "spec.resources"
CLAIMS = {"resourceClaims": [{"name": "a", "resourceClaimName": "r"}]}
NOT_THERE = "must be one of the names in pod.spec.resourceClaims"


def limited(**values):
    """Return resources with equal requests and limits."""
    return {"limits": values, "requests": dict(values)}


def claiming(*claims):
    """Return a pod spec with a resource claim, and a container that uses these claims."""
    container = {**POD["spec"]["containers"][0], "resources": {"claims": list(claims)}}
    return {**POD["spec"], **CLAIMS, "containers": [container]}


def pod_spec(pod_resources, container_resources, **fields):
    """Return a pod spec with these pod-level and container resources."""
    container = {**POD["spec"]["containers"][0], "resources": container_resources}
    return {**POD["spec"], "containers": [container], "resources": pod_resources, **fields}


CASES = [
    (f"{C}/resources", limited(**{"hugepages-2Mi": "2Mi"}),
     [f"{AT}: Forbidden: HugePages require cpu or memory"]),
    (f"{C}/resources", limited(**{"hugepages-2Mi": "3Mi", "cpu": "1"}), [
        f'{AT}.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple '
        "of hugepages-2Mi",
        f'{AT}.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple '
        "of hugepages-2Mi",
    ]),
    (f"{C}/resources", {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
     [f'{AT}.requests: Invalid value: "2": must be less than or equal to cpu limit of 1']),
    (f"{C}/resources", {"limits": {"pods": "1"}}, [
        f'{AT}.limits[pods]: Invalid value: "pods": must be a standard resource for containers',
        f'{AT}.requests[pods]: Invalid value: "pods": must be a standard resource for containers',
    ]),
    (f"{C}/resources", {"claims": [{"name": "x"}]},
     [f'{AT}.claims[0]: Not found: "x": {NOT_THERE} which is empty']),
    ("spec", claiming({"name": "x"}, {}), [
        f'{AT}.claims[0]: Not found: "x": {NOT_THERE}: a',
        f"{AT}.claims[1]: Required value",
    ]),
    ("spec", claiming({"name": "a", "request": "r"}, {"name": "a", "request": "s"}), []),
    ("spec", claiming({"name": "a"}, {"name": "a", "request": "r"}),
     [f'{AT}.claims[1]: Duplicate value: "a"']),
    ("spec", claiming({"name": "a", "request": "r"}, {"name": "a", "request": "r"}),
     [f'{AT}.claims[1]: Duplicate value: "a/r"']),
    ("spec", claiming({"name": "a", "request": "r"}, {"name": "a"}),
     [f'{AT}.claims[1]: Duplicate value: "a"']),
    ("spec/resources", {"claims": []},
     [f"{WHOLE}.claims: Forbidden: claims may not be set for Resources at pod-level"]),
    ("spec", pod_spec(limited(cpu="1"), {}, os={"name": "windows"}),
     [f"{WHOLE}: Forbidden: may not be set for a windows pod"]),
    ("spec", pod_spec({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}), [
        f'{WHOLE}.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate '
        "container requests of 2"
    ]),
    ("spec", pod_spec(
        {"limits": {"cpu": "1"}}, {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}
    ), [
        'spec.resources.containers[0][cpu].limits: Invalid value: "2": must be less than or equal '
        "to pod limits of 1"
    ]),
    ("spec", pod_spec(limited(**{"hugepages-2Mi": "2Mi", "cpu": "1"}),
                   limited(**{"hugepages-2Mi": "4Mi", "cpu": "1"})), [
        f'{WHOLE}.requests[hugepages-2Mi]: Invalid value: "2Mi": must be greater than or equal to '
        "aggregate container requests of 4Mi",
        f'{WHOLE}.limits[hugepages-2Mi]: Invalid value: "2Mi": must be greater than or equal to '
        "aggregate container limits of 4Mi",
        'spec.resources.containers[0][hugepages-2Mi].limits: Invalid value: "4Mi": must be less '
        "than or equal to pod limits of 2Mi",
    ]),
    ("spec/overhead", {"cpu": "100m", "memory": "1Mi"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "messages"), CASES)
def test_rules(path, value, messages):
    """Each invalid field gives exactly its messages."""
    pod = defaulted(changed(POD, path, value))
    assert texts(strategy("pods").validate(pod)) == messages


SIZES = {"limits": {"cpu": "2", "memory": "2Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}
INIT = {"name": "i", "image": "i", "resources": copy.deepcopy(SIZES)}
OLD = defaulted(changed(POD, "spec", {
    **POD["spec"],
    "containers": [{**POD["spec"]["containers"][0], "resources": SIZES}],
    "initContainers": [INIT],
}))  # fmt: skip
R = f"{C}/resources"
RUNNING = {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}
QUALITY = 'spec: Invalid value: "": Pod QOS Class may not change as a result of resizing'
RESIZES = [  # changes of the old pod, changes of the new pod
    ("", GONE, f"{R}/limits/cpu", "3", []),
    ("", GONE, f"{R}/limits/cpu", GONE,
     ["spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed"]),
    ("", GONE, f"{R}/requests/cpu", GONE,
     ["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"]),
    ("", GONE, f"{R}/requests/cpu", "3", [
        'spec.containers[0].resources.requests: Invalid value: "3": must be less than or equal to '
        "cpu limit of 2"
    ]),
    ("", GONE, f"{R}/requests/ephemeral-storage", "1",
     ["spec: Forbidden: only cpu and memory resources are mutable"]),
    ("", GONE, f"{C}/resizePolicy", [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
     ["spec: Forbidden: only cpu and memory resources are mutable"]),
    ("", GONE, "spec/initContainers/0/resources/requests/cpu", "1500m", []),
    ("", GONE, "spec/initContainers/0/image", "other", [
        "spec.initContainers[0]: Forbidden: only cpu and memory resources for init or sidecar "
        "containers are mutable"
    ]),
    ("spec/initContainers/0/resizePolicy",
     [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
     "spec/initContainers/0/resources/requests/cpu", "1500m", [
        "spec.initContainers[0]: Forbidden: non-sidecar init containers with a resize policy of "
        "RestartContainer cannot be resized"
    ]),
    ("", GONE, f"{C}/name", "other", [
        "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"
    ]),
    ("", GONE, "spec/initContainers", GONE, [
        "spec.initContainers: Forbidden: initContainers may not be added or removed on resize"
    ]),
    ("", GONE, "spec/nodeName", "n",
     ["spec: Forbidden: only cpu and memory resources are mutable"]),
    ("metadata/annotations", {"kubernetes.io/config.mirror": "x"}, f"{R}/limits/cpu", "3",
     ["[]: Forbidden: static pods cannot be resized"]),
    ("spec/os", {"name": "windows"}, f"{R}/limits/cpu", "3",
     ["[]: Forbidden: windows pods cannot be resized"]),
    ("status", RUNNING, f"{R}/limits/cpu", "3",
     ["spec: Forbidden: Pod running on node without support for resize"]),
    ("spec/initContainers", [], R, {"limits": SIZES["limits"], "requests": SIZES["limits"]},
     [QUALITY]),
    ("spec/resources", limited(cpu="2", memory="2Gi"), "spec/resources/requests/cpu", "3", [
        'spec.resources.requests: Invalid value: "3": must be less than or equal to cpu limit of 2',
        QUALITY,
    ]),
    ("spec/resources", SIZES, "spec/resources/limits/cpu", "3", []),
    ("spec/resources", SIZES, "spec/resources", GONE,
     ["spec.resources: Forbidden: pod-level resources cannot be removed"]),
    ("spec/resources", SIZES, "spec/resources/limits/cpu", GONE, [
        'spec.resources.limits: Forbidden: pod-level resource limits cannot be removed'
    ]),
    ("", GONE, "spec/resources", SIZES, []),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "changes", "to", "messages"), RESIZES)
def test_resizes(path, value, changes, to, messages):
    """Resize changes cpu and memory only, and not of all pods."""
    old = copy.deepcopy(OLD) if value is GONE else changed(OLD, path, value)
    new = changed(old, changes, to)
    assert texts(strategy("pods/resize").validate_update(new, old)) == messages
