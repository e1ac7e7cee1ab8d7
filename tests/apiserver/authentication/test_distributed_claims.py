"""Groups that a token has as a distributed claim, from real HTTPS servers. The cases follow
oidc_test.go of Kubernetes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.authentication.jwt.distributed_claims import (
    MAX_ISSUERS,
    DistributedClaims,
)
from tests.apiserver.authentication.test_jwt import (
    EC_KEY,
    NOW,
    OTHER_RSA_KEY,
    Issuer,
    Login,
    configuration,
    run,
)
from tests.apiserver.proxy.https_server import Received, Reply
from tests.clock import ManualClock

NAMES = {"_claim_names": {"groups": "src"}}


class ClaimsIssuer(Issuer):
    """An issuer whose endpoint /claims returns the token `reply`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.reply: Any = self.token({"groups": ["dev", "ops"]})
        self.code = 200
        self.authorization: list[str] = []

    def respond(self, received: Received) -> Reply:
        if received.path.startswith("/claims"):
            self.authorization.append(received.headers.get("authorization", ""))
            return Reply(self.reply.encode(), status=self.code)
        return super().respond(received)

    def sources(self, **source: Any) -> dict[str, Any]:
        return {"_claim_sources": {"src": {"endpoint": f"{self.url}/claims", **source}}}


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[ClaimsIssuer]:
    issuer = ClaimsIssuer(tmp_path / "issuer")
    yield issuer
    issuer.server.end()


def text_of(issuer: ClaimsIssuer) -> str:
    mappings = {"groups": {"claim": "groups", "prefix": "oidc:"}}
    return configuration(issuer.authenticator(mappings=mappings))


def test_groups(issuer: ClaimsIssuer, tmp_path: Path) -> None:
    """The groups are those of the token that the endpoint returns for the access token. They are
    fetched once while the token is known."""

    async def check(login: Login) -> None:
        token = issuer.token({**NAMES, **issuer.sources(access_token="secret")})
        for _ in range(2):
            user = await login.user(token)
            assert user.groups == ("oidc:dev", "oidc:ops", "system:authenticated")
        assert issuer.authorization == ["Bearer secret"]
        login.clock.time += 11
        issuer.reply = issuer.token({"groups": "one"})
        assert (await login.user(token)).groups == ("oidc:one", "system:authenticated")
        es256_token = issuer.token({**NAMES, **issuer.sources()}, EC_KEY, "two", "ES256")
        assert (await login.user(es256_token)).groups[0] == "oidc:one"
        assert issuer.authorization == ["Bearer secret"] * 2 + [""]

    run(tmp_path, text_of(issuer), check)


PLAIN: list[dict[str, Any]] = [
    {"groups": ["own"], **NAMES, "_claim_sources": {"src": {"endpoint": "https://x"}}},
    {"groups": ["own"], "_claim_sources": {}},
]


def test_not_distributed(issuer: ClaimsIssuer, tmp_path: Path) -> None:
    """A claim in the token itself wins; a source without an endpoint, and sources of other claims,
    give no groups."""

    async def check(login: Login) -> None:
        for claims in PLAIN:
            user = await login.user(issuer.token(claims))
            assert user.groups == ("oidc:own", "system:authenticated")
        for claims in (
            {**NAMES, "_claim_sources": {"src": {"JWT": "a.b.c"}}},
            {"_claim_names": {"other": "src"}, **issuer.sources()},
        ):
            assert (await login.user(issuer.token(claims))).groups == ("system:authenticated",)
        assert not issuer.authorization

    run(tmp_path, text_of(issuer), check)


REFUSED: list[tuple[dict[str, Any], str]] = [
    (NAMES, "oidc: no claim sources"),
    ({"_claim_names": [], "_claim_sources": {}}, "oidc: error parsing distributed claim names"),
    ({**NAMES, "_claim_sources": []}, "oidc: could not parse claim sources"),
    ({**NAMES, "_claim_sources": {"src": 1}}, "oidc: could not parse claim sources"),
    ({**NAMES, "_claim_sources": {"other": {}}},
     "id token _claim_names contained a source src missing in _claims_sources"),
    ({**NAMES, "_claim_sources": {"src": {"endpoint": "http://x"}}}, "is not an HTTPS URL"),
    ({**NAMES, "_claim_sources": {"src": {"endpoint": 1}}}, "is not an HTTPS URL"),
    ({**NAMES, "_claim_sources": {"src": {"endpoint": "https://x", "access_token": "a\nb"}}},
     "could not parse claim sources"),
]  # fmt: skip


@pytest.mark.parametrize(("claims", "message"), REFUSED)
def test_refused_sources(
    issuer: ClaimsIssuer, tmp_path: Path, claims: dict[str, Any], message: str
) -> None:
    """A token with bad sources is refused."""

    async def check(login: Login) -> None:
        text = await login.refused(issuer.token(claims))
        assert "oidc: could not expand distributed claims: " in text
        assert message in text

    run(tmp_path, text_of(issuer), check)


def test_refused_replies(issuer: ClaimsIssuer, tmp_path: Path) -> None:
    """The token of the endpoint must be signed by its issuer, for the same audience, be valid now
    and have the claim."""
    token = issuer.token({**NAMES, **issuer.sources()})
    foreign = issuer.token({"iss": "http://127.0.0.1", "groups": ["x"]})
    replies = [
        ("no token", "not in a JSON Web Token"),
        (foreign, "not in a JSON Web Token"),
        (issuer.token({"groups": ["x"]}, OTHER_RSA_KEY), "failed to verify signature"),
        (issuer.token({"groups": ["x"], "aud": "you"}), "audience not found"),
        (issuer.token({"groups": ["x"], "exp": NOW - 1}), "token has expired"),
        (issuer.token({"others": ["x"]}), "did not contain claim: groups"),
        (issuer.token({"groups": [1]}), "no list of strings"),
    ]

    async def check(login: Login) -> None:
        for issuer.reply, message in replies:
            assert message in await login.refused(token)
        issuer.reply, issuer.code = issuer.token({"groups": ["x"]}), 500
        assert "could not expand distributed claims" in await login.refused(token)
        issuer.code = 200
        assert (await login.user(token)).groups[0] == "oidc:x"

    run(tmp_path, text_of(issuer), check)


def test_bounded_issuers() -> None:
    """The keys of the issuers that were needed last are kept."""

    async def check() -> None:
        claims = DistributedClaims({"audiences": ["me"]}, "groups", ManualClock(), ["RS256"])
        keys = [await claims._keys_of(f"https://{number}") for number in range(MAX_ISSUERS + 1)]
        assert await claims._keys_of("https://1") is keys[1]
        assert await claims._keys_of("https://0") is not keys[0]
        await claims.stop()

    asyncio.run(check())


def test_stop_during_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that needs the keys of another issuer while the authenticator stops fails nothing,
    and its fetch ends, too."""

    async def check() -> None:
        claims = DistributedClaims({"audiences": ["me"]}, "groups", ManualClock(), ["RS256"])
        first = await claims._keys_of("https://first")
        stop, stopped = first.stop, []

        async def stop_slowly() -> None:
            stopped.append(await claims._keys_of("https://second"))
            await stop()

        monkeypatch.setattr(first, "stop", stop_slowly)
        await claims.stop()
        assert stopped
        assert not claims._keys

    asyncio.run(check())
