"""The operations of the control API that add users."""

from __future__ import annotations

from collections.abc import Mapping

from kapiserver.testing.control_api.schemas import USER, arguments_of
from kapiserver.testing.control_api.session import Operation, Session, Tree
from kapiserver.testing.fixtures.users import TestUser, Users

_RIGHTS: Mapping[str, str] = {
    "rules": 'The rules of a role, as in a manifest: `[{apiGroups: [""], resources: [pods], verbs: '
    "[get]}]`.",
    "roles": "The names of existing ClusterRoles.",
    "role_namespace": "The namespace in which the rules and roles hold. Without it, they hold in "
    "the whole cluster.",
}


async def _add_user(session: Session, arguments: Tree) -> Tree:
    return _described(await session.users.add_async(**arguments))


async def _add_service_account(session: Session, arguments: Tree) -> Tree:
    return _described(await session.users.add_service_account_async(**arguments))


def _described(user: TestUser) -> Tree:
    return {"name": user.name, "token": user.token, "kubeconfig": str(user.kubeconfig)}


USER_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="addUser",
        method="POST",
        path="/users",
        summary="Add a user with rights of RBAC; return its token and kubeconfig.",
        run=_add_user,
        result=USER,
        arguments=arguments_of(
            Users.add,
            {
                "name": "The name of the user. Without it, a member of the groups is made, and the "
                "groups get the rights.",
                "groups": "The groups of the user.",
                **_RIGHTS,
            },
        ),
    ),
    Operation(
        name="addServiceAccount",
        method="POST",
        path="/service-accounts",
        summary="Return a token and a kubeconfig of a ServiceAccount, which is created if there is "
        "none. It has these rights and those of existing bindings.",
        run=_add_service_account,
        result=USER,
        arguments=arguments_of(
            Users.add_service_account,
            {
                "name": "The name of the ServiceAccount.",
                "namespace": "Its namespace. Without it, `default`.",
                **_RIGHTS,
            },
        ),
    ),
)
