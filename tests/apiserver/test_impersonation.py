"""Impersonate-* headers: whom they name, and what the caller must be allowed to do."""

from __future__ import annotations

import pytest

from kapiserver.apiserver.authentication.impersonation import parse_impersonation
from kapiserver.apiserver.authentication.user import User
from kapiserver.apiserver.errors import BadRequest

ROBOT = "system:serviceaccount:shop:robot"
USERS = [
    ({"Impersonate-User": "jane"}, User(name="jane", groups=("system:authenticated",))),
    (
        {"Impersonate-User": "jane", "Impersonate-Group": "dev", "Impersonate-Uid": "7"},
        User(name="jane", uid="7", groups=("dev", "system:authenticated")),
    ),
    (
        {"Impersonate-User": "jane", "Impersonate-Group": "system:unauthenticated"},
        User(name="jane", groups=("system:unauthenticated",)),
    ),
    (
        {"Impersonate-User": "system:anonymous"},
        User(name="system:anonymous", groups=("system:unauthenticated",)),
    ),
    (
        {"Impersonate-User": ROBOT},
        User(
            name=ROBOT,
            groups=(
                "system:serviceaccounts",
                "system:serviceaccounts:shop",
                "system:authenticated",
            ),
        ),
    ),
    (
        {"Impersonate-User": ROBOT, "Impersonate-Group": "dev"},
        User(name=ROBOT, groups=("dev", "system:authenticated")),
    ),
    (
        {"impersonate-user": "jane", "Impersonate-Extra-Scopes": "view"},
        User(name="jane", groups=("system:authenticated",), extra={"scopes": ("view",)}),
    ),
    (
        {"Impersonate-User": "jane", "Impersonate-Extra-Example.com%2fScope": "view"},
        User(name="jane", groups=("system:authenticated",), extra={"example.com/scope": ("view",)}),
    ),
]


@pytest.mark.parametrize(("headers", "user"), USERS)
def test_user(headers: dict[str, str], user: User) -> None:
    """The headers name a user, its groups, uid and extra fields."""
    impersonation = parse_impersonation(headers)
    assert impersonation is not None
    assert impersonation.impersonated_user() == user


CHECKS = [
    ({"Impersonate-User": "jane"}, ["users/jane"]),
    ({"Impersonate-User": ROBOT}, ["shop:serviceaccounts/robot"]),
    ({"Impersonate-User": "system:serviceaccount:shop"}, ["users/system:serviceaccount:shop"]),
    ({"Impersonate-User": "jane", "Impersonate-Group": "dev"}, ["users/jane", "groups/dev"]),
    (
        {"Impersonate-User": "jane", "Impersonate-Extra-Scopes": "view", "Impersonate-Uid": "7"},
        [
            "users/jane",
            "authentication.k8s.io:userextras/view/scopes",
            "authentication.k8s.io:uids/7",
        ],
    ),
]


@pytest.mark.parametrize(("headers", "checks"), CHECKS)
def test_checks(headers: dict[str, str], checks: list[str]) -> None:
    """Each value that the headers name is a check of its own."""
    impersonation = parse_impersonation(headers)
    assert impersonation is not None
    texts = []
    for info in impersonation.checks():
        assert info.verb == "impersonate"
        scope = info.namespace or info.version.group
        subresource = f"/{info.subresource}" if info.subresource else ""
        prefix = f"{scope}:" if scope else ""
        texts.append(f"{prefix}{info.resource}/{info.name}{subresource}")
    assert texts == checks


def test_no_headers() -> None:
    """A request without Impersonate-* headers impersonates no user."""
    assert parse_impersonation({"Accept": "*/*", "If-Match": "x"}) is None


WITHOUT_USER = [
    {"Impersonate-Group": "dev"},
    {"Impersonate-Uid": "7"},
    {"Impersonate-Extra-Scopes": "x"},
    {"Impersonate-User": ""},
    {"Impersonate-Unknown": "x"},
]


@pytest.mark.parametrize("headers", WITHOUT_USER)
def test_refused(headers: dict[str, str]) -> None:
    """The other headers need a user: ignoring them would give the caller's own rights."""
    with pytest.raises(BadRequest, match="without impersonating a user"):
        parse_impersonation(headers)
