"""PodSecurity admission: the labels of namespaces over HTTP, and each check by itself."""

from __future__ import annotations

import pytest

from kapiserver.api.core.pods.security import LATEST, violations

ENFORCE = "pod-security.kubernetes.io/enforce"
WARN = "pod-security.kubernetes.io/warn"
GOOD = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
PLAIN = (
    'allowPrivilegeEscalation != false (container "c" must set '
    "securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "
    '"c" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or '
    'container "c" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container '
    '"c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
)
REASONS = (
    "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, "
    "seccompProfile"
)


def pod(name="p", context=None, **spec):
    """A pod whose container has a security context."""
    container = {"name": "c", "image": "i"}
    if context is not None:
        container["securityContext"] = context
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


CHECKS = [
    (pod(context=GOOD), "restricted", []),
    (pod(), "baseline", []),
    (pod(hostNetwork=True, hostPID=True), "baseline", [
        "host namespaces (hostNetwork=true, hostPID=true)"
    ]),
    (pod(context={"privileged": True}), "baseline", [
        'privileged (container "c" must not set securityContext.privileged=true)'
    ]),
    (pod(context={"capabilities": {"add": ["SYS_TIME", "NET_RAW", "KILL"]}}), "baseline", [
        'non-default capabilities (container "c" must not include "NET_RAW", "SYS_TIME" in '
        "securityContext.capabilities.add)"
    ]),
    (pod(context=GOOD | {"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}), "restricted", [
        'unrestricted capabilities (container "c" must not include "CHOWN" in '
        "securityContext.capabilities.add)"
    ]),
    (pod(context=GOOD, volumes=[{"name": "v", "hostPath": {"path": "/"}}]), "baseline", [
        'hostPath volumes (volume "v")'
    ]),
    (pod(context=GOOD, volumes=[{"name": "v", "hostPath": {"path": "/"}}]), "restricted", [
        'restricted volume types (volume "v" uses restricted volume type "hostPath")'
    ]),
    (pod(context={"seLinuxOptions": {"type": "a", "user": "u"}}), "baseline", [
        'seLinuxOptions (container "c" set forbidden securityContext.seLinuxOptions: type "a"; '
        "user may not be set)"
    ]),
    (pod(securityContext={"seccompProfile": {"type": "Unconfined"}}), "baseline", [
        'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")'
    ]),
    (pod(securityContext={"appArmorProfile": {"type": "Unconfined"}}), "baseline", [
        'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")'
    ]),
    (pod(securityContext={"sysctls": [{"name": "kernel.x", "value": "1"}]}), "baseline", [
        "forbidden sysctls (kernel.x)"
    ]),
    (pod(context=GOOD | {"runAsUser": 0, "runAsNonRoot": False}), "restricted", [
        'runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)',
        'runAsUser=0 (container "c" must not set runAsUser=0)',
    ]),
    (pod(context=GOOD | {"runAsUser": 0}, hostUsers=False), "restricted", []),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "level", "messages"), CHECKS)
def test_checks(pod, level, messages):
    """Each check reports violations with Kubernetes' messages."""
    assert [str(violation) for violation in violations(pod, level, LATEST)] == messages


def test_versions():
    """A level pinned to a version has the checks of that version."""
    assert [violation.reason for violation in violations(pod(), "restricted", 7)] == [
        "runAsNonRoot != true"
    ]


@pytest.fixture
def set_labels(api, namespace):
    """A function that labels the namespace and returns the response."""

    def call(labels):
        return api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})

    return call


def test_enforce(api, core, set_labels):
    """A pod that violates the enforced level is forbidden."""
    assert set_labels({ENFORCE: "restricted"}).status == 200
    response = api.post(f"{core}/pods", pod())
    assert response.status == 403
    assert response.message == (
        f'pods "p" is forbidden: violates PodSecurity "restricted:latest": {PLAIN}'
    )
    assert api.post(f"{core}/pods", pod(context=GOOD)).status == 201
    debugger = {"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}}
    path = f"{core}/pods/p/ephemeralcontainers"
    assert "violates PodSecurity" in api.patch(path, debugger, "strategic").message


def test_enforced_level_warns_of_templates(api, core, apps, set_labels):
    """A workload whose template violates the enforced level gets a warning, though pods are
    refused. An update of a pod is checked only if it changes images or the like."""
    set_labels({ENFORCE: "restricted", f"{ENFORCE}-version": "v1.30"})
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    created = api.post(f"{apps}/deployments", {"metadata": {"name": "d"}, "spec": spec})
    text = f'would violate PodSecurity "restricted:v1.30": {PLAIN}'.replace('"', '\\"')
    assert created.warnings == [f'299 - "{text}"']
    set_labels({ENFORCE: "privileged"})
    assert not api.post(f"{core}/pods", pod()).warnings
    set_labels({ENFORCE: "restricted"})
    assert api.patch(f"{core}/pods/p", {"metadata": {"labels": {"a": "b"}}}).status == 200
    image = {"spec": {"containers": [{"name": "c", "image": "other"}]}}
    response = api.patch(f"{core}/pods/p", image, "strategic")
    assert "violates PodSecurity" in response.message


def test_warn(api, core, apps, set_labels):
    """A pod or template that violates the warn level is accepted with a warning."""
    set_labels({WARN: "restricted", f"{WARN}-version": "v1.30"})
    response = api.post(f"{core}/pods", pod())
    assert response.status == 201
    text = f'would violate PodSecurity "restricted:v1.30": {PLAIN}'.replace('"', '\\"')
    assert response.warnings == [f'299 - "{text}"']
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    created = api.post(f"{apps}/deployments", {"metadata": {"name": "d"}, "spec": spec})
    assert created.status == 201
    assert created.warnings == [f'299 - "{text}"']


def test_labels(api, core, namespace, set_labels):
    """Invalid labels are a 422. A stricter level causes warnings about existing pods that violate
    it."""
    response = set_labels({ENFORCE: "strict", f"{ENFORCE}-version": "v2"})
    assert response.status == 422
    assert response.message == (
        f'Namespace "{namespace}" is invalid: [metadata.labels[{ENFORCE}]: Invalid value: '
        '"strict": must be one of privileged, baseline, restricted, '
        f'metadata.labels[{ENFORCE}-version]: Invalid value: "v2": must be "latest" or "v1.x"]'
    )
    for name in "ab":
        api.post(f"{core}/pods", pod(name))
    labelled = set_labels({ENFORCE: "restricted"})
    assert labelled.status == 200
    assert labelled.warnings == [
        f'299 - "existing pods in namespace \\"{namespace}\\" violate the new PodSecurity enforce '
        'level \\"restricted:latest\\""',
        f'299 - "a (and 1 other pod): {REASONS}"',
    ]


def test_pods_of_a_controller(api, core, namespace, set_labels):
    """Warnings about existing pods count the pods of a controller together."""
    config_map = api.post(f"{core}/configmaps", {"metadata": {"name": "owner"}}).json["metadata"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": config_map["uid"]}
    for name in ("b", "a"):
        body = pod(name, hostNetwork=True)
        body["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        assert api.post(f"{core}/pods", body).status == 201
    api.post(f"{core}/pods", pod("c"))
    labelled = set_labels({ENFORCE: "baseline"})
    assert [body.split('"')[1] for body in labelled.warnings[1:]] == [
        "a (and 1 other pod): host namespaces"
    ]
