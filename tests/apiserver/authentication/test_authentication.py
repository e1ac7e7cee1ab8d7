"""Authentication, and the message of refused requests."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from kapiserver.apiserver.authentication.authenticator import InvalidCredentials, bearer_token
from kapiserver.apiserver.authentication.token_file import (
    BadTokenFile,
    TokenFileAuthenticator,
    read_token_file,
)
from kapiserver.apiserver.authentication.union import UnionAuthenticator
from kapiserver.apiserver.authorization.forbidden import forbidden_message
from kapiserver.apiserver.errors import Unauthorized
from kapiserver.apiserver.request import Certificate, Request
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.user import ANONYMOUS, UNSECURED, User

TOKENS = """\
# token, user, uid, groups
secret,ann,1,"admins,devs"
other , bob , 2
"""


async def _no_body(limit: int) -> bytes:
    return b""


def _request(path: str = "/api/v1/pods", user: User = ANONYMOUS, **more) -> Request:
    headers = {"Authorization": more.pop("authorization", "")}
    return Request(
        method="GET",
        path=path,
        query={},
        headers=headers,
        info=parse_request_info("GET", path, {}),
        read_body=_no_body,
        user=user,
        **more,
    )


@pytest.fixture
def union(tmp_path: Path) -> UnionAuthenticator:
    """A union with two users in a token file."""
    (tmp_path / "tokens").write_text(TOKENS)
    users = read_token_file(tmp_path / "tokens")
    return UnionAuthenticator([TokenFileAuthenticator(users, ["api", "other"])])


def _user(union: UnionAuthenticator, request: Request) -> User:
    return asyncio.run(union.authenticate(request))


def test_tokens(union: UnionAuthenticator) -> None:
    """A token of the file authenticates its user; any other token is refused."""
    user = _user(union, _request(authorization="Bearer secret"))
    groups = ("admins", "devs", "system:authenticated")
    assert user == User(name="ann", uid="1", groups=groups)
    assert _user(union, _request(authorization="bearer  other")).name == "bob"
    with pytest.raises(Unauthorized):
        _user(union, _request(authorization="Bearer wrong"))


def test_token_audiences(union: UnionAuthenticator) -> None:
    """A token of the file is valid for the server's audiences. A check for given audiences returns
    those that are also the server's."""

    def audiences(*requested: str) -> Sequence[str] | None:
        try:
            identity = asyncio.run(union.authenticate_token("secret", requested))
        except InvalidCredentials:
            return None
        return identity.audiences

    assert audiences() == ["api", "other"]
    assert audiences("elsewhere", "other") == ["other"]
    assert audiences("elsewhere") is None
    with pytest.raises(InvalidCredentials, match=r"^invalid bearer token$"):
        asyncio.run(union.authenticate_token("wrong"))


def test_certificates(union: UnionAuthenticator) -> None:
    """The subject of a certificate is the user, and wins over a token."""
    certificate = Certificate(
        common_name="eve", organizations=("system:masters",), sha256="0f" * 32
    )
    user = _user(union, _request(certificate=certificate, authorization="Bearer secret"))
    extra = {"authentication.kubernetes.io/credential-id": (f"X509SHA256={'0f' * 32}",)}
    groups = ("system:masters", "system:authenticated")
    assert user == User(name="eve", groups=groups, extra=extra)


def test_certificates_without_name(union: UnionAuthenticator) -> None:
    """A certificate without a common name authenticates no user."""
    assert _user(union, _request(certificate=Certificate(common_name=""))) is ANONYMOUS


def test_anonymous(union: UnionAuthenticator) -> None:
    """A request without credentials is anonymous, unless that is turned off."""
    assert _user(union, _request()) is ANONYMOUS
    assert _user(union, _request(user=UNSECURED)) is UNSECURED
    with pytest.raises(Unauthorized):
        _user(UnionAuthenticator(anonymous=None), _request())


@pytest.mark.parametrize("line", ["token", "token,name", ",name,uid", "token,,uid"])
def test_bad_token_files(tmp_path: Path, line: str) -> None:
    """The error for a line without token, name and uid names the line."""
    (tmp_path / "tokens").write_text(f"a,b,c\n{line}\n")
    with pytest.raises(BadTokenFile, match="line 2"):
        read_token_file(tmp_path / "tokens")


@pytest.mark.parametrize(
    ("header", "token"),
    [("Bearer a", "a"), ("BEARER a b", "a b"), ("Basic a", ""), ("Bearer", ""), ("", "")],
)
def test_bearer_tokens(header: str, token: str) -> None:
    """Only the Bearer scheme has a token."""
    assert bearer_token(_request(authorization=header)) == token


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/api/v1/namespaces/n/pods",
         'User "system:anonymous" cannot list resource "pods" in API group "" '
         'in the namespace "n"'),
        ("/apis/apps/v1/namespaces/n/deployments/d/status",
         'User "system:anonymous" cannot get resource "deployments/status" in API group "apps" '
         'in the namespace "n"'),
        ("/api/v1/nodes",
         'User "system:anonymous" cannot list resource "nodes" in API group "" '
         "at the cluster scope"),
        ("/metrics", 'User "system:anonymous" cannot get path "/metrics"'),
    ],
)  # fmt: skip
def test_forbidden_messages(path: str, message: str) -> None:
    """The message names the user, the verb and the resource, as in kube-apiserver."""
    info = _request(path).info
    assert forbidden_message(ANONYMOUS, info, "") == message
    assert forbidden_message(ANONYMOUS, info, "no") == f"{message}: no"
