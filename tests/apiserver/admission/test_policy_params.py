"""Parameters of policies that are custom objects, which a webhook converts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from tests.apiserver.admission.policykit import Cluster
from tests.apiserver.conftest import Api
from tests.apiserver.customresources.conversion_webhook import FREE, Raw, Webhook
from tests.apiserver.customresources.customkit import definition, establish, version, widget


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[Webhook]:
    server = Webhook(ensure_certificates(Config.of(bind_address="hook.default.svc"), tmp_path))
    yield server
    server.end()


def people(api: Api, webhook: Webhook) -> dict[str, str]:
    """Define a kind of people and create one. Returns a paramKind in the other version."""
    versions = (version("v1", FREE), version("v1beta1", FREE, storage=False))
    crd = definition(*versions, conversion=webhook.conversion(), scope="Cluster")
    spec = {"first": "Ada", "last": "Lovelace"}
    assert api.post(establish(api, crd), widget(crd, "ada", spec=spec)).status == 201
    return {"apiVersion": f"{crd['spec']['group']}/v1beta1", "kind": "Widget"}


@pytest.mark.parametrize("reference", [{"name": "ada"}, {"selector": {}}], ids=["name", "selector"])
def test_converted_params(api: Api, webhook: Webhook, reference: dict[str, object]) -> None:
    """A policy reads parameters in the version of its paramKind."""
    cluster = Cluster(api)
    cluster.validate(
        "object.data.a == params.spec.name",
        paramKind=people(api, webhook),
        binding={"paramRef": {**reference, "parameterNotFoundAction": "Deny"}},
    )
    assert cluster.config_map("a", data={"a": "Ada Lovelace"}).status == 201
    assert cluster.config_map("b", data={"a": "Ada"}).status == 422


def test_failing_conversion_of_params(api: Api, webhook: Webhook) -> None:
    """Parameters that cannot be converted refuse the write, unless failures are ignored."""
    webhook.behave = lambda *_: Raw(b"", status=500)
    param_kind = people(api, webhook)
    binding = {"paramRef": {"name": "ada", "parameterNotFoundAction": "Deny"}}
    cluster, other = Cluster(api), Cluster(api)
    cluster.validate("true", paramKind=param_kind, binding=binding)
    response = cluster.config_map()
    assert response.status == 422
    assert "denied request: failed to configure binding: conversion webhook" in response.message
    other.validate("true", paramKind=param_kind, binding=binding, failurePolicy="Ignore")
    assert other.config_map().status == 201


def test_failing_conversion_of_the_object(api: Api, webhook: Webhook) -> None:
    """An object that cannot be converted for a mutating policy refuses the write, unless failures
    are ignored."""
    webhook.behave = lambda *_: Raw(b"", status=500)
    group, _, version_name = people(api, webhook)["apiVersion"].partition("/")
    resource = {"apiGroups": [group], "apiVersions": [version_name], "resources": ["widgets"]}
    body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "b"}}
    path, cluster = f"/apis/{group}/v1/widgets?dryRun=All", Cluster(api)
    mutation = "[JSONPatch{op: 'add', path: '/a', value: 1}]"
    cluster.mutate(mutation, resource=resource, failurePolicy="Ignore")
    assert api.post(path, body).status == 201
    name = cluster.mutate(mutation, resource=resource)
    response = api.post(path, body)
    assert response.status == 403
    prefix = f'policy "{name}" denied request: failed to configure policy: '
    assert response.message.startswith(f"{prefix}Internal error occurred: conversion webhook")
