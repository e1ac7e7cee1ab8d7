"""Users of a test: people, members of groups and ServiceAccounts, with given rights.

The rights are those of RBAC. Each user has a token, a kubeconfig, and clients of each library.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import Struct

from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.testing.clients import KubeClients
from kapiserver.testing.namespace import TestNamespace
from kapiserver.testing.server import MAX_USERS, TestServer

RBAC_GROUP = "rbac.authorization.k8s.io"
RBAC = f"{RBAC_GROUP}/v1"
TOKEN_SECONDS = 365 * 24 * 3600
"""How long the tokens of ServiceAccounts are valid: longer than tests move the clock."""
_NEEDS_RBAC = "the server runs without RBAC, so that every user may do everything"
_NEEDS_TEST_SERVER = "a cluster knows no tokens of new users; use a ServiceAccount"


class TestUser(Struct, frozen=True, kw_only=True):
    """A user for one test.

    name        the name of the user, such as `alice` and `system:serviceaccount:default:robot`
    groups      the groups of the user, without `system:authenticated`
    token       a bearer token
    kubeconfig  the file of a kubeconfig with the token; the context has the test's namespace, or
                that of the ServiceAccount
    client      a `KubeClients` with the token
    """

    __test__ = False  # not a test class of pytest

    name: str
    groups: tuple[str, ...]
    token: str
    kubeconfig: Path
    client: KubeClients


class Rights(Struct, frozen=True, kw_only=True):
    """What a user may do, besides what existing bindings allow.

    rules           the rules of a role, as in a manifest:
                    `{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}`
    roles           the names of existing ClusterRoles
    role_namespace  where the rules and roles hold; "" is the whole cluster
    """

    rules: Sequence[Tree] = ()
    roles: Sequence[str] = ()
    role_namespace: str = ""


class Users:
    """Adds users to the server of a test, and removes them at the end of a `with` block, with the
    roles, bindings and ServiceAccounts that were created for them."""

    def __init__(self, namespace: TestNamespace) -> None:
        self._namespace = namespace
        self._server = namespace.server
        self._clients = ExitStack()
        self._created: list[tuple[ResourceClient, str]] = []
        self._tokens: list[str] = []

    def __enter__(self) -> Users:
        return self

    def __exit__(self, *_: object) -> None:
        self._clients.close()
        if not isinstance(self._server, TestServer) or self._server.is_running:
            self._server.run(self._remove())

    def add(
        self,
        name: str = "",
        *,
        groups: Sequence[str] = (),
        rules: Sequence[Tree] = (),
        roles: Sequence[str] = (),
        role_namespace: str = "",
    ) -> TestUser:
        """Return a new user with these groups and rights.

        name            the name of the user, who gets the rights; without one a member of the
                        groups is made, and the groups get the rights
        rules           the rules of a role, as in a manifest of a Role
        roles           the names of existing ClusterRoles
        role_namespace  where the rules and roles hold; "" is the whole cluster

        Raises ValueError, StatusError for a rule that the server refuses or a role that does not
        exist, and RuntimeError for a server without tokens.
        """
        rights = Rights(rules=rules, roles=roles, role_namespace=role_namespace)
        return self._server.run(self.add_async(name, groups, rights))

    def add_service_account(
        self,
        name: str,
        *,
        namespace: str = "",
        rules: Sequence[Tree] = (),
        roles: Sequence[str] = (),
        role_namespace: str = "",
    ) -> TestUser:
        """Return the user of a ServiceAccount, which is created if there is none. It has the
        rights of `add`, and those of existing bindings.

        namespace   the namespace of the ServiceAccount; "" is the namespace of the test

        Raises ValueError, and StatusError if the server refuses an object.
        """
        rights = Rights(rules=rules, roles=roles, role_namespace=role_namespace)
        return self._server.run(self.add_service_account_async(name, namespace, rights))

    async def add_async(self, name: str, groups: Sequence[str], rights: Rights) -> TestUser:
        """Do the same as `add`, on the loop of the server."""
        if isinstance(groups, str):
            raise ValueError(f"groups must be a list, not {groups!r}")
        if not name and not groups:
            raise ValueError("a user needs a name or groups")
        if not isinstance(self._server, TestServer):
            raise RuntimeError(_NEEDS_TEST_SERVER)
        kinds = {"User": [name]} if name else {"Group": groups}
        subjects = [
            {"apiGroup": RBAC_GROUP, "kind": kind, "name": subject}
            for kind, names in kinds.items()
            for subject in names
        ]
        await self._grant(subjects, rights)
        name = name or f"member-of-{'-'.join(groups)}"
        token = self._server.add_token(name, groups)
        self._tokens.append(token)
        return self._user(name, groups, token, self._namespace.name)

    async def add_service_account_async(
        self, name: str, namespace: str, rights: Rights
    ) -> TestUser:
        """Do the same as `add_service_account`, on the loop of the server."""
        namespace = namespace or self._namespace.name
        client = self._server.internal_client()
        accounts = client.resource("v1", "serviceaccounts", namespace=namespace)
        try:
            await accounts.get(name)
        except StatusError as error:
            if error.reason != "NotFound":
                raise
            await self._create(accounts, {"metadata": {"name": name}})
        await self._grant(
            [{"kind": "ServiceAccount", "name": name, "namespace": namespace}], rights
        )
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        review = await accounts.create(request, name=name, subresource="token")
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        user = f"system:serviceaccount:{namespace}:{name}"
        return self._user(user, groups, review["status"]["token"], namespace)

    async def _grant(self, subjects: Sequence[Tree], rights: Rights) -> None:
        """Bind roles to the subjects; return when they are in force. In an existing cluster that
        takes a moment longer."""
        if not rights.rules and not rights.roles:
            return
        server = self._server
        if isinstance(server, TestServer) and server.running.app.server.rbac is None:
            raise ValueError(_NEEDS_RBAC)
        scope = "" if rights.role_namespace else "cluster"
        refs = [("ClusterRole", name) for name in rights.roles]
        for _, name in refs:  # the server takes a binding to a role that does not exist
            await server.internal_client().resource(RBAC, "clusterroles").get(name)
        if rights.rules:
            role = await self._create(
                self._roles(f"{scope}roles", rights), {"rules": list(rights.rules)}
            )
            refs.append(("ClusterRole" if scope else "Role", role["metadata"]["name"]))
        bindings = self._roles(f"{scope}rolebindings", rights)
        for kind, name in refs:
            ref = {"apiGroup": RBAC_GROUP, "kind": kind, "name": name}
            await self._create(bindings, {"subjects": list(subjects), "roleRef": ref})
        if isinstance(server, TestServer):
            await server.settle_async()

    def _roles(self, resource: str, rights: Rights) -> ResourceClient:
        client = self._server.internal_client()
        return client.resource(RBAC, resource, namespace=rights.role_namespace)

    async def _create(self, resource: ResourceClient, obj: Tree) -> Tree:
        """Create an object, which is deleted at the end."""
        if len(self._created) >= 3 * MAX_USERS:
            raise ValueError(f"there are {len(self._created)} objects of users already")
        created = await resource.create({"metadata": {"generateName": "test-"}, **obj})
        self._created.append((resource, created["metadata"]["name"]))
        return created

    def _user(self, name: str, groups: Sequence[str], token: str, namespace: str) -> TestUser:
        kubeconfig = self._server.write_kubeconfig(namespace, token=token)
        clients = KubeClients(TestNamespace(self._server, namespace, kubeconfig), token=token)
        self._clients.enter_context(clients)
        return TestUser(
            name=name, groups=tuple(groups), token=token, kubeconfig=kubeconfig, client=clients
        )

    def forget(self) -> None:
        """Make the tokens of users unknown to the server, after its objects were reset."""
        self._created.clear()
        for token in self._tokens:
            if isinstance(self._server, TestServer):
                self._server.remove_token(token)
        self._tokens.clear()

    async def _remove(self) -> None:
        for resource, name in reversed(self._created):
            with suppress(StatusError):  # the test may have deleted it, or its namespace
                await resource.delete(name)
        self.forget()
