"""The AdmissionConfiguration file and its PodSecurity section."""

import json

import pytest

from kapiserver.apiserver.admission.configuration import (
    AdmissionSettings,
    BadAdmissionConfiguration,
    read_admission_settings,
)
from tests.apiserver.test_pod_security import GOOD, pod

FILE = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
OWN = {
    "apiVersion": "pod-security.admission.config.k8s.io/v1",
    "kind": "PodSecurityConfiguration",
}
SETTINGS = {
    **OWN,
    "defaults": {"enforce": "baseline", "enforce-version": "v1.30", "warn": "restricted"},
    "exemptions": {"namespaces": ["free"], "runtimeClasses": ["sandbox"]},
}


@pytest.fixture
def write_configuration(tmp_path):
    """Write a file with a PodSecurity configuration. Returns its path."""

    def write(**plugin):
        file = tmp_path / "admission.yaml"
        file.write_text(json.dumps({**FILE, "plugins": [{"name": "PodSecurity", **plugin}]}))
        return file

    return write


def test_inline_and_referenced_section(write_configuration, tmp_path):
    """The section is in the file itself or in a file that it names; every field has a default."""
    settings = read_admission_settings(write_configuration(configuration=SETTINGS)).pod_security
    assert [str(level) for level in (settings.defaults.enforce, settings.defaults.warn)] == [
        "baseline:v1.30",
        "restricted:latest",
    ]
    assert settings.namespaces == {"free"}
    (tmp_path / "own.yaml").write_text(json.dumps(SETTINGS))
    assert read_admission_settings(write_configuration(path="own.yaml")).pod_security == settings
    assert read_admission_settings(write_configuration()) == AdmissionSettings()
    other_path = tmp_path / "other.yaml"
    other_path.write_text(
        json.dumps({**FILE, "plugins": [{"name": "EventRateLimit", "path": "x"}]})
    )
    assert read_admission_settings(other_path) == AdmissionSettings()


BAD = [
    (
        {"defaults": {"enforce": "strict", "warn-version": "v2"}},
        'couldn\'t init admission plugin "PodSecurity": [defaults.enforce: Invalid value: '
        '"strict": must be one of privileged, baseline, restricted, defaults.warn-version: '
        'Invalid value: "v2": must be "latest" or "v1.x"]',
    ),
    (
        {"exemptions": {"namespaces": ["a", "a"], "usernames": [""]}},
        'couldn\'t init admission plugin "PodSecurity": [exemptions.namespaces[1]: Duplicate '
        'value: "a", exemptions.usernames[0]: Invalid value: "": username must not be empty]',
    ),
    ({"odd": 1}, 'PodSecurity: strict decoding error: unknown field "odd"'),
    (
        {"kind": "Odd"},
        'PodSecurity: no kind "Odd" is registered for version '
        '"pod-security.admission.config.k8s.io/v1"',
    ),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_invalid_configuration(write_configuration, changes, message):
    """An invalid configuration stops the server from starting."""
    with pytest.raises(BadAdmissionConfiguration) as caught:
        read_admission_settings(write_configuration(configuration={**OWN, **changes}))
    assert str(caught.value) == message


def test_missing_file(tmp_path):
    """A missing file stops the server from starting."""
    with pytest.raises(BadAdmissionConfiguration, match="unable to read admission control"):
        read_admission_settings(tmp_path / "none")


def test_default_levels(write_configuration, make_server):
    """The configured levels apply to namespaces without labels, unless they are exempt."""
    api = make_server(admission_control_config_file=write_configuration(configuration=SETTINGS)).api
    assert api.post("/api/v1/namespaces", {"metadata": {"name": "free"}}).status == 201
    handler = {"metadata": {"name": "sandbox"}, "handler": "h"}
    assert api.post("/apis/node.k8s.io/v1/runtimeclasses", handler).status == 201
    pods, bad = "/api/v1/namespaces/default/pods", {"hostNetwork": True}
    response = api.post(pods, pod(**bad))
    assert response.message == (
        'pods "p" is forbidden: violates PodSecurity "baseline:v1.30": host namespaces '
        "(hostNetwork=true)"
    )
    assert api.post(pods, pod("warned")).warnings
    good = api.post(pods, pod("good", GOOD))
    assert (good.status, good.warnings) == (201, [])
    exempt = api.post(pods, pod("boxed", runtimeClassName="sandbox", **bad))
    assert (exempt.status, exempt.warnings) == (201, [])
    assert api.post("/api/v1/namespaces/free/pods", pod(**bad)).warnings == []
    label = "pod-security.kubernetes.io/enforce"
    labelled = api.patch("/api/v1/namespaces/free", {"metadata": {"labels": {label: "restricted"}}})
    assert labelled.warnings == [
        '299 - "namespace \\"free\\" is exempt from Pod Security, and the policy '
        '(enforce=restricted:v1.30) will be ignored"'
    ]


def test_exempt_users(write_configuration, make_server):
    """Users can be exempt too."""
    free = {"usernames": ["system:unsecured"]}
    settings = {**SETTINGS, "exemptions": free}
    api = make_server(admission_control_config_file=write_configuration(configuration=settings)).api
    created = api.post("/api/v1/namespaces/default/pods", pod(hostNetwork=True))
    assert (created.status, created.warnings) == (201, [])
