"""Who asks."""

from pathlib import Path

import pytest

from kapiserver.apiserver.authentication.union import (
    Authentication,
    BadTokenFile,
    bearer_token,
    read_tokens,
)
from kapiserver.apiserver.authentication.user import ANONYMOUS, UNSECURED, User
from kapiserver.apiserver.authorization.forbidden import forbidden_message
from kapiserver.apiserver.errors import Unauthorized
from kapiserver.apiserver.request import Certificate, Request
from kapiserver.apiserver.request_info import parse_request_info

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
def users(tmp_path: Path) -> Authentication:
    """Two users with tokens."""
    (tmp_path / "tokens").write_text(TOKENS)
    return Authentication(tokens=read_tokens(tmp_path / "tokens"))


def test_tokens(users: Authentication) -> None:
    """A token of the file names its user; any other is refused."""
    found = users.user_of(_request(authorization="Bearer secret"))
    groups = ("admins", "devs", "system:authenticated")
    assert found == User(name="ann", uid="1", groups=groups)
    assert users.user_of(_request(authorization="bearer  other")).name == "bob"
    with pytest.raises(Unauthorized):
        users.user_of(_request(authorization="Bearer wrong"))


def test_certificates(users: Authentication) -> None:
    """A certificate's subject is the user, and goes before a token."""
    shown = Certificate(common_name="eve", organizations=("system:masters",))
    found = users.user_of(_request(certificate=shown, authorization="Bearer secret"))
    assert found == User(name="eve", groups=("system:masters", "system:authenticated"))


def test_nobody(users: Authentication) -> None:
    """Who shows nothing is anonymous, where that is allowed."""
    assert users.user_of(_request()) is ANONYMOUS
    assert users.user_of(_request(user=UNSECURED)) is UNSECURED
    with pytest.raises(Unauthorized):
        Authentication(anonymous=False).user_of(_request())


@pytest.mark.parametrize("line", ["token", "token,name", ",name,uid", "token,,uid"])
def test_bad_token_files(tmp_path: Path, line: str) -> None:
    """A line that is no token, name and uid is refused with its number."""
    (tmp_path / "tokens").write_text(f"a,b,c\n{line}\n")
    with pytest.raises(BadTokenFile, match="line 2"):
        read_tokens(tmp_path / "tokens")


@pytest.mark.parametrize(
    ("header", "token"),
    [("Bearer a", "a"), ("BEARER a b", "a b"), ("Basic a", ""), ("Bearer", ""), ("", "")],
)
def test_bearer_tokens(header: str, token: str) -> None:
    """Only the Bearer scheme carries a token."""
    assert bearer_token(header) == token


@pytest.mark.parametrize(
    ("path", "words"),
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
def test_refusals(path: str, words: str) -> None:
    """A refusal says who cannot do what, in kube-apiserver's words."""
    info = _request(path).info
    assert forbidden_message(ANONYMOUS, info, "") == words
    assert forbidden_message(ANONYMOUS, info, "no") == f"{words}: no"
