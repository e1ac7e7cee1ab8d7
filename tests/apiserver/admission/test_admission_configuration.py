"""The AdmissionConfiguration file, and the configurations of PodSecurity and of webhooks."""

import json

import pytest

from kapiserver.apiserver.admission.configuration import (
    BadAdmissionConfiguration,
    PluginConfiguration,
    read_admission_configuration,
)
from kapiserver.apiserver.admission.plugins.event_rate_limit import EventRateLimit
from kapiserver.apiserver.admission.plugins.pod_security_configuration import (
    Settings,
    read_settings,
)
from kapiserver.apiserver.admission.webhook_configuration import read_webhook_settings
from tests.apiserver.admission.test_pod_security import GOOD, pod

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


def pod_security(file):
    return read_settings(read_admission_configuration(file)["PodSecurity"])


def test_inline_and_referenced_section(write_configuration, tmp_path):
    """The section is in the file itself or in a file that it names; every field has a default."""
    settings = pod_security(write_configuration(configuration=SETTINGS))
    assert [str(level) for level in (settings.defaults.enforce, settings.defaults.warn)] == [
        "baseline:v1.30",
        "restricted:latest",
    ]
    assert settings.namespaces == {"free"}
    (tmp_path / "own.yaml").write_text(json.dumps(SETTINGS))
    assert pod_security(write_configuration(path="own.yaml")) == settings
    assert pod_security(write_configuration()) == Settings()
    assert read_settings(PluginConfiguration(name="PodSecurity")) == Settings()


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
        pod_security(write_configuration(configuration={**OWN, **changes}))
    assert str(caught.value) == message


def test_unknown_fields(tmp_path):
    """Unknown fields are ignored, except in the configuration of PodSecurity."""
    file = tmp_path / "admission.yaml"
    head = {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration"}
    limit = {"type": "Server", "qps": 5, "burst": 5, "odd": 1}
    configuration = {**head, "limits": [limit], "odd": 1}
    plugin = {"name": "EventRateLimit", "configuration": configuration, "odd": 1}
    file.write_text(json.dumps({**FILE, "plugins": [plugin], "odd": 1}))
    EventRateLimit(read_admission_configuration(file)["EventRateLimit"])


def test_missing_file(tmp_path):
    """A missing file stops the server from starting."""
    with pytest.raises(BadAdmissionConfiguration, match="unable to read admission control"):
        read_admission_configuration(tmp_path / "none")


def test_first_of_a_name(tmp_path):
    """Of several configurations of one plugin the first is in force, and files that plugins name
    must exist."""
    file = tmp_path / "admission.yaml"
    plugins = [{"name": "A", "configuration": {"a": 1}}, {"name": "A", "path": "missing"}]
    file.write_text(json.dumps({**FILE, "plugins": plugins}))
    configurations = read_admission_configuration(file)
    assert {name: each.data for name, each in configurations.items()} == {"A": b'{"a": 1}'}
    file.write_text(json.dumps({**FILE, "plugins": plugins[1:]}))
    with pytest.raises(BadAdmissionConfiguration, match="unable to read"):
        read_admission_configuration(file)


def test_file_of_one_plugin(tmp_path):
    """A file without a kind may itself be the configuration of two plugins, as in old clusters."""
    file = tmp_path / "admission.yaml"
    file.write_text("podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: a=b}")
    configurations = read_admission_configuration(file)
    assert configurations["PodNodeSelector"].decode_unversioned() == {
        "podNodeSelectorPluginConfig": {"clusterDefaultNodeSelector": "a=b"}
    }
    file.write_text("other: {}")
    with pytest.raises(BadAdmissionConfiguration, match="'Kind' is missing"):
        read_admission_configuration(file)


WEBHOOK_FILES = [
    ("v1", "WebhookAdmissionConfiguration", {"kubeConfigFile": "/etc/k"}, ""),
    ("v1alpha1", "WebhookAdmission", {"kubeConfigFile": "/etc/k"}, ""),
    ("v1", "WebhookAdmission", {"kubeConfigFile": "/etc/k"}, 'no kind "WebhookAdmission"'),
    (
        "v1",
        "WebhookAdmissionConfiguration",
        {"kubeConfigFile": "k"},
        'kubeConfigFile: Invalid value: "k": must be an absolute file path',
    ),
    (
        "v1",
        "WebhookAdmissionConfiguration",
        {"kubeConfigFile": "/etc/k", "staticManifestsDir": "etc"},
        'staticManifestsDir: Invalid value: "etc": must be an absolute file path',
    ),
    (
        "v1",
        "WebhookAdmissionConfiguration",
        {"staticManifestsDir": "/does/not/exist"},
        "unable to read: stat /does/not/exist: no such file or directory",
    ),
    (
        "v1",
        "WebhookAdmissionConfiguration",
        {"staticManifestsDir": "/etc/passwd"},
        'staticManifestsDir: Invalid value: "/etc/passwd": must be a directory',
    ),
]


@pytest.mark.parametrize(("version", "kind", "fields", "message"), WEBHOOK_FILES)
def test_webhook_configuration(version, kind, fields, message):
    """The configuration of webhooks names a kubeconfig by an absolute path."""
    tree = {"apiVersion": f"apiserver.config.k8s.io/{version}", "kind": kind, **fields}
    data = json.dumps(tree).encode()
    configuration = PluginConfiguration(name="ValidatingAdmissionWebhook", data=data)
    if not message:
        assert str(read_webhook_settings(configuration).kubeconfig) == "/etc/k"
        return
    with pytest.raises(BadAdmissionConfiguration) as caught:
        read_webhook_settings(configuration)
    assert message in str(caught.value)


def test_no_webhook_configuration():
    """Without a configuration there is no kubeconfig."""
    settings = read_webhook_settings(PluginConfiguration(name="ValidatingAdmissionWebhook"))
    assert settings.kubeconfig is None


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
