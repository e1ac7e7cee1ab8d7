"""Writes of custom objects in a version that is not stored, or that has been dropped."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import Credentials, ensure_certificates
from tests.apiserver.conftest import Api, Response
from tests.apiserver.customresources.conversion_webhook import FREE, Webhook, good
from tests.apiserver.customresources.customkit import (
    CRDS,
    apply,
    definition,
    establish,
    path_of,
    version,
    widget,
)


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    config = Config.of(bind_address="hook.default.svc")
    return ensure_certificates(config, Path(tmp_path_factory.mktemp("webhook")))


@pytest.fixture
def webhook(credentials: Credentials) -> Iterator[Webhook]:
    server = Webhook(credentials)
    yield server
    server.end()


def _schema(*names: str, **more: Any) -> Any:
    fields = {name: {"type": "string"} for name in names} | more
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}


def _lossy(request: Any, review: Any) -> Any:
    response = good(request, review)
    for obj in response["convertedObjects"]:
        obj["spec"].pop("foo", None)
    return response


@pytest.fixture(params=["None", "Webhook"])
def old_path(request: pytest.FixtureRequest, api: Api, webhook: Webhook) -> tuple[Any, str]:
    """A definition whose stored version has no field `foo`, and the path of the other version."""
    if request.param == "None":
        stored = _schema("a", added={"type": "string", "default": "x"})
        crd = definition(version("v2", stored), version("v1", _schema("a", "foo"), storage=False))
    else:
        webhook.behave = _lossy
        versions = version("v2", FREE), version("v1", FREE, storage=False)
        crd = definition(*versions, conversion=webhook.conversion())
    establish(api, crd)
    return crd, path_of(crd, "v1")


WRITES: dict[str, Callable[[Api, str, Any, str], Response]] = {
    "put": lambda api, path, obj, query: api.put(f"{path}/a?{query}", obj),
    "patch": lambda api, path, obj, query: api.patch(f"{path}/a?{query}", {"spec": obj["spec"]}),
    "apply": lambda api, path, obj, query: apply(
        api, f"{path}/a", {**obj, "metadata": {"name": "a"}}, "me", f"&force=true&{query}"
    ),
}


def test_create_in_another_version(api: Api, old_path: tuple[Any, str]) -> None:
    """The response of a create has passed through the stored version, in a dry run, too."""
    crd, path = old_path
    body = widget(crd, "a", "v1", spec={"a": "1", "foo": "f"})
    assert api.post(f"{path}?dryRun=All", body).json["spec"] == {"a": "1"}
    applied = apply(api, f"{path}/b", {**body, "metadata": {"name": "b"}}, "me")
    assert (applied.status, applied.json["spec"]) == (201, {"a": "1"})
    created = api.post(path, body).json
    assert created["spec"] == {"a": "1"}
    assert api.get(f"{path}/a").json == created


@pytest.mark.parametrize("write", WRITES)
def test_update_in_another_version(api: Api, old_path: tuple[Any, str], write: str) -> None:
    """The response of an update has passed through the stored version, in a dry run, too. An update
    that changes nothing in the stored version writes nothing."""
    crd, path = old_path
    created = api.post(path, widget(crd, "a", "v1", spec={"a": "1"})).json
    with api.watch(f"{path}?watch=1&resourceVersion={created['metadata']['resourceVersion']}") as s:
        changed = {**created, "spec": {"a": "2", "foo": "f"}}
        dry = WRITES[write](api, path, changed, "dryRun=All")
        assert (dry.status, dry.json["spec"]) == (200, {"a": "2"})
        response = WRITES[write](api, path, changed, "")
        assert (response.status, response.json["spec"]) == (200, {"a": "2"})
        assert s.event()["object"] == response.json
    assert api.get(f"{path}/a").json == response.json


def test_update_of_a_field_that_is_not_stored(api: Api, old_path: tuple[Any, str]) -> None:
    """A PUT of the response writes nothing: a client that compares both does not loop."""
    crd, path = old_path
    created = api.post(path, widget(crd, "a", "v1", spec={"a": "1", "foo": "f"})).json
    assert api.put(f"{path}/a", created).json == created


def test_stored_value_has_known_fields_only(api: Api, webhook: Webhook) -> None:
    """Fields that a conversion webhook adds are pruned by the schema of the stored version."""

    def add(request: Any, review: Any) -> Any:
        response = good(request, review)
        for obj in response["convertedObjects"]:
            if obj["apiVersion"].endswith("/v2"):
                obj["spec"]["unknown"] = "x"
        return response

    webhook.behave = add
    versions = version("v2", _schema("a")), version("v1", FREE, storage=False)
    crd = definition(*versions, conversion=webhook.conversion())
    path = establish(api, crd)
    created = api.post(path_of(crd, "v1"), widget(crd, "a", "v1", spec={"a": "1"})).json
    assert created["spec"] == {"a": "1"}
    assert api.get(f"{path}/a").json["spec"] == {"a": "1"}


def test_managed_fields_of_a_dropped_version(api: Api) -> None:
    """If managedFields name a version that the definition has dropped, an apply is a 500, as by
    kube-apiserver, and an update drops all managedFields."""
    versions = version("v2", FREE), version("v1", FREE, storage=False)
    crd = definition(*versions)
    path = establish(api, crd)
    old = path_of(crd, "v1")
    created = apply(api, f"{old}/a", widget(crd, "a", "v1", spec={"a": "1"}), "me")
    assert created.status == 201, created.body
    group = crd["spec"]["group"]
    remove = [{"op": "remove", "path": "/spec/versions/1"}]
    assert api.patch(f"{CRDS}/{crd['metadata']['name']}", remove, "json").status == 200
    while api.get(old).status != 404:  # until the change is in force
        pass
    for query in ("", "&dryRun=All", "&force=true"):
        config = {**widget(crd, "a", "v2", spec={"a": "2"}), "metadata": {"name": "a"}}
        response = apply(api, f"{path}/a", config, "me", query)
        assert response.status == 500
        assert response.json == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f"request to convert CR to an invalid group/version: {group}/v1",
            "code": 500,
        }
    patched = api.patch(f"{path}/a", {"spec": {"a": "3"}})
    assert (patched.status, patched.json["spec"]) == (200, {"a": "3"})
    assert "managedFields" not in patched.json["metadata"]
