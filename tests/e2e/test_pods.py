"""Kubernetes' conformance tests of pods that need not run. Each test does what the conformance
tests named in its docstring do."""

import pytest

from tests.e2e.every_kind import STRATEGIC, Api, Tree, meta, pod


def _resources(requests: Tree | None = None, limits: Tree | None = None) -> Tree:
    requirements = {"requests": requests, "limits": limits}
    return {key: value for key, value in requirements.items() if value}


SMALL = {"cpu": "100m", "memory": "100Mi"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (_resources(SMALL, SMALL), "Guaranteed"),
        (_resources(None, SMALL), "Guaranteed"),
        (_resources(SMALL, {"cpu": "1", "memory": "1Gi"}), "Burstable"),
        (_resources({"cpu": "100m"}), "Burstable"),
        ({}, "BestEffort"),
    ],
)
def test_quality_of_service(api: Api, core: str, resources: Tree, expected: str) -> None:
    """Pods Set QOS Class should be set on Pods with matching requests and limits."""
    obj = pod("p", containers=[{"name": "c", "image": "i", "resources": resources}])
    assert api("POST", f"{core}/pods", obj)["status"]["qosClass"] == expected


def _certificate(seconds: int) -> Tree:
    source = {"signerName": "e.com/s", "keyType": "ED25519", "credentialBundlePath": "c.pem"}
    projected = {"sources": [{"podCertificate": {**source, "maxExpirationSeconds": seconds}}]}
    return {"volumes": [{"name": "v", "projected": projected}]}


@pytest.mark.parametrize(
    ("spec", "status", "message"),
    [
        ({"runtimeClassName": "none"}, 403, 'RuntimeClass "none" not found'),
        ({"securityContext": {"sysctls": [{"name": "foo-", "value": "x"}, {"name": "kernel.shmmax",
          "value": "1"}, {"name": "bar..", "value": "4"}]}}, 422, 'Invalid value: "foo-"'),
        (_certificate(91 * 86400 + 1), 422, "maxExpirationSeconds"),
        (_certificate(3599), 422, "maxExpirationSeconds"),
        ({"priorityClassName": "none"}, 403, "no PriorityClass with name none was found"),
    ],
    ids=["runtime class", "sysctls", "long certificate", "short certificate", "priority"],
)  # fmt: skip
def test_refused_pods(api: Api, core: str, spec: Tree, status: int, message: str) -> None:
    """RuntimeClass should reject a Pod requesting a non-existent RuntimeClass; Sysctls should
    reject invalid sysctls; MaxExpirationSeconds should reject pod creation."""
    error = api("POST", f"{core}/pods", pod("p", **spec), status=status)
    assert message in error["message"]


def test_limit_range(api: Api, core: str) -> None:
    """LimitRange should create a LimitRange with defaults and ensure pod has those defaults."""
    limits = {
        "type": "Container",
        "min": {"cpu": "50m", "memory": "100Mi"},
        "max": {"cpu": "500m", "memory": "500Mi"},
        "default": {"cpu": "500m", "memory": "500Mi"},
        "defaultRequest": {"cpu": "100m", "memory": "200Mi"},
    }
    api("POST", f"{core}/limitranges", {**meta("l"), "spec": {"limits": [limits]}})
    resources_set = api("POST", f"{core}/pods", pod("none"))["spec"]["containers"][0]["resources"]
    assert resources_set == {"limits": limits["default"], "requests": limits["defaultRequest"]}
    partial = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "200m"}}}]
    resources_set = api("POST", f"{core}/pods", pod("some", containers=partial))
    requests = resources_set["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "200m", "memory": "200Mi"}
    for cpu, word in (("10m", "minimum"), ("600m", "maximum")):
        resources = {"limits": {"cpu": cpu}, "requests": {"cpu": cpu}}
        body = pod("wrong", containers=[{"name": "c", "image": "i", "resources": resources}])
        assert word in api("POST", f"{core}/pods", body, status=403)["message"]


def test_inline_volume(api: Api, core: str) -> None:
    """CSIInlineVolumes should support CSIVolumeSource in Pod API."""
    volume = {"name": "v", "csi": {"driver": "e2e.example.com", "volumeAttributes": {"a": "b"}}}
    api("POST", f"{core}/pods", pod("p", volumes=[volume]))
    patch = {"metadata": {"labels": {"x": "y"}}}
    patched = api("PATCH", f"{core}/pods/p", patch, content_type=STRATEGIC)
    assert patched["spec"]["volumes"][0] == volume
    api("DELETE", f"{core}/pods/p?gracePeriodSeconds=0")
    api("GET", f"{core}/pods/p", status=404)
