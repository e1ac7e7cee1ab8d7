"""OwnerReferencesPermissionEnforcement. The cases follow gc_admission_test.go of Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.user import APISERVER, User
from tests.apiserver.admission.pluginkit import JANE, run


def owner(kind: str = "Pod", version: str = "v1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "name": "o", "uid": "u", **more}


NO_RIGHT = ", <nil>"
DELETE = f"cannot set an ownerRef on a resource you can't delete: {NO_RIGHT}"
FINALIZE = (
    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set "
    f"finalizers on: {NO_RIGHT}"
)
BLOCK = {"blockOwnerDeletion": True}


def cannot_find(version: str, kind: str, reason: str) -> str:
    return (
        "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for "
        f"APIVersion {version} Kind {kind}: {reason}"
    )


WRITE = "create update patch get"
OWNER_CASES: list[tuple[str, Any, Any, str]] = [
    # rules, owners before (None for a create), owners after, message
    ("", None, [], ""),
    ("", None, [owner()], ""),
    ("", None, [owner(**BLOCK)], FINALIZE),
    ("pods/finalizers", None, [owner(**BLOCK)], ""),
    ("pods/finalizers", None, [owner(**BLOCK), owner("Node", uid="n", **BLOCK)], FINALIZE),
    ("nodes/finalizers", None, [owner("Node", **BLOCK)], FINALIZE),  # nodes have no namespace
    ("*/finalizers", None, [owner(**BLOCK)], ""),
    ("", [], [owner()], DELETE),
    ("delete", [], [owner()], ""),
    ("delete", [], [owner(**BLOCK)], FINALIZE),
    ("delete pods/finalizers", [], [owner(**BLOCK)], ""),
    ("", [owner()], [owner()], ""),
    ("", [owner()], [], DELETE),
    ("", [owner()], [owner(**BLOCK)], DELETE),
    ("delete", [owner()], [owner(**BLOCK)], FINALIZE),
    ("delete", [owner(**BLOCK)], [owner()], ""),
    ("delete", [owner(**BLOCK)], [owner(**BLOCK), owner(uid="w")], ""),
    ("delete", [owner(**BLOCK)], [owner(**BLOCK), owner(uid="w", **BLOCK)], FINALIZE),
    ("", None, [owner("Odd", **BLOCK)],
     cannot_find("v1", "Odd", 'no matches for kind "Odd" in version "v1"')),
]  # fmt: skip


@pytest.mark.parametrize(("rights", "before", "after", "message"), OWNER_CASES)
def test_owner_references(rights: str, before: Any, after: Any, message: str) -> None:
    """A user needs `delete` on an object to change its owners, and `update` on the finalizers of
    an owner to block its deletion."""

    async def test(server: Server) -> None:
        masters = server.client(APISERVER, authorize=False)
        rules = [{"verbs": WRITE.split(), "apiGroups": [""], "resources": ["configmaps"]}]
        for right in rights.split():
            verb, resource = ("update", right) if "/" in right else (right, "configmaps")
            rules.append({"verbs": [verb], "apiGroups": [""], "resources": [resource]})
        rbac = "rbac.authorization.k8s.io/v1"
        await masters.resource(rbac, "roles", namespace="default").create(
            {"metadata": {"name": "r"}, "rules": rules}
        )
        await masters.resource(rbac, "rolebindings", namespace="default").create(
            {
                "metadata": {"name": "b"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
                "subjects": [
                    {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "lee"}
                ],
            }
        )
        maps = masters.resource("v1", "configmaps", namespace="default")
        body = {"metadata": {"name": "m", "ownerReferences": after}}
        own = server.client(User(name="lee")).resource("v1", "configmaps", namespace="default")
        if before is not None:
            await maps.create({"metadata": {"name": "m", "ownerReferences": before}})
        write = own.create(body) if before is None else own.update(body)
        if not message:
            await write
            return
        with pytest.raises(StatusError) as caught:
            await write
        assert caught.value.status["code"] == 403
        assert caught.value.status["message"] == f'configmaps "m" is forbidden: {message}'

    run(
        test,
        enable_admission_plugins=("OwnerReferencesPermissionEnforcement",),
        authorization_mode=("RBAC",),
    )


def test_finalizers_of_everything() -> None:
    """A user who may set all finalizers may block the deletion of an owner of an unknown kind."""

    async def test(server: Server) -> None:
        maps = server.client(JANE).resource("v1", "configmaps", namespace="default")
        await maps.create({"metadata": {"name": "m", "ownerReferences": [owner("Odd", **BLOCK)]}})

    run(test, enable_admission_plugins=("OwnerReferencesPermissionEnforcement",))
