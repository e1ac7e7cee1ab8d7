"""Forged, expired and revoked service account tokens: each is answered with 401, although anonymous
requests are accepted."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from kapiserver.apiserver.authentication.authenticator import InvalidCredentials
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.user import APISERVER
from kapiserver.cluster import Cluster, open_cluster
from kapiserver.parts import Parts
from tests.clock import ManualClock

ISSUER = "https://issuer.example.com"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def pem(key: Any) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def public_pem(key: Any) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


async def _no_body(_limit: int) -> bytes:
    return b""


class RobotCluster:
    """A server without sockets, whose tokens an RSA key signs, and objects to bind them to."""

    def __init__(self, cluster: Cluster, clock: ManualClock) -> None:
        self.cluster = cluster
        self.clock = clock
        self.client = cluster.server.client(APISERVER, authorize=False)

    def resource(self, plural: str) -> Any:
        namespace = "" if plural == "nodes" else "default"
        return self.client.resource("v1", plural, namespace=namespace)

    async def create(self, plural: str, name: str, **parts: Any) -> Any:
        return await self.resource(plural).create({"metadata": {"name": name}, **parts})

    async def request_token(self, reference: Any = None, seconds: int = 600) -> str:
        spec = {"expirationSeconds": seconds, "boundObjectRef": reference}
        accounts = self.resource("serviceaccounts")
        created = await accounts.create(
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
            name="robot",
            subresource="token",
        )
        token: str = created["status"]["token"]
        return token

    async def status(self, token: str) -> int:
        request = Request(
            method="GET",
            path="/version",
            query={},
            headers={"Authorization": f"Bearer {token}"},
            info=parse_request_info("GET", "/version", {}),
            read_body=_no_body,
        )
        return (await self.cluster.handle(request)).status

    async def identity(self, token: str) -> Any:
        return await self.cluster.server.authenticator.authenticate_token(token)


def run(folder: Path, check: Callable[[RobotCluster], Awaitable[None]], **settings: Any) -> None:
    """Run a check against a server with a service account `robot`, a Pod, a Secret and a Node."""
    (folder / "sa.key").write_bytes(pem(RSA_KEY))

    async def main() -> None:
        clock = ManualClock()
        config = Config.of(
            cert_dir=folder, service_account_issuer=(ISSUER,), api_audiences=("api",),
            service_account_signing_key_file=folder / "sa.key",
            authorization_mode=("AlwaysAllow",), **settings,
        )  # fmt: skip
        async with open_cluster(config, Parts(clock=clock)) as cluster:
            tested = RobotCluster(cluster, clock)
            namespaces = tested.client.resource("v1", "namespaces")
            await namespaces.create({"metadata": {"name": "default"}})
            await tested.create("serviceaccounts", "robot")
            await tested.create("nodes", "n")
            await tested.create("secrets", "s")
            spec = {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]}
            spec["nodeName"] = "n"
            await tested.create("pods", "p", spec=spec)
            await check(tested)

    asyncio.run(main())


def segments(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    head, payload, _ = token.split(".")
    decoded = [base64.urlsafe_b64decode(part + "==") for part in (head, payload)]
    return json.loads(decoded[0]), json.loads(decoded[1])


def signed(claims: Any, key: Any = RSA_KEY, algorithm: str | None = "RS256", **header: Any) -> str:
    return jwt.encode(claims, key, algorithm=algorithm, headers=header)


def signed_bytes(header: bytes, payload: bytes) -> str:
    """A token with exactly these bytes, signed with the right key."""
    parts = [base64.urlsafe_b64encode(part).rstrip(b"=") for part in (header, payload)]
    algorithm = jwt.get_algorithm_by_name("RS256")
    signature = algorithm.sign(b".".join(parts), RSA_KEY)
    return b".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


def flipped(token: str) -> str:
    head, payload, signature = token.split(".")
    data = bytearray(base64.urlsafe_b64decode(signature + "=="))
    data[7] ^= 1
    return f"{head}.{payload}.{base64.urlsafe_b64encode(data).rstrip(b'=').decode()}"


def hmac_with_public_key(claims: Any, kid: str) -> str:
    """A token whose HMAC secret is the RSA public key; PyJWT refuses to make one."""
    header = {"alg": "HS256", "kid": kid}
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in (header, claims)
    ]
    import hashlib
    import hmac

    digest = hmac.new(public_pem(RSA_KEY), b".".join(parts), hashlib.sha256).digest()
    return b".".join([*parts, base64.urlsafe_b64encode(digest).rstrip(b"=")]).decode()


Forge = Callable[[dict[str, Any], dict[str, Any], str], str]

FORGERIES: dict[str, Forge] = {
    "alg none": lambda head, claims, _: signed(claims, None, None, kid=head["kid"]),
    "HS256 with the public key": lambda head, claims, _: hmac_with_public_key(claims, head["kid"]),
    "another key": lambda head, claims, _: signed(claims, OTHER_KEY, kid=head["kid"]),
    "another kind of key": lambda head, claims, _: signed(claims, EC_KEY, "ES256", kid=head["kid"]),
    "another RSA algorithm": lambda head, claims, _: signed(
        claims, RSA_KEY, "PS256", kid=head["kid"]
    ),
    "wrong kid": lambda _head, claims, _: signed(claims, kid="other"),
    "wrong audience": lambda head, claims, _: signed(claims | {"aud": "x"}, kid=head["kid"]),
    "no audience": lambda head, claims, _: signed(claims | {"aud": []}, kid=head["kid"]),
    "wrong issuer": lambda head, claims, _: signed(claims | {"iss": "https://x"}, kid=head["kid"]),
    "issuer is a list": lambda head, claims, _: signed_bytes(
        json.dumps(head).encode(), json.dumps(claims | {"iss": [ISSUER]}).encode()
    ),
    "expired": lambda head, claims, _: signed(claims | {"exp": claims["iat"] - 61}, **head),
    "no expiry": lambda head, claims, _: signed_bytes(
        json.dumps(head).encode(),
        json.dumps({name: value for name, value in claims.items() if name != "exp"}).encode(),
    ),
    "expiry NaN": lambda head, claims, _: signed_bytes(
        json.dumps(head).encode(), json.dumps(claims | {"exp": float("nan")}).encode()
    ),
    "not yet valid": lambda head, claims, _: signed(claims | {"nbf": claims["iat"] + 61}, **head),
    "wrong subject": lambda head, claims, _: signed(
        claims | {"sub": "system:serviceaccount:default:admin"}, **head
    ),
    "no private claims": lambda head, claims, _: signed(claims | {"kubernetes.io": 1}, **head),
    "account without name": lambda head, claims, _: signed(
        claims | {"kubernetes.io": {"namespace": "default", "serviceaccount": {}}}, **head
    ),
    "signature bit flipped": lambda _head, _claims, token: flipped(token),
    "no signature": lambda _head, _claims, token: token.rpartition(".")[0] + ".",
    "padded": lambda _head, _claims, token: token + "==",
    "duplicate claims": lambda head, claims, _: signed_bytes(
        json.dumps(head).encode(), b'{"sub":"x",' + json.dumps(claims).encode()[1:]
    ),
    "duplicate header": lambda head, claims, _: signed_bytes(
        b'{"alg":"none",' + json.dumps(head).encode()[1:], json.dumps(claims).encode()
    ),
    "crit header": lambda head, claims, _: signed_bytes(
        json.dumps(head | {"crit": ["exp"], "exp": 1}).encode(), json.dumps(claims).encode()
    ),
    "crit header that PyJWT knows": lambda head, claims, _: signed_bytes(
        json.dumps(head | {"crit": ["b64"], "b64": True}).encode(), json.dumps(claims).encode()
    ),
    "unencoded payload": lambda head, claims, _: signed_bytes(
        json.dumps(head | {"b64": False}).encode(), json.dumps(claims).encode()
    ),
    "huge": lambda head, claims, _: signed(claims | {"x": "y" * (1 << 20)}, **head),
    "deep": lambda head, claims, _: signed_bytes(
        json.dumps(head).encode(), b"[" * 20_000 + b"]" * 20_000
    ),
    "not base64": lambda _head, _claims, token: token.replace(".", ".!", 1),
    "not ASCII": lambda _head, _claims, token: token + "\u00e9",
    "junk": lambda _head, _claims, _token: "a.b.c",
}


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
def test_forgeries(tmp_path: Path) -> None:
    """No forged token gets in; the token from which they are made does, and the same claims signed
    again with the right key do."""

    async def check(tested: RobotCluster) -> None:
        token = await tested.request_token()
        head, claims = segments(token)
        assert await tested.status(token) == 200
        assert await tested.status(signed(claims, kid=head["kid"])) == 200
        accepted = [
            name
            for name, forge in FORGERIES.items()
            if await tested.status(forge(head, claims, token)) != 401
        ]
        assert accepted == []

    run(tmp_path, check)


@pytest.mark.parametrize("plural", ["pods", "secrets", "nodes", "serviceaccounts"])
def test_deleted_objects(tmp_path: Path, plural: str) -> None:
    """A token is refused as soon as its account, or the object it is bound to, is deleted; a new
    object of the same name doesn't help."""
    name = {"pods": "p", "secrets": "s", "nodes": "n", "serviceaccounts": "robot"}[plural]
    kind = {"pods": "Pod", "secrets": "Secret", "nodes": "Node"}.get(plural)

    async def check(tested: RobotCluster) -> None:
        reference = {"apiVersion": "v1", "kind": kind, "name": name} if kind else None
        token = await tested.request_token(reference)
        assert await tested.status(token) == 200
        objects = tested.resource(plural)
        spec = (await objects.get(name)).get("spec") or {}
        await objects.delete(name, gracePeriodSeconds=0)
        assert await tested.status(token) == 401
        with pytest.raises(InvalidCredentials, match="has been invalidated"):
            await tested.identity(token)
        await tested.create(plural, name, **({"spec": spec} if plural == "pods" else {}))
        assert await tested.status(token) == 401

    run(tmp_path, check)


def test_expiry_of_verified_tokens(tmp_path: Path) -> None:
    """The cache of verified signatures doesn't outlive the expiry."""

    async def check(tested: RobotCluster) -> None:
        token = await tested.request_token()
        assert await tested.status(token) == 200
        tested.clock.advance(661)
        assert await tested.status(token) == 401

    run(tmp_path, check)


def test_extra(tmp_path: Path) -> None:
    """The user of a token has the identifier of the token, and the Pod and Node that it is bound
    to."""

    async def check(tested: RobotCluster) -> None:
        pod = await tested.resource("pods").get("p")
        node = await tested.resource("nodes").get("n")
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
        token = await tested.request_token(reference)
        prefix = "authentication.kubernetes.io"
        of_node = {
            f"{prefix}/node-name": ("n",),
            f"{prefix}/node-uid": (node["metadata"]["uid"],),
        }
        extra = (await tested.identity(token)).user.extra
        assert extra == {
            f"{prefix}/credential-id": (f"JTI={segments(token)[1]['jti']}",),
            f"{prefix}/pod-name": ("p",),
            f"{prefix}/pod-uid": (pod["metadata"]["uid"],),
            **of_node,
        }
        token = await tested.request_token({"apiVersion": "v1", "kind": "Node", "name": "n"})
        extra = (await tested.identity(token)).user.extra
        assert {name: value for name, value in extra.items() if "credential" not in name} == of_node

    run(tmp_path, check)


def test_extended_expiry(tmp_path: Path) -> None:
    """The token of a Pod's volume lives for a year. Its use after the hour is marked in the audit
    log."""
    pod = {"apiVersion": "v1", "kind": "Pod", "name": "p"}

    async def check(tested: RobotCluster) -> None:
        token = await tested.request_token(pod, 3607)
        claims = segments(token)[1]
        assert claims["exp"] - claims["iat"] == 365 * 24 * 3600
        assert claims["kubernetes.io"]["warnafter"] == claims["iat"] + 3607
        assert (await tested.identity(token)).annotations == {}
        tested.clock.advance(3617)
        (annotation,) = (await tested.identity(token)).annotations.items()
        text = "subject: system:serviceaccount:default:robot, seconds after warning threshold: 10"
        assert annotation == ("authentication.k8s.io/stale-token", text)
        for reference, seconds in ((pod, 3600), (None, 3607)):
            claims = segments(await tested.request_token(reference, seconds))[1]
            assert claims["exp"] - claims["iat"] == seconds

    run(tmp_path, check)


def test_expiry_is_not_extended(tmp_path: Path) -> None:
    """Without --service-account-extend-token-expiration no token is extended; with
    --service-account-max-token-expiration none lives longer."""

    async def check(tested: RobotCluster) -> None:
        pod = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
        for seconds, granted in ((3607, 3607), (8000, 7200)):
            claims = segments(await tested.request_token(pod, seconds))[1]
            assert claims["exp"] - claims["iat"] == granted

    run(
        tmp_path,
        check,
        service_account_extend_token_expiration=False,
        service_account_max_token_expiration=7200.0,
    )


def test_several_keys(tmp_path: Path) -> None:
    """Tokens of every key in the key files are accepted; new tokens have the signing key."""
    (tmp_path / "old.pub").write_bytes(public_pem(OTHER_KEY) + public_pem(EC_KEY))

    async def check(tested: RobotCluster) -> None:
        head, claims = segments(await tested.request_token())
        published = [key.id for key in tested.cluster.server.service_account_tokens.keys]  # type: ignore[union-attr]
        assert head["kid"] == published[0]
        _, other, elliptic = published
        assert await tested.status(signed(claims, OTHER_KEY, kid=other)) == 200
        assert await tested.status(signed(claims, EC_KEY, "ES256", kid=elliptic)) == 200
        assert await tested.status(signed(claims, OTHER_KEY, kid=elliptic)) == 401

    run(tmp_path, check, service_account_key_file=(tmp_path / "old.pub",))


def test_token_metrics(tmp_path: Path) -> None:
    """Valid and stale tokens of Pods are counted."""

    async def check(tested: RobotCluster) -> None:
        pod = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
        token = await tested.request_token(pod, 3607)
        await tested.identity(token)
        tested.clock.advance(3700)
        await tested.identity(token)
        await tested.identity(token)
        counts = tested.cluster.server.metrics.authentication.account_tokens.values
        assert counts == {"valid": 1, "stale": 2}

    run(tmp_path, check)
