"""Webhook configurations and policies in the files of `staticManifestsDir`."""

from __future__ import annotations

import asyncio
import json

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.apiserver.admission.configuration import BadAdmissionConfiguration
from kapiserver.apiserver.admission.static_manifests import BadManifest
from kapiserver.apiserver.admission.static_manifests import StaticManifests as Manifests
from kapiserver.apiserver.feature_gates import parse_feature_gates
from kapiserver.apiserver.file_watch import CHECK_SECONDS, FileWatch
from kapiserver.apiserver.metrics import Metrics
from kapiserver.metrics import content_hash
from tests.apiserver.admission.pluginkit import JANE, run, write_configuration
from tests.clock import ManualClock

GROUP = "admissionregistration.k8s.io"
VERSION = f"{GROUP}/v1"
PLUGIN = "ValidatingAdmissionPolicy"
KINDS = {
    PLUGIN: "validatingadmissionpolicies",
    f"{PLUGIN}Binding": "validatingadmissionpolicybindings",
}
HOOK_KINDS = {"ValidatingWebhookConfiguration": "validatingwebhookconfigurations"}
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}

RESERVED_WARNING = (
    r'299 - "metadata.name: names ending with \".static.k8s.io\" are reserved for static '
    'manifest-based configurations and cannot be managed via the API"'
)


def policy(name="p.static.k8s.io", expression="false", rule=RULE, **spec):
    return {
        "apiVersion": VERSION, "kind": PLUGIN, "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": expression, "message": f"refused by {name}"}],
            **spec,
        },
    }  # fmt: skip


def binding(name="b.static.k8s.io", policy="p.static.k8s.io", **spec):
    spec = {"policyName": policy, "validationActions": ["Deny"], **spec}
    return {
        "apiVersion": VERSION, "kind": f"{PLUGIN}Binding", "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip


def hook(name="h.static.k8s.io", **client_config):
    webhook = {
        "name": "hook.example.com", "clientConfig": client_config, "rules": [RULE],
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
    }  # fmt: skip
    kind = "ValidatingWebhookConfiguration"
    metadata = {"name": name}
    return {"apiVersion": VERSION, "kind": kind, "metadata": metadata, "webhooks": [webhook]}


@pytest.fixture
def manifests(tmp_path):
    folder = tmp_path / "manifests"
    folder.mkdir()
    return folder


def write(folder, *objects, name="a.yaml"):
    """Write objects as the documents of one file."""
    (folder / name).write_text("---\n".join(f"{json.dumps(each)}\n" for each in objects))


def configuration(tmp_path, folder, plugin=PLUGIN, kind=None):
    """Return the settings of a server with the manifests of one plugin."""
    tree = {
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": kind or f"{plugin}Configuration",
        "staticManifestsDir": str(folder),
    }  # fmt: skip
    return {"admission_control_config_file": write_configuration(tmp_path, plugin, tree)}


async def message(writing):
    with pytest.raises(StatusError) as caught:
        await writing
    return caught.value.status["message"]


def test_static_policies(tmp_path, manifests):
    """They see writes of policies and bindings too, unlike policies of the API, which come
    after."""
    rule = {**RULE, "apiGroups": [GROUP], "resources": ["*"]}
    guard = policy("guard.static.k8s.io", "object.metadata.name != 'x'", rule)
    items = [guard, binding("guard.static.k8s.io", "guard.static.k8s.io")]
    write(manifests, {"apiVersion": "v1", "kind": "List", "items": items}, name="list.json")
    write(manifests, policy(expression="object.metadata.name != 'c'"), binding(), name="b.yml")
    (manifests / "notes.txt").write_text("not read")

    async def test(server):
        client = server.client(JANE, authorize=False)
        config_maps = client.resource("v1", "configmaps", namespace="default")
        policies, bindings = (client.resource(VERSION, each) for each in KINDS.values())
        text = await message(config_maps.create({"metadata": {"name": "c"}}))
        assert text == (
            "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p.static.k8s.io' with "
            "binding 'b.static.k8s.io' denied request: refused by p.static.k8s.io"
        )
        assert "guard.static.k8s.io" in await message(policies.create(policy("x", rule=rule)))
        await policies.create(policy("y", rule={**rule, "apiGroups": ["*"]}))
        await bindings.create(binding("y", "y"))
        assert "refused by y" in await message(config_maps.create({"metadata": {"name": "d"}}))
        assert "refused by p" in await message(config_maps.create({"metadata": {"name": "c"}}))
        stored = [each["metadata"]["name"] for each in (await policies.list())["items"]]
        assert stored == ["y"]

    run(test, **configuration(tmp_path, manifests))


def test_static_webhooks(tmp_path, manifests):
    """A static webhook is called, and has the name of its configuration in errors."""
    write(manifests, hook(url="https://127.0.0.1:1/admit"))

    async def test(server):
        client = server.client(JANE, authorize=False)
        config_maps = client.resource("v1", "configmaps", namespace="default")
        text = await message(config_maps.create({"metadata": {"name": "c"}}))
        assert 'failed calling webhook "hook.example.com"' in text
        assert "connection refused" in text

    plugin, kind = "ValidatingAdmissionWebhook", "WebhookAdmissionConfiguration"
    run(test, **configuration(tmp_path, manifests, plugin, kind))


def test_disabled_gate(tmp_path, manifests):
    """Without the feature gate a configuration with static manifests ends the start."""
    write(manifests, policy(), binding())

    async def test(_server):
        raise AssertionError("the server started")

    gates = parse_feature_gates("ManifestBasedAdmissionControlConfig=false")
    with pytest.raises(BadAdmissionConfiguration) as caught:
        run(test, feature_gates=gates, **configuration(tmp_path, manifests))
    assert str(caught.value).endswith(
        "staticManifestsDir: Forbidden: staticManifestsDir requires the "
        "ManifestBasedAdmissionControlConfig feature gate to be enabled"
    )


def test_reserved_names():
    """Objects of the API cannot have the names of static ones."""

    async def test(server):
        client = server.client(JANE, authorize=False)
        for each in (policy(), binding(), hook(url="https://127.0.0.1:1/")):
            resource = {**KINDS, **HOOK_KINDS}[each["kind"]]
            text = await message(client.resource(VERSION, resource).create(each))
            assert text.endswith(
                f'metadata.name: Invalid value: "{each["metadata"]["name"]}": names ending with '
                '".static.k8s.io" are reserved for static manifest-based configurations and cannot '
                "be managed via the API"
            )

    run(test)


def test_names_without_the_gate(make_server):
    """Without the feature gate, writes of objects with reserved names succeed with a warning."""
    gates = parse_feature_gates("ManifestBasedAdmissionControlConfig=false")
    api = make_server(feature_gates=gates, controllers=("-*",)).api
    long_policy = policy("long.static.k8s.io", expression="'" + "a" * 9000 + "' == ''")
    for each in (policy(), long_policy, binding(), hook(url="https://127.0.0.1:1/")):
        resource = {**KINDS, **HOOK_KINDS}[each["kind"]]
        path = f"/apis/{VERSION}/{resource}"
        created = api.post(path, each)
        labels = {"metadata": {"labels": {"a": "b"}}}
        patched = api.patch(f"{path}/{each['metadata']['name']}", labels)
        assert (created.status, patched.status) == (201, 200)
        assert created.warnings == patched.warnings == [RESERVED_WARNING]


BAD = [
    ([policy("p")], 'metadata.name: Invalid value: "p": must end with ".static.k8s.io"'),
    ([policy(), policy()], 'duplicate name "p.static.k8s.io"'),
    ([policy(paramKind={"apiVersion": "v1", "kind": "ConfigMap"})], "spec.paramKind: Forbidden"),
    ([policy(), binding(paramRef={"name": "c"})], "spec.paramRef: Forbidden"),
    ([binding()], 'references policy "p.static.k8s.io" which does not exist in the manifest'),
    ([policy(expression="1 +")], "spec.validations[0].expression: Invalid value"),
    ([policy(expression="'" + "a" * 9000 + "' == ''", unknown=1)], 'unknown field "spec.unknown"'),
    ([policy(expression="'" + "a" * 9000 + "' == 1")], "found no matching overload for '_==_'"),
    ([{"apiVersion": "v1", "kind": "ConfigMap"}], 'no kind "ConfigMap" is registered'),
    ([hook(url="https://a")], 'no kind "ValidatingWebhookConfiguration"'),
]


def _parts() -> tuple[ManualClock, Metrics, FileWatch]:
    clock = ManualClock()
    return clock, Metrics(), FileWatch(clock)


@pytest.mark.parametrize(("objects", "expected"), BAD, ids=range(len(BAD)))
def test_bad_manifests(manifests, objects, expected):
    """An error names the file and the reason."""
    write(manifests, *objects)
    with pytest.raises(BadManifest) as caught:
        Manifests(manifests, PLUGIN, KINDS, *_parts())
    assert expected in str(caught.value)
    if "references" not in expected:
        assert str(caught.value).startswith(f"error loading {manifests}/a.yaml: ")


def test_bad_webhook(manifests):
    """A static webhook has a URL, because services may not be known yet."""
    write(manifests, hook(service={"name": "s", "namespace": "n"}))
    with pytest.raises(BadManifest, match=r"webhooks\[0\].clientConfig.service: Forbidden"):
        Manifests(manifests, "ValidatingAdmissionWebhook", HOOK_KINDS, *_parts())


def test_bad_manifests_end_the_start(tmp_path, manifests):
    """A server with an invalid manifest does not start."""
    (manifests / "a.yaml").write_text("a: b: c")

    async def test(_server):
        raise AssertionError("the server started")

    with pytest.raises(BadAdmissionConfiguration) as caught:
        run(test, **configuration(tmp_path, manifests))
    start = f'couldn\'t init admission plugin "{PLUGIN}": error loading {manifests}/a.yaml: yaml: '
    assert str(caught.value).startswith(start)


def test_large_files(manifests):
    """A file has at most a mebibyte."""
    (manifests / "a.yaml").write_text("#" * (1 << 20) + "\n")
    with pytest.raises(BadManifest, match=r"a\.yaml: the file is larger than 1048576 bytes"):
        Manifests(manifests, PLUGIN, KINDS, *_parts())


def test_repeated_fields(manifests):
    """A file with a repeated field is invalid."""
    (manifests / "a.yaml").write_text(json.dumps(policy())[:-1] + ', "kind": "A"}')
    with pytest.raises(BadManifest, match=r"strict decoding error: .*already set"):
        Manifests(manifests, PLUGIN, KINDS, *_parts())


def test_reload(manifests, caplog):
    """Changed files are used; invalid ones are logged, and the previous objects stay."""
    write(manifests, policy())
    clock, metrics, watch = _parts()
    watch.start()
    static = Manifests(manifests, PLUGIN, KINDS, clock, metrics, watch)

    async def test():
        changed = asyncio.Event()
        static.start(changed.set)
        write(manifests, policy(), policy("q.static.k8s.io"))
        clock.advance(CHECK_SECONDS)
        await changed.wait()
        names = [each["metadata"]["name"] for each in static.objects[KINDS[PLUGIN]]]
        assert names == ["p.static.k8s.io", "q.static.k8s.io"]
        before = static.objects
        reloads = metrics.manifest_reloads[PLUGIN]
        assert reloads.hash == content_hash((manifests / "a.yaml").read_bytes(), b"\0")
        write(manifests, policy("r"))
        await static.reload()
        assert static.objects is before
        assert "changed manifests of ValidatingAdmissionPolicy are not used" in caplog.text
        (manifests / "a.yaml").unlink()
        await static.reload()
        assert static.objects[KINDS[PLUGIN]] == []
        manifests.rmdir()
        await static.reload()
        assert "failed to read manifest directory" in caplog.text
        static.stop()
        assert reloads.hash == ""
        assert reloads.counts.values == {"success": 3, "failure": 2}
        assert reloads.times.values["failure"] == clock.now()

    asyncio.run(test())
