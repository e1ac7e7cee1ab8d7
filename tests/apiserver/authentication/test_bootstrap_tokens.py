"""Bootstrap tokens: Secrets that authenticate joining nodes, and are deleted when they expire."""

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.user import APISERVER, User
from tests.apiserver.authentication.test_jwt import Login, run
from tests.clock import ManualClock

TOKEN = "abcdef.0123456789abcdef"
DATA = {
    "token-id": "abcdef",
    "token-secret": "0123456789abcdef",
    "usage-bootstrap-authentication": "true",
}


def time_after(seconds: float) -> str:
    moment = datetime.fromtimestamp(ManualClock().now() + seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


async def create(
    login: Login, data: Any, name: str = "bootstrap-token-abcdef", **parts: Any
) -> Any:
    client = login.cluster.server.client(APISERVER, authorize=False)
    namespaces = client.resource("v1", "namespaces")
    await namespaces.create({"metadata": {"name": "kube-system"}})
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    secrets = client.resource("v1", "secrets", namespace="kube-system")
    type_ = parts.pop("type", "bootstrap.kubernetes.io/token")
    await secrets.create(
        {"metadata": {"name": "bootstrap-token-abcdef", **parts}, "type": type_, "data": encoded}
    )
    return secrets


def test_token(tmp_path: Path) -> None:
    """A token has the user of its id and the groups of its Secret, until it expires or is
    deleted."""
    data = DATA | {
        "expiration": time_after(60),
        "auth-extra-groups": "system:bootstrappers:b,system:bootstrappers:a",
    }

    async def check(login: Login) -> None:
        assert await login.refused(TOKEN) == "invalid bearer token"
        secrets = await create(login, data)
        groups = (
            "system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b",
            "system:authenticated",
        )  # fmt: skip
        assert await login.user(TOKEN) == User(name="system:bootstrap:abcdef", groups=groups)
        for wrong in ("abcdef.0123456789abcdeg", "abcdeg.0123456789abcdef", TOKEN.upper()):
            assert await login.status("/version", wrong) == 401
        login.clock.advance(60)
        assert "has expired" in await login.refused(TOKEN)
        await secrets.delete("bootstrap-token-abcdef")
        assert await login.refused(TOKEN) == "invalid bearer token"

    run(tmp_path, None, check, enable_bootstrap_token_auth=True)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"usage-bootstrap-authentication": "false"}, {}),
        ({"token-id": "bbbbbb"}, {}),
        ({"token-secret": "0123456789abcdee"}, {}),
        ({"expiration": time_after(0)}, {}),
        ({"expiration": "tomorrow"}, {"type": "bootstrap.kubernetes.io/token"}),
        ({"auth-extra-groups": "system:masters"}, {}),
        ({"auth-extra-groups": "system:bootstrappers:a,"}, {}),
        ({"auth-extra-groups": "system:bootstrappers:a:"}, {}),
        ({}, {"type": "Opaque"}),
        ({}, {"finalizers": ["example.com/wait"]}),
    ],
)
def test_unusable_tokens(tmp_path: Path, change: Any, parts: Any) -> None:
    """A Secret that is not for authentication, has expired, is being deleted or has other groups
    than bootstrap ones authenticates nobody."""

    async def check(login: Login) -> None:
        secrets = await create(login, DATA | change, **parts)
        if "finalizers" in parts:
            assert await login.status("/version", TOKEN) == 200
            await secrets.delete("bootstrap-token-abcdef")
        assert await login.status("/version", TOKEN) == 401

    run(tmp_path, None, check, enable_bootstrap_token_auth=True)


def test_off_by_default(tmp_path: Path) -> None:
    """Without --enable-bootstrap-token-auth no bootstrap token is accepted."""

    async def check(login: Login) -> None:
        await create(login, DATA)
        assert await login.status("/version", TOKEN) == 401

    run(tmp_path, None, check)
