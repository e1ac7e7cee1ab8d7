"""Secrets of type `kubernetes.io/service-account-token`: filled, valid as long as they and their
account exist, and deleted with the account."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime

import jwt
import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.user import APISERVER
from kapiserver.app import serve
from tests.controllers.waiting import until_gone, wait_until

TYPE = "kubernetes.io/service-account-token"
NAME, UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
LAST_USED = "kubernetes.io/legacy-token-last-used"


def token_secret(account="robot", name="s", **annotations):
    metadata = {"name": name, "annotations": {NAME: account, **annotations}}
    return {"metadata": metadata, "type": TYPE}


def decoded(obj, key):
    return base64.b64decode(obj["data"][key]).decode()


def is_filled(obj):
    return obj is not None and "token" in (obj.get("data") or {})


def review(api, token, *audiences):
    """The status of a TokenReview."""
    body = {"spec": {"token": token, "audiences": audiences}}
    return api.post("/apis/authentication.k8s.io/v1/tokenreviews", body).json["status"]


@pytest.fixture
def account(api, core):
    """The uid of the service account `robot`."""
    response = api.post(f"{core}/serviceaccounts", {"metadata": {"name": "robot"}})
    return response.json["metadata"]["uid"]


@pytest.fixture
def secret(api, core, account):
    """A Secret that the controller has filled."""
    assert api.post(f"{core}/secrets", token_secret()).status == 201
    return wait_until(api, f"{core}/secrets", "s", is_filled)


def test_filled(api, account, secret, namespace):
    """The controller writes token and namespace, and the uid of the account."""
    assert decoded(secret, "namespace") == namespace
    assert "ca.crt" not in secret["data"]  # without HTTPS there is no CA
    assert secret["metadata"]["annotations"] == {NAME: "robot", UID: account}
    managers = [each.get("manager") for each in secret["metadata"]["managedFields"]]
    assert "kube-controller-manager" in managers
    claims = jwt.decode(decoded(secret, "token"), options={"verify_signature": False})
    prefix = "kubernetes.io/serviceaccount"
    assert claims == {
        "iss": "kubernetes/serviceaccount",
        "sub": f"system:serviceaccount:{namespace}:robot",
        f"{prefix}/namespace": namespace,
        f"{prefix}/secret.name": "s",
        f"{prefix}/service-account.name": "robot",
        f"{prefix}/service-account.uid": account,
    }


def test_certificate():
    """With HTTPS the Secret has the CA of the server. The token authenticates requests, whose audit
    events are marked."""

    async def no_body(_limit):
        return b""

    async def run():
        async with serve(Config.of(secure_port=0)) as running:
            client = running.cluster.server.client(APISERVER)
            accounts = client.resource("v1", "serviceaccounts", namespace="default")
            await accounts.create({"metadata": {"name": "robot"}})
            secrets = client.resource("v1", "secrets", namespace="default")
            await secrets.create(token_secret())
            async with asyncio.timeout(60):
                async for event in secrets.watch(fieldSelector="metadata.name=s"):
                    if is_filled(event.object):
                        break
            assert decoded(event.object, "ca.crt") == running.ca_file.read_text()
            request = Request(
                method="GET",
                path="/api",
                query={},
                headers={"Authorization": f"Bearer {decoded(event.object, 'token')}"},
                info=parse_request_info("GET", "/api", {}),
                read_body=no_body,
            )
            user = await running.cluster.server.authenticator.authenticate(request)
            assert user.name == "system:serviceaccount:default:robot"
            assert request.audit.annotations == {"authentication.k8s.io/legacy-token": user.name}

    asyncio.run(run())


def test_restored(api, core, secret):
    """A token that is removed from the Secret is written again; another value stays."""
    secrets = f"{core}/secrets"
    api.patch(f"{secrets}/s", {"data": {"token": None}})
    refilled = wait_until(api, secrets, "s", is_filled)
    assert review(api, decoded(refilled, "token"))["authenticated"] is True
    own = base64.b64encode(b"mine").decode()
    api.patch(f"{secrets}/s", {"data": {"token": own, "namespace": None}})
    restored = wait_until(api, secrets, "s", lambda obj: "namespace" in obj["data"])
    assert decoded(restored, "token") == "mine"
    assert "authenticated" not in review(api, decoded(refilled, "token"))


def test_review(api, core, account, secret, namespace):
    """The token belongs to the account, for the audiences of the server, and the Secret records
    the day of its use."""
    token = decoded(secret, "token")
    status = review(api, token)
    assert status["authenticated"] is True
    assert status["audiences"] == ["https://kubernetes.default.svc.cluster.local"]
    user = status["user"]
    assert (user["username"], user["uid"]) == (f"system:serviceaccount:{namespace}:robot", account)
    assert "extra" not in user
    assert "authenticated" not in review(api, token, "other")
    assert "authenticated" not in review(api, token[:-4] + "AAAA")
    labels = api.get(f"{core}/secrets/s").json["metadata"]["labels"]
    assert labels[LAST_USED] in {datetime.now(UTC).strftime("%Y-%m-%d"), _yesterday()}


def _yesterday():
    return datetime.fromtimestamp(datetime.now(UTC).timestamp() - 86400, UTC).strftime("%Y-%m-%d")


def test_marked_invalid(api, core, secret):
    """A token of a Secret that is labeled as invalid is refused."""
    labels = {"kubernetes.io/legacy-token-invalid-since": "2024-01-01"}
    api.patch(f"{core}/secrets/s", {"metadata": {"labels": labels}})
    assert "authenticated" not in review(api, decoded(secret, "token"))


def test_deleted_secret(api, core, secret):
    """The token is invalid after the Secret is deleted, and the account no longer refers to it."""
    account = f"{core}/serviceaccounts/robot"
    api.patch(account, {"secrets": [{"name": "s"}, {"name": "other"}]})
    api.delete(f"{core}/secrets/s")
    assert "authenticated" not in review(api, decoded(secret, "token"))
    wait_until(
        api,
        f"{core}/serviceaccounts",
        "robot",
        lambda obj: obj["secrets"] == [{"name": "other"}],
    )


def test_deleted_account(api, core, secret):
    """The Secret is deleted with its account; an account of the same name is another one."""
    api.delete(f"{core}/serviceaccounts/robot")
    until_gone(api, f"{core}/secrets", "s")
    assert api.post(f"{core}/serviceaccounts", {"metadata": {"name": "robot"}}).status == 201
    assert "authenticated" not in review(api, decoded(secret, "token"))


def test_no_account(api, core, account):
    """A Secret is refused without the name of an account, and deleted unless the account of that
    name and uid exists."""
    response = api.post(f"{core}/secrets", {"metadata": {"name": "s"}, "type": TYPE})
    assert response.status == 422
    assert response.message.endswith(f"metadata.annotations[{NAME}]: Required value")
    for name, body in (
        ("a", token_secret("none", "a")),
        ("b", token_secret("robot", "b", **{UID: "other"})),
    ):
        assert api.post(f"{core}/secrets", body).status == 201
        until_gone(api, f"{core}/secrets", name)
    assert api.post(f"{core}/secrets", token_secret("robot", "c", **{UID: account})).status == 201
    wait_until(api, f"{core}/secrets", "c", is_filled)
