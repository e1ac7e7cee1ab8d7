"""The EncryptionConfiguration file: its contents, and kube-apiserver's messages for errors."""

from __future__ import annotations

import base64
import logging
from pathlib import Path

import pytest

from kapiserver.metrics import Reloads, content_hash
from kapiserver.storage.encryption.config import InvalidEncryptionConfig, parse_encryption_config
from kapiserver.storage.encryption.file import EncryptionFile
from kapiserver.storage.encryption.transformers import IDENTITY, EncryptionRules, GroupResource
from tests.clock import ManualClock
from tests.storage.kmskit import no_kms

HEAD = "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\n"
SECRET = base64.b64encode(bytes(32)).decode()
KEYS = f"{{keys: [{{name: one, secret: {SECRET}}}]}}"


def rules(*lines: str) -> str:
    return HEAD + "resources:\n" + "".join(f"- {{{line}}}\n" for line in lines)


def rule(resources: str, provider: str = f"aesgcm: {KEYS}") -> str:
    return f"resources: [{resources}], providers: [{{{provider}}}]"


def keyed(keys: str, provider: str = "aesgcm") -> str:
    return rules(rule("secrets", f"{provider}: {{keys: [{keys}]}}"))


KMS = "resources[0].providers[0].kms"


def kms_rule(settings: str) -> str:
    fields = {"name": "k", "endpoint": "'unix:///x'"}
    fields |= dict(pair.split(": ") for pair in settings.split(", ") if pair)
    return rule("secrets", f"kms: {{{', '.join(f'{n}: {v}' for n, v in fields.items())}}}")


def kms(settings: str) -> str:
    return rules(kms_rule(settings))


PLACE = "resources[0].providers[0].aesgcm.keys[0]"

REFUSED: list[tuple[str, str]] = [
    (HEAD, "resources: Required value: at least one resources is required"),
    (HEAD + "resources: [{}]", "[resources[0].resources: Required value: at least one "
     "resources[0].resources is required, resources[0].providers: Required value: at least one "
     "resources[0].providers is required]"),
    (rules(rule("secrets", "")), "resources[0].providers[0]: Invalid value: []: provider does not "
     "contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"),
    (rules(rule("secrets", f"aesgcm: {KEYS}, identity: {{}}")),
     'resources[0].providers[0]: Invalid value: ["aesgcm","identity"]: more than one provider '
     "specified in a single element, should split into different list elements"),
    (keyed(""), "resources[0].providers[0].aesgcm.keys: Required value: at least one keys is "
     "required"),
    (keyed(f"{{secret: {SECRET}}}"),
     f"{PLACE}.name: Required value: name is a mandatory field for a key"),
    (keyed("{name: one}"),
     f"{PLACE}.secret: Required value: secret is a mandatory field for a key"),
    (keyed("{name: one, secret: '?'}"),
     f'{PLACE}.secret: Invalid value: "REDACTED": secrets must be base64 encoded'),
    (keyed("{name: one, secret: c2hvcnQ=}"),
     f'{PLACE}.secret: Invalid value: "REDACTED": secret is not of the expected length, got 5, '
     "expected one of [16 24 32]"),
    (keyed("{name: one, secret: AAAAAAAAAAAAAAAAAAAAAA==}", "secretbox"),
     'resources[0].providers[0].secretbox.keys[0].secret: Invalid value: "REDACTED": secret is '
     "not of the expected length, got 16, expected one of [32]"),
    (rules(rule("Secrets")), 'resources[0].resources[0]: Invalid value: "Secrets": resource name '
     "should not contain capital letters"),
    (rules(rule("'*'")), 'resources[0].resources[0]: Invalid value: "*": use \'*.\' to encrypt '
     "all the resources from core API group or *.* to encrypt all resources"),
    (rules(rule("events.events.k8s.io")), 'resources[0].resources[0]: Invalid value: '
     "\"events.events.k8s.io\": '*.events.k8s.io' objects are stored using the 'events' API group "
     "in etcd. Use 'events' instead in the config file"),
    (rules(rule("ingresses.extensions")), 'resources[0].resources[0]: Invalid value: '
     "\"ingresses.extensions\": 'extensions' group has been removed and cannot be used for "
     "encryption"),
    (rules(rule("'secrets.*'")), 'resources[0].resources[0]: Invalid value: "secrets.*": '
     "encrypting the same resource across groups is not supported"),
    (rules(rule("apiserveripinfo")), 'resources[0].resources[0]: Invalid value: '
     '"apiserveripinfo": resources which do not have REST API/s cannot be encrypted'),
    (rules(rule("secrets, secrets")), 'resources[0].resources: Invalid value: '
     '["secrets","secrets"]: the same resource cannot be specified multiple times'),
    (rules(rule("secrets, '*.'")), 'resources[0].resources: Invalid value: ["secrets","*."]: '
     "using overlapping resources such as 'secrets' and '*.' in the same resource list is not "
     "allowed as they will be masked"),
    (rules(rule("deployments.apps, '*.*'")), "resources[0].resources: Invalid value: "
     '["deployments.apps","*.*"]: using overlapping resources such as \'secrets\' and \'*.\' in '
     "the same resource list is not allowed as they will be masked"),
    (rules(rule("'*.'"), rule("secrets")), 'resource "secrets" is masked by earlier rule "*."'),
    (rules(rule("'*.*'"), rule("'*.apps'")), 'resource "*.apps" is masked by earlier rule "*.*"'),
    (kms("apiVersion: v1"), "KMSv1 is deprecated and will only receive security updates going "
     "forward. Use KMSv2 instead."),
    (kms(""), "KMSv1 is deprecated and will only receive security updates going forward. Use "
     "KMSv2 instead."),
    (kms("apiVersion: v3"), f'{KMS}.apiVersion: Invalid value: "v3": unsupported apiVersion '
     "apiVersion for KMS provider, only v1 and v2 are supported"),
    (kms("apiVersion: v2, name: ''"), f"{KMS}.name: Required value: name is a mandatory field for "
     "a provider"),
    (kms("apiVersion: v2, name: 'a:b'"), f'{KMS}.name: Invalid value: "a:b": invalid KMS provider '
     "name a:b, must not contain ':'"),
    (kms("apiVersion: v2, timeout: 0s"), f'{KMS}.timeout: Invalid value: "0s": timeout should be '
     "a positive value"),
    (kms("apiVersion: v2, endpoint: ''"), f'{KMS}.endpoint: Invalid value: "": endpoint is a '
     "mandatory field for a kms"),
    (kms("apiVersion: v2, endpoint: 'tcp://x'"), f'{KMS}.endpoint: Invalid value: "tcp://x": '
     'unsupported scheme "tcp" for KMS provider, only unix is supported'),
    (kms("apiVersion: v2, cachesize: 9"), f"{KMS}.cachesize: Invalid value: 9: cachesize is not "
     "supported in v2"),
    (kms("apiVersion: v1, cachesize: 0"), f"{KMS}.cachesize: Invalid value: 0: cachesize should "
     "be a positive value, or negative to disable"),
    (rules(kms_rule("apiVersion: v2"), kms_rule("apiVersion: v2")),
     'resources[1].providers[0].kms.name: Invalid value: "k": duplicate KMS provider name k, '
     "names must be unique"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_invalid_configurations(text: str, message: str) -> None:
    """An invalid configuration is refused with kube-apiserver's message, without secrets."""
    with pytest.raises(InvalidEncryptionConfig) as caught:
        parse_encryption_config(text.encode(), "file", no_kms)
    assert str(caught.value) == message


UNREADABLE: list[tuple[str, str]] = [
    ("a: [", "yaml: "),
    ("{}", "Object 'Kind' is missing in '{}'"),
    (HEAD.replace("Configuration", "Configurations"), 'no kind "EncryptionConfigurations" is '
     'registered for version "apiserver.config.k8s.io/v1"'),
    (HEAD.replace("/v1", "/v2"), 'no kind "EncryptionConfiguration" is registered for version '
     '"apiserver.config.k8s.io/v2"'),
    (rules(rule("secrets")) + "more: 1\n", 'strict decoding error: unknown field "more"'),
    (keyed("{name: a, secret: b, file: c}"), "strict decoding error: unknown field "
     f'"{PLACE}.file"'),
    (HEAD + "resources: []\nresources: []\n", "strict decoding error: yaml: unmarshal errors:\n"
     '  line 4: key "resources" already set in map'),
    (HEAD + "resources: {}\n", "json: cannot unmarshal object into Go struct field "
     "EncryptionConfiguration.resources of type "),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), UNREADABLE)
def test_strict_decoding(text: str, message: str) -> None:
    """Unknown and repeated fields, kinds and types are refused, as by a strict decoder."""
    with pytest.raises(InvalidEncryptionConfig) as caught:
        parse_encryption_config(text.encode(), "file", no_kms)
    prefix = f'error decoding encryption provider configuration file "file": {message}'
    assert str(caught.value).startswith(prefix)


def test_missing_files(tmp_path: Path) -> None:
    """The error of a missing or empty file names the file."""
    with pytest.raises(InvalidEncryptionConfig, match=r"^error reading encryption provider"):
        EncryptionFile(tmp_path / "none", ManualClock())
    (tmp_path / "empty").touch()
    with pytest.raises(InvalidEncryptionConfig, match=r'empty" is empty$'):
        EncryptionFile(tmp_path / "empty", ManualClock())


def test_json() -> None:
    """The file may be JSON."""
    text = (
        '{"kind":"EncryptionConfiguration","apiVersion":"apiserver.config.k8s.io/v1","resources":'
        '[{"resources":["secrets"],"providers":[{"identity":{}}]}]}'
    )
    assert list(parse_encryption_config(text.encode(), "file", no_kms)) == [
        GroupResource("", "secrets")
    ]


@pytest.mark.parametrize(
    ("group", "resource", "sealed_with"),
    [
        ("", "secrets", b"secretbox"),
        ("", "configmaps", b"aesgcm"),
        ("apps", "deployments", b"aescbc"),
        ("apps", "daemonsets", b"aesgcm"),
        ("example.com", "things", b"aesgcm"),
    ],
)
def test_precedence(group: str, resource: str, sealed_with: bytes) -> None:
    """A rule for a resource precedes one for its group, which precedes one for all; rules for the
    same resource add their providers."""
    text = rules(
        rule("secrets", f"secretbox: {KEYS}"),
        rule("deployments.apps", f"aescbc: {KEYS}"),
        rule("secrets", f"aescbc: {KEYS}"),
        rule("'*.'", f"aesgcm: {KEYS}"),
        rule("'*.*'", f"aesgcm: {KEYS}"),
    )
    transformer = EncryptionRules(
        parse_encryption_config(text.encode(), "file", no_kms)
    ).transformer_for(group, resource)
    assert transformer is not None
    sealed = transformer.encrypt(b"v", "/key")
    assert sealed.startswith(b"k8s:enc:%b:v1:one:" % sealed_with)
    assert transformer.decrypt(sealed, "/key").value == b"v"


def test_resources_without_a_rule() -> None:
    """A resource without a rule has no transformer, unless the file may be reloaded."""
    overrides = parse_encryption_config(rules(rule("secrets")).encode(), "file", no_kms)
    assert EncryptionRules(overrides).transformer_for("", "pods") is None
    with_reload = EncryptionRules(overrides, replaceable=True)
    pods = with_reload.transformer_for("", "pods")
    assert pods is not None
    assert pods.encrypt(b"v", "/key") == b"v"
    with_reload.replace(parse_encryption_config(rules(rule("'*.*'")).encode(), "file", no_kms))
    assert pods.encrypt(b"v", "/key").startswith(b"k8s:enc:aesgcm:v1:one:")


def test_reload(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With automatic reload a changed file takes effect; an invalid one is logged and ignored.
    Reloads are counted."""
    file, clock, reloads = tmp_path / "config.yaml", ManualClock(), Reloads()
    file.write_text(rules(rule("secrets")))
    watched = EncryptionFile(file, clock, is_reloaded=True, reloads=reloads)
    assert (reloads.hash, reloads.counts.values) == (content_hash(file.read_bytes()), {})

    def rule_of_secrets() -> bytes:
        return watched.encryption.current_transformer(GroupResource("", "secrets")).encrypt(
            b"v", "/k"
        )[:15]

    file.write_text(rules(rule("secrets", f"aescbc: {KEYS}")))
    assert rule_of_secrets() == b"k8s:enc:aesgcm:"
    watched.reload()
    watched.reload()
    assert rule_of_secrets() == b"k8s:enc:aescbc:"
    content = file.read_bytes()
    file.write_text("nonsense")
    with caplog.at_level(logging.ERROR):
        watched.reload()
    assert (reloads.hash, reloads.times.values["failure"]) == (content_hash(content), clock.now())
    assert "error processing encryption config file" in caplog.text
    assert SECRET not in caplog.text
    assert rule_of_secrets() == b"k8s:enc:aescbc:"
    file.write_text(rules(rule("pods")))
    watched.reload()
    assert watched.encryption.current_transformer(GroupResource("", "secrets")) is IDENTITY
    assert reloads.counts.values == {"success": 2, "failure": 1}


def test_no_reload(tmp_path: Path) -> None:
    """Without automatic reload the file is not read again."""
    file = tmp_path / "config.yaml"
    file.write_text(rules(rule("secrets")))
    watched = EncryptionFile(file, ManualClock())
    file.unlink()
    watched.reload()
    assert watched.encryption.current_transformer(GroupResource("", "secrets")) is not IDENTITY
