"""Tokens of service accounts: requests, reviews, bound objects and expiry."""

import asyncio
import base64
import json
from pathlib import Path

import jwt
import pytest

from kapiserver.api.group import GroupVersion
from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.authentication.authenticator import InvalidCredentials
from kapiserver.apiserver.authentication.service_accounts.authenticator import (
    ServiceAccountAuthenticator,
)
from kapiserver.apiserver.authentication.service_accounts.tokens import ServiceAccountTokens
from kapiserver.apiserver.config import Config
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.cache.query import DeleteQuery
from kapiserver.storage.objects.store_registry import StoreRegistry
from kapiserver.storage.sqlite.embedded_store import open_embedded
from tests.clock import ManualClock

ISSUER = "https://kubernetes.default.svc.cluster.local"
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture
def account(api, core):
    """The path of a service account."""
    assert api.post(f"{core}/serviceaccounts", {"metadata": {"name": "robot"}}).status == 201
    return f"{core}/serviceaccounts/robot"


def claims_of(token):
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def test_token(api, account, namespace):
    """A token contains the account and the issuer; the published key verifies it."""
    response = api.post(f"{account}/token", {"spec": {"audiences": ["me"]}})
    (entry,) = response.json["metadata"]["managedFields"]
    assert (entry["apiVersion"], entry["subresource"]) == ("authentication.k8s.io/v1", "token")
    assert entry["fieldsV1"] == {"f:spec": {"f:audiences": {}, "f:expirationSeconds": {}}}
    assert response.status == 201
    body = response.json
    assert body["kind"] == "TokenRequest"
    assert body["spec"] == {"audiences": ["me"], "expirationSeconds": 3600, "boundObjectRef": None}
    key = jwt.PyJWK(api.get("/openid/v1/jwks", accept="*/*").json["keys"][0])
    token_claims = jwt.decode(body["status"]["token"], key, audience="me", issuer=ISSUER)
    assert token_claims["sub"] == f"system:serviceaccount:{namespace}:robot"
    assert token_claims["exp"] - token_claims["iat"] == 3600
    uid = api.get(account).json["metadata"]["uid"]
    assert token_claims["kubernetes.io"] == {
        "namespace": namespace, "serviceaccount": {"name": "robot", "uid": uid},
    }  # fmt: skip


def test_review(api, account, namespace):
    """A TokenReview returns the account if the token has one of the audiences."""
    spec = {"audiences": ["me", "you"]}
    token = api.post(f"{account}/token", {"spec": spec}).json["status"]["token"]

    def review(*audiences):
        body = {"spec": {"token": token, "audiences": audiences}}
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        return api.post(path, body).json["status"]

    status = review("you", "they")
    assert status["authenticated"] is True
    assert status["audiences"] == ["you"]
    assert status["user"]["username"] == f"system:serviceaccount:{namespace}:robot"
    assert "authenticated" not in review()
    assert "authenticated" not in review("they")


def test_openid(api):
    """The discovery document has the issuer and the URL of the keys."""
    configuration = api.get("/.well-known/openid-configuration").json
    assert configuration["issuer"] == ISSUER
    assert configuration["jwks_uri"].endswith("/openid/v1/jwks")
    assert api.get("/openid/v2").status == 404


def test_bound(api, account, core):
    """A token can be bound to a pod of the account, but not to a pod of another account, a missing
    pod or a job."""
    spec = {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]}
    api.post(f"{core}/pods", {"metadata": {"name": "p"}, "spec": spec})
    api.post(
        f"{core}/pods",
        {"metadata": {"name": "q"}, "spec": spec | {"serviceAccountName": "default"}},
    )

    def ask(**reference):
        return api.post(f"{account}/token", {"spec": {"boundObjectRef": reference}})

    response = ask(kind="Pod", apiVersion="v1", name="p")
    uid = api.get(f"{core}/pods/p").json["metadata"]["uid"]
    claims = claims_of(response.json["status"]["token"])
    assert claims["kubernetes.io"]["pod"] == {"name": "p", "uid": uid}
    assert ask(kind="Pod", apiVersion="v1", name="q").status == 400
    assert ask(kind="Pod", apiVersion="v1", name="p", uid="other").status == 409
    assert ask(kind="Pod", apiVersion="v1", name="none").status == 404
    response = ask(kind="Job", apiVersion="batch/v1", name="j")
    assert response.message == "cannot bind token to object of type batch/v1, Kind=Job"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"spec": {"expirationSeconds": 599}},
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 "
            "minutes",
        ),
        (
            {"metadata": {"name": "other"}, "spec": {}},
            'metadata.name: Invalid value: "other": must match the service account name if '
            "specified",
        ),
    ],
)
def test_refused(api, account, body, message):
    """Invalid token requests are a 422."""
    response = api.post(f"{account}/token", body)
    assert response.status == 422
    assert response.message.endswith(f"is invalid: {message}")


def test_missing_account(api, core):
    """A token request for a missing account is a 404."""
    assert api.post(f"{core}/serviceaccounts/none/token", {"spec": {}}).status == 404


async def user_of(users, token):
    """The user of a token, or None if it is refused or not recognized."""
    try:
        identity = await users.authenticate_token(token)
    except InvalidCredentials:
        return None
    return identity and identity.user


def test_validity(tmp_path: Path):
    """A token is valid until it expires, or its account or a bound object is deleted."""

    async def run():
        clock = ManualClock()
        kv = await open_embedded(None, clock=clock)
        scheme = Scheme()
        stores = StoreRegistry(kv, scheme, CodecFactory(scheme), clock, Offloader())
        config = Config.of(cert_dir=tmp_path, api_audiences=("api",))
        tokens = ServiceAccountTokens(config, clock)
        users = ServiceAccountAuthenticator(tokens, stores, clock)
        core = GroupVersion("", "v1")

        async def create(resource, kind, name, **rest):
            metadata = {"name": name, "namespace": "n"}
            tree = {"kind": kind, "apiVersion": "v1", "metadata": metadata, **rest}
            return (await stores.by_name(core, resource).create(tree)).entry.tree()

        account = await create("serviceaccounts", "ServiceAccount", "robot")
        secret = await create("secrets", "Secret", "s", type="Opaque")
        plain = tokens.sign(account, (), ["api"], 600).text
        bound = tokens.sign(account, [("secret", secret)], ["api"], 600).text
        user = await user_of(users, plain)
        assert user.name == "system:serviceaccount:n:robot"
        assert user.uid == account["metadata"]["uid"]
        assert user.groups == (
            "system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated",
        )  # fmt: skip
        restarted = ServiceAccountAuthenticator(  # reads the same key file
            ServiceAccountTokens(config, clock), stores, clock
        )
        assert await user_of(restarted, bound) is not None
        assert await user_of(users, tokens.sign(account, (), ["other"], 600).text) is None
        other_issuer = ServiceAccountTokens(Config.of(api_audiences=("api",)), clock)
        assert await user_of(users, other_issuer.sign(account, (), ["api"], 600).text) is None
        for junk in ("", "a.b.c", plain[:-4] + "AAAA", plain.replace(".", "")):
            assert await user_of(users, junk) is None
        unsigned = jwt.encode(jwt.decode(plain, options={"verify_signature": False}), None, "none")
        assert await user_of(users, unsigned) is None
        await stores.by_name(core, "secrets").delete(ObjectKey("n", "s"), DeleteQuery())
        assert await user_of(users, bound) is None
        assert await user_of(users, plain) is not None
        clock.advance(661)
        assert await user_of(users, plain) is None
        fresh = tokens.sign(account, (), ["api"], 600).text
        await stores.by_name(core, "serviceaccounts").delete(ObjectKey("n", "robot"), DeleteQuery())
        await create("serviceaccounts", "ServiceAccount", "robot")
        assert await user_of(users, fresh) is None  # another account of the same name
        stores.stop()
        await kv.close()

    asyncio.run(run())
