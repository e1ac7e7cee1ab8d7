"""Token review by a webhook, which is a real HTTPS server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.authentication import token_webhook
from kapiserver.apiserver.authentication.token_cache import TokenCache
from kapiserver.apiserver.user import User
from tests.apiserver.authentication.test_jwt import Login, run
from tests.apiserver.proxy.https_server import StatusWebhook
from tests.clock import ManualClock

JANE = {"username": "jane", "uid": "7", "groups": ["a"], "extra": {"k": ["v", "w"]}}


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[StatusWebhook]:
    """A webhook that recognizes every token as Jane's."""
    webhook = StatusWebhook(tmp_path / "webhook", {"authenticated": True, "user": JANE})
    yield webhook
    webhook.server.end()


def settings(webhook: StatusWebhook, **more: Any) -> dict[str, Any]:
    return {
        "authentication_token_webhook_config_file": webhook.file,
        "api_audiences": ("api", "other"),
        **more,
    }


def test_user(webhook: StatusWebhook, tmp_path: Path) -> None:
    """The webhook gets token and audiences, and its user is used."""

    async def check(login: Login) -> None:
        groups = ("a", "system:authenticated")
        extra = {"k": ("v", "w")}
        assert await login.user("t") == User(name="jane", uid="7", groups=groups, extra=extra)
        (review,) = webhook.reviews
        assert review["apiVersion"] == "authentication.k8s.io/v1beta1"
        assert review["spec"] == {"token": "t", "audiences": ["api", "other"]}
        assert await login.status("/version", "t") == 200

    run(tmp_path, None, check, **settings(webhook))


def test_audiences(webhook: StatusWebhook, tmp_path: Path) -> None:
    """The token is valid for the audiences that were requested and that the webhook returns."""
    webhook.status = {"authenticated": True, "user": JANE, "audiences": ["api", "x"]}

    async def check(login: Login) -> None:
        authenticate = login.cluster.server.authenticator.authenticate_token
        assert (await authenticate("t", ["x", "y"])).audiences == ["x"]
        assert (await authenticate("t")).audiences == ["api"]
        webhook.status = {"authenticated": True, "user": JANE, "audiences": ["z"]}
        assert await login.refused("u") == "invalid bearer token"

    version = {"authentication_token_webhook_version": "v1"}
    run(tmp_path, None, check, **settings(webhook, **version))


def test_cache(webhook: StatusWebhook, tmp_path: Path) -> None:
    """A verdict is kept for the TTL, whether it accepts or refuses; concurrent requests with the
    same token share a call; a failed call is not kept."""

    async def check(login: Login) -> None:
        await asyncio.gather(*(login.user("t") for _ in range(5)))
        webhook.status = {"authenticated": False, "error": "no such token"}
        await login.user("t")
        assert await login.refused("u") == "[invalid bearer token, no such token]"
        await login.refused("u")
        assert [review["spec"]["token"] for review in webhook.reviews] == ["t", "u"]
        login.clock.advance(60)
        await login.refused("t")
        webhook.parts = {"kind": "Other"}
        assert "the authentication webhook failed" in await login.refused("v")
        webhook.parts = {}
        await login.refused("v")
        assert len(webhook.reviews) == 5

    ttl = {"authentication_token_webhook_cache_ttl": 60.0}
    run(tmp_path, None, check, **settings(webhook, **ttl))


@pytest.mark.parametrize(
    ("status", "parts"),
    [
        (None, {}),
        ({"authenticated": "true", "user": JANE}, {}),
        ({"authenticated": True, "user": {"username": 7}}, {}),
        ({"authenticated": True, "user": {"username": "a", "groups": "b"}}, {}),
        ({"authenticated": True, "user": {"username": "a", "extra": {"b": "c"}}}, {}),
        ({"authenticated": True, "user": JANE, "audiences": [1]}, {}),
        ({"authenticated": True, "user": JANE}, {"apiVersion": "authentication.k8s.io/v1"}),
        ({"authenticated": True, "user": JANE}, {"kind": "SubjectAccessReview"}),
    ],
)
def test_bad_responses(webhook: StatusWebhook, tmp_path: Path, status: Any, parts: Any) -> None:
    """A response that is not a valid TokenReview authenticates nobody, and is a 401."""
    webhook.status, webhook.parts = status, parts

    async def check(login: Login) -> None:
        assert await login.status("/version", "t") == 401
        assert await login.status("/version", "x" * (1 << 17)) == 401

    run(tmp_path, None, check, **settings(webhook))


def test_too_many_calls(
    webhook: StatusWebhook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens beyond the limit of calls in progress are refused without a call."""
    monkeypatch.setattr(token_webhook, "MAX_CALLS", 1)

    async def check(login: Login) -> None:
        first = asyncio.create_task(login.user("t"))
        await asyncio.sleep(0)
        assert "too many calls" in await login.refused("u")
        assert (await first).name == "jane"
        assert (await login.user("u")).name == "jane"

    run(tmp_path, None, check, **settings(webhook))


def test_token_cache() -> None:
    """The cache drops the entry that was used least recently, and each entry at its time."""
    clock = ManualClock()
    cache: TokenCache[int] = TokenCache(clock, max_entries=2)
    for number, token in enumerate("abc"):
        cache.put(token, number, until=clock.now() + 10)
        cache.get("a")
    assert [cache.get(token) for token in "abc"] == [0, None, 2]
    cache.put("d", 3, until=clock.now())
    assert cache.get("d") is None
    clock.advance(10)
    assert [cache.get(token) for token in "ac"] == [None, None]
    cache.put("\ud800", 4, until=clock.now() + 1)
    assert cache.get("\ud800") == 4
