"""JSON Web Tokens of OpenID Connect issuers: real HTTPS servers with keys of their own."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from kapiserver.apiserver.authentication.authenticator import InvalidCredentials
from kapiserver.apiserver.authentication.jwt import keys as jwt_keys
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from kapiserver.apiserver.user import APISERVER, User
from kapiserver.cluster import Cluster, open_cluster
from kapiserver.parts import Parts
from tests.apiserver.proxy.https_server import HttpsServer, Received, Reply
from tests.clock import ManualClock

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
NOW = int(ManualClock().now())


def jwk(key: Any, kid: str, **parts: Any) -> dict[str, Any]:
    kind: Any = jwt.algorithms.ECAlgorithm
    if isinstance(key, rsa.RSAPrivateKey):
        kind = jwt.algorithms.RSAAlgorithm
    return {**kind.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig", **parts}


class Issuer:
    """An issuer of tokens: serves its discovery document and its keys over HTTPS."""

    def __init__(self, folder: Path) -> None:
        self.keys: Any = [jwk(RSA_KEY, "one"), jwk(EC_KEY, "two")]
        self.document: dict[str, Any] = {}
        self.headers: dict[str, str] = {}
        credentials = ensure_certificates(Config(), folder)
        self.server = HttpsServer(credentials, self.respond)
        self.url = self.server.url
        self.ca = credentials.ca
        self.fetches: list[str] = []

    def respond(self, received: Received) -> Reply:
        self.fetches.append(received.path)
        if received.path == "/keys" and received.headers.get("accept", "*/*") != "*/*":
            return Reply(status=406)  # as kube-apiserver, whose keys are application/jwk-set+json
        if received.path == "/keys" and self.keys is not None:
            return Reply({"keys": self.keys}, headers=self.headers)
        if received.path in ("/.well-known/openid-configuration", "/elsewhere"):
            return Reply({"issuer": self.url, "jwks_uri": f"{self.url}/keys", **self.document})
        return Reply(status=404)

    def token(
        self, claims: Any = None, key: Any = RSA_KEY, kid: str = "one", algorithm: str = "RS256"
    ) -> str:
        all_claims = {
            "iss": self.url, "aud": "me", "sub": "jane", "exp": NOW + 600, "iat": NOW, "nbf": NOW,
        } | (claims or {})  # fmt: skip
        return jwt.encode(all_claims, key, algorithm=algorithm, headers={"kid": kid})

    def authenticator(self, **parts: Any) -> dict[str, Any]:
        issuer = {
            "url": self.url,
            "audiences": ["me"],
            "certificateAuthority": self.ca.read_text(),
        } | parts.pop("issuer", {})
        mappings = {"username": {"claim": "sub", "prefix": "x:"}} | parts.pop("mappings", {})
        return {"issuer": issuer, "claimMappings": mappings, **parts}


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    """An issuer with an RSA key `one` and an ECDSA key `two`."""
    issuer = Issuer(tmp_path / "issuer")
    yield issuer
    issuer.server.end()


def configuration(*authenticators: Any, **parts: Any) -> str:
    tree = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": list(authenticators),
        **parts,
    }
    return json.dumps(tree)


class Login:
    """Authenticates tokens and requests with the authenticators of an cluster."""

    def __init__(self, cluster: Cluster, clock: ManualClock, file: Path) -> None:
        self.cluster = cluster
        self.clock = clock
        self.file = file

    async def user(self, token: str) -> User:
        return (await self.cluster.server.authenticator.authenticate_token(token)).user

    async def refused(self, token: str) -> str:
        with pytest.raises(InvalidCredentials) as caught:
            await self.user(token)
        return str(caught.value)

    async def status(self, path: str, token: str = "") -> int:
        async def no_body(_limit: int) -> bytes:
            return b""

        request = Request(
            method="GET",
            path=path,
            query={},
            headers={"Authorization": f"Bearer {token}"} if token else {},
            info=parse_request_info("GET", path, {}),
            read_body=no_body,
        )
        return (await self.cluster.handle(request)).status


def run(
    folder: Path, text: str | None, check: Callable[[Login], Awaitable[None]], **settings: Any
) -> None:
    """Run a check with the authenticators of a configuration file."""
    file = folder / "authentication.json"
    if text is not None:
        file.write_text(text)
        settings["authentication_config"] = file

    async def main() -> None:
        clock = ManualClock()
        async with open_cluster(
            Config.of(authorization_mode=("AlwaysAllow",), **settings), Parts(clock=clock)
        ) as cluster:
            cluster.authentication.start(cluster.server.client(APISERVER, authorize=False))
            try:
                await check(Login(cluster, clock, file))
            finally:
                await cluster.authentication.stop()
                for _ in range(20):  # later turns of the loop close the connections
                    await asyncio.sleep(0)

    asyncio.run(main())


def test_login(issuer: Issuer, tmp_path: Path) -> None:
    """Tokens that one of the issuer's keys signed authenticate; the keys are fetched once."""

    async def check(login: Login) -> None:
        user = await login.user(issuer.token({"jti": "j"}))
        extra = {"authentication.kubernetes.io/credential-id": ("JTI=j",)}
        assert user == User(name="x:jane", groups=("system:authenticated",), extra=extra)
        user = await login.user(issuer.token({"sub": "joe"}, EC_KEY, "two", "ES256"))
        assert user.name == "x:joe"
        assert await login.status("/version", issuer.token()) == 200
        assert await login.status("/version", issuer.token({"aud": "you"})) == 401
        assert issuer.fetches == ["/.well-known/openid-configuration", "/keys"]
        series = login.cluster.server.metrics.authentication.jwt_seconds.values
        counts = {labels[0]: sum(each.counts) for labels, each in series.items()}
        assert counts == {"success": 3, "failure": 1}

    run(tmp_path, configuration(issuer.authenticator()), check)


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (lambda i: i.token({"aud": "you"}), "expected audience not found"),
        (lambda i: i.token({"aud": []}), "expected audience not found"),
        (lambda i: i.token({"exp": NOW - 1}), "token has expired"),
        (lambda i: i.token({"exp": None}), "no valid exp"),
        (lambda i: i.token({"nbf": NOW + 61}), "not valid yet"),
        (lambda i: i.token(key=OTHER_RSA_KEY), "failed to verify signature"),
        (lambda i: i.token(kid="two"), "failed to verify signature"),
        (lambda i: i.token(kid="three"), "failed to verify signature"),
        (lambda i: i.token(key="k" * 32, algorithm="HS256"), "failed to verify signature"),
        (lambda i: i.token(key=None, algorithm="none"), "failed to verify signature"),
        (lambda i: i.token({"sub": 7}, kid="one"), "parse username claims"),
        (lambda i: i.token({"iss": "https://other"}), "^invalid bearer token$"),
        (lambda i: i.token({"x": "y" * (1 << 17)}), "^invalid bearer token$"),
    ],
)
def test_forgeries(issuer: Issuer, tmp_path: Path, forge: Any, reason: str) -> None:
    """A token that is wrong in one way is refused, with a reason for the log."""

    async def check(login: Login) -> None:
        token = forge(issuer)
        with pytest.raises(InvalidCredentials, match=reason):
            await login.user(token)
        assert await login.status("/version", token) == 401

    run(tmp_path, configuration(issuer.authenticator()), check)


DISCOVERY = "/.well-known/openid-configuration"


def test_rotation(issuer: Issuer, tmp_path: Path) -> None:
    """A new key is fetched as soon as a token names it, without discovery; a removed one is
    forgotten within the hour. Tokens with a wrong audience or time cause no fetch."""

    async def check(login: Login) -> None:
        await login.user(issuer.token())
        issuer.keys = [jwk(OTHER_RSA_KEY, "new")]
        new = issuer.token({"exp": NOW + 9000}, OTHER_RSA_KEY, "new")
        assert (await login.user(new)).name == "x:jane"
        assert issuer.fetches == [DISCOVERY, "/keys", "/keys"]
        for claims in ({"exp": NOW - 1}, {"nbf": NOW + 600}, {"aud": "another"}):
            await login.refused(issuer.token(claims, kid="junk"))
        assert issuer.fetches == [DISCOVERY, "/keys", "/keys"]
        await login.refused(issuer.token({"jti": "not in the cache of tokens"}))
        issuer.keys = []
        login.clock.advance(3601)
        await login.user(new)  # the keys are fetched in the background
        assert issuer.fetches[3:] == ["/keys"]

    run(tmp_path, configuration(issuer.authenticator()), check)


def test_shared_fetch(issuer: Issuer, tmp_path: Path) -> None:
    """Requests that need the same fetch share it."""

    async def check(login: Login) -> None:
        await login.user(issuer.token())
        junk = [issuer.token(kid=f"junk{number}") for number in range(20)]
        await asyncio.gather(*map(login.refused, junk))
        assert issuer.fetches == [DISCOVERY, "/keys", "/keys"]

    run(tmp_path, configuration(issuer.authenticator()), check)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Cache-Control": "public, max-age=600"}, 600),
        ({"Cache-Control": 'max-age=1, S-MaxAge="600"'}, 600),
        ({"Cache-Control": "max-age=x", "Expires": "Tue, 14 Nov 2023 22:33:20 GMT"}, 0),
        (
            {"Date": "Tue, 14 Nov 2023 22:23:20 GMT", "Expires": "Tue, 14 Nov 2023 22:33:20 GMT"},
            600,
        ),
        ({"Expires": "0"}, 0),
        ({"Last-Modified": "Tue, 14 Nov 2023 20:33:20 GMT"}, 600),
        ({"Last-Modified": "Tue, 14 Nov 2000 20:33:20 GMT"}, 86400),
        ({"Cache-Control": "no-store"}, 0),
    ],
)
def test_fresh_keys(issuer: Issuer, tmp_path: Path, headers: Any, seconds: int) -> None:
    """While the response of the last fetch is fresh, but for its last 30 seconds, no token causes
    another one."""
    issuer.headers = headers

    async def check(login: Login) -> None:
        await login.user(issuer.token())
        issuer.keys = [jwk(OTHER_RSA_KEY, "new")]
        new = issuer.token({"exp": NOW + 90000}, OTHER_RSA_KEY, "new")
        if seconds:
            login.clock.advance(min(seconds - 30, 3599))
            await login.refused(new)
            assert len(issuer.fetches) == 2
            login.clock.advance(seconds - min(seconds - 30, 3599))
        await login.user(new)

    run(tmp_path, configuration(issuer.authenticator()), check)


@pytest.mark.parametrize("kid", ["one", ""])
def test_rotation_without_a_new_name(issuer: Issuer, tmp_path: Path, kid: str) -> None:
    """A new key is fetched too when it has the name of the old one, or tokens name none."""

    async def check(login: Login) -> None:
        await login.user(issuer.token(kid=kid))
        assert "failed to verify signature" in await login.refused(
            issuer.token(key=OTHER_RSA_KEY, kid=kid)
        )
        issuer.keys = [jwk(OTHER_RSA_KEY, kid)]
        await login.user(issuer.token(key=OTHER_RSA_KEY, kid=kid))

    run(tmp_path, configuration(issuer.authenticator()), check)


def test_verified_tokens_expire(issuer: Issuer, tmp_path: Path) -> None:
    """The cache of verified tokens outlives no token."""

    async def check(login: Login) -> None:
        token = issuer.token({"exp": NOW + 5})
        await login.user(token)
        login.clock.advance(5)
        await login.user(token)
        login.clock.advance(1)
        assert "token has expired" in await login.refused(token)

    run(tmp_path, configuration(issuer.authenticator()), check)


def test_issuer_is_down(issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An issuer that is slow, down or gives wrong documents fails its own tokens only, after a
    bounded time, and is asked again later."""
    monkeypatch.setattr(jwt_keys, "WAIT_SECONDS", 0.1)
    other = Issuer(tmp_path / "other")

    def wait(_: Received) -> Reply:
        other.server.over.wait(20)
        return Reply({})

    other.server.respond = wait

    async def check(login: Login) -> None:
        await asyncio.sleep(0)
        assert "not initialized" in await login.refused(other.token())
        monkeypatch.setattr(jwt_keys, "WAIT_SECONDS", 60.0)
        assert (await login.user(issuer.token())).name == "x:jane"
        other.server.over.set()
        await login.refused(other.token())  # waits for the fetch that hung
        for document in ({"issuer": "https://x"}, {"jwks_uri": "http://x"}, {"jwks_uri": 1}):
            other.server.respond = other.respond
            other.document = document
            login.clock.advance(10)
            assert "not initialized" in await login.refused(other.token())
        other.document = {}
        login.clock.advance(10)
        assert (await login.user(other.token())).name == "x:jane"

    try:
        run(tmp_path, configuration(issuer.authenticator(), other.authenticator()), check)
    finally:
        other.server.end()


def test_unusable_keys(issuer: Issuer, tmp_path: Path) -> None:
    """Keys for encryption, private and symmetric keys, and broken ones are ignored."""
    private = jwt.algorithms.RSAAlgorithm.to_jwk(RSA_KEY, as_dict=True)
    issuer.keys = [
        jwk(RSA_KEY, "one", use="enc"),
        {**private, "kid": "one"},
        {"kty": "oct", "k": "AAAA", "kid": "one"},
        {"kty": "RSA", "n": 1, "e": "AQAB", "kid": "one"},
        {"kty": "EC", "crv": "P-256", "x": "!", "y": "!", "kid": "one"},
        jwk(RSA_KEY, "one", alg="RS512"),
        jwk(RSA_KEY, "one", alg="none"),
        "key",
        jwk(EC_KEY, "two"),
    ]  # type: ignore[list-item]

    async def check(login: Login) -> None:
        await login.user(issuer.token(key=EC_KEY, kid="two", algorithm="ES256"))
        assert "failed to verify" in await login.refused(issuer.token())

    run(tmp_path, configuration(issuer.authenticator()), check)


def test_discovery_url(issuer: Issuer, tmp_path: Path) -> None:
    """The discovery document may be elsewhere."""
    other = {"discoveryURL": f"{issuer.url}/elsewhere"}

    async def check(login: Login) -> None:
        await login.user(issuer.token())
        assert issuer.fetches == ["/elsewhere", "/keys"]

    run(tmp_path, configuration(issuer.authenticator(issuer=other)), check)


def test_expressions(issuer: Issuer, tmp_path: Path) -> None:
    """Name, groups, uid and extra fields may come from CEL expressions."""
    mappings = {
        "username": {"expression": "claims.sub + '@' + claims.realm"},
        "groups": {"expression": "claims.roles.split(',')"},
        "uid": {"expression": "string(claims.number)"},
        "extra": [
            {"key": "example.com/one", "valueExpression": "claims.realm"},
            {"key": "example.com/many", "valueExpression": "claims.?list.orValue([])"},
        ],
    }

    async def check(login: Login) -> None:
        claims = {"realm": "r", "roles": "a,b", "number": 7, "big": 1 << 70}
        user = await login.user(issuer.token(claims))
        assert (user.name, user.uid) == ("jane@r", "7")
        assert user.groups == ("a", "b", "system:authenticated")
        assert user.extra == {"example.com/one": ("r",)}
        user = await login.user(issuer.token(claims | {"list": ["p", "", "q"]}))
        assert user.extra["example.com/many"] == ("p", "q")
        assert "no such key: realm" in await login.refused(issuer.token())
        wrong = issuer.token(claims | {"list": [1]})
        assert "must return a string or a list of strings" in await login.refused(wrong)

    run(tmp_path, configuration(issuer.authenticator(mappings=mappings)), check)


def test_rules(issuer: Issuer, tmp_path: Path) -> None:
    """Claims must have required values and satisfy the conditions; the user must satisfy its
    own."""
    parts: Any = {
        "claimValidationRules": [
            {"claim": "hd", "requiredValue": "example.com"},
            {"expression": "claims.exp - claims.nbf <= 3600", "message": "too long"},
        ],
        "userValidationRules": [
            {"expression": "!user.username.startsWith('x:system:')", "message": "reserved"},
            {"expression": "user.groups.all(group, !group.startsWith('system:'))"},
        ],
        "mappings": {"groups": {"claim": "groups", "prefix": ""}},
    }

    async def check(login: Login) -> None:
        good = {"hd": "example.com"}
        user = await login.user(issuer.token(good | {"groups": "one"}))
        assert user.groups == ("one", "system:authenticated")
        user = await login.user(issuer.token(good | {"groups": None}))
        assert user.groups == ("system:authenticated",)
        for claims, reason in (
            ({}, "required claim hd not present in ID token"),
            ({"hd": "x"}, "required claim hd value does not match"),
            ({"hd": ["example.com"]}, "required claim hd value does not match"),
            (good | {"exp": NOW + 7200}, "claims.nbf <= 3600' failed: too long"),
            (good | {"sub": "system:admin"}, "failed: reserved"),
            (good | {"groups": ["a", "system:x"]}, "startsWith('system:'))' failed"),
            (good | {"groups": [1]}, "parse groups claim"),
        ):
            assert reason in await login.refused(issuer.token(claims))

    run(tmp_path, configuration(issuer.authenticator(**parts)), check)


def test_several_audiences(issuer: Issuer, tmp_path: Path) -> None:
    """With MatchAny one of several audiences is enough."""
    audiences = {"audiences": ["me", "us"], "audienceMatchPolicy": "MatchAny"}

    async def check(login: Login) -> None:
        for audience in ("me", "us", ["you", "us"]):
            await login.user(issuer.token({"aud": audience}))
        await login.refused(issuer.token({"aud": "you"}))

    run(tmp_path, configuration(issuer.authenticator(issuer=audiences)), check)


def test_anonymous_paths(tmp_path: Path) -> None:
    """Anonymous requests are accepted for the paths of the configuration, and refused with a wrong
    credential even there."""
    anonymous = {"enabled": True, "conditions": [{"path": "/livez"}, {"path": "/version"}]}

    async def check(login: Login) -> None:
        assert await login.status("/version") == 200
        assert await login.status("/version", "junk") == 401
        assert await login.status("/version/x") == 401
        assert await login.status("/api") == 401

    run(tmp_path, configuration(anonymous=anonymous), check)


def test_flags(issuer: Issuer, tmp_path: Path) -> None:
    """The --oidc-* flags configure one issuer; names have the issuer's URL before them unless the
    prefix is -."""
    flags: dict[str, Any] = {
        "oidc_issuer_url": issuer.url,
        "oidc_client_id": "me",
        "oidc_ca_file": issuer.ca,
        "oidc_groups_claim": "groups",
        "oidc_groups_prefix": "g:",
        "oidc_required_claim": (("hd", "x"),),
    }

    async def check(login: Login) -> None:
        user = await login.user(issuer.token({"groups": ["a"], "hd": "x"}))
        assert user.name == f"{issuer.url}#jane"
        assert user.groups == ("g:a", "system:authenticated")
        await login.refused(issuer.token())
        elliptic = issuer.token({"hd": "x"}, EC_KEY, "two", "ES256")
        assert "failed to verify" in await login.refused(elliptic)

    run(tmp_path, None, check, **flags)

    async def check_email(login: Login) -> None:
        for verified, name in ((True, "a@b"), (None, ""), (False, ""), ("true", "")):
            token = issuer.token({"hd": "x", "email": "a@b", "email_verified": verified})
            if name:
                assert (await login.user(token)).name == name
            else:
                assert "email not verified" in await login.refused(token)
        assert (await login.user(issuer.token({"hd": "x", "email": "c@d"}))).name == "c@d"

    run(tmp_path, None, check_email, **flags, oidc_username_claim="email")
