"""ServiceAccount: a pod runs as an account that is there, with a token of it unless it wants none.

Mirrors plugin/pkg/admission/serviceaccount.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

from kapiserver.api.accessors import annotations_of
from kapiserver.api.core import v1
from kapiserver.api.core.service_account_token import token_projection
from kapiserver.api.group import CORE
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.lifecycle import NAME_LETTERS, NAME_SUFFIX

DEFAULT = "default"
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
VOLUME_PREFIX = "kube-api-access-"
ENFORCE = "kubernetes.io/enforce-mountable-secrets"
MIRROR = "kubernetes.io/config.mirror"
_WAITS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds between looks for an account that is made with its namespace."""
_TRUE = ("1", "t", "T", "true", "TRUE", "True")


async def admit(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Raises Forbidden."""
    if new is None or attributes.operation != "CREATE" or attributes.target.subresource:
        return
    spec = new.setdefault("spec", {})
    if MIRROR in annotations_of(new):
        _check_mirror(attributes, spec)
        return
    name = spec.get("serviceAccountName") or DEFAULT
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = await _account(server, attributes, name)
    if _mounts(account, spec):
        _mount(spec)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [dict(one) for one in account["imagePullSecrets"]]
    reorder_keys(spec, v1.PodSpec)


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Raises Forbidden."""
    if new is None or attributes.target.subresource not in ("", "ephemeralcontainers"):
        return
    if attributes.operation == "UPDATE" and not attributes.target.subresource:
        return
    spec = new.get("spec") or {}
    if MIRROR in annotations_of(new):
        return
    name = spec.get("serviceAccountName") or ""
    account = await _account(server, attributes, name)
    if annotations_of(account).get(ENFORCE) in _TRUE:
        for problem in _secrets(account, spec):
            raise attributes.forbidden(problem)


def _check_mirror(attributes: Attributes, spec: Tree) -> None:
    if spec.get("serviceAccountName"):
        raise attributes.forbidden("a mirror pod may not reference service accounts")
    for volume in spec.get("volumes") or ():
        if volume.get("secret") is not None:
            raise attributes.forbidden("a mirror pod may not reference secrets")
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                raise attributes.forbidden(
                    "a mirror pod may not use ServiceAccountToken volume projections"
                )


async def _account(server: Server, attributes: Attributes, name: str) -> Tree:
    store = server.stores.by_name(CORE, "serviceaccounts")
    namespace = attributes.target.key.namespace
    key = ObjectKey(namespace, name)
    for seconds in (0.0, *(_WAITS if name == DEFAULT else ())):
        if seconds:
            await asyncio.sleep(seconds)
        try:
            return (await store.get(key, resource_version="0")).tree()
        except NotFound:
            try:  # the cache may be behind another server's write
                return (await store.get(key)).tree()
            except NotFound as error:
                problem = str(error).replace("serviceaccounts", "serviceaccount", 1)
    raise attributes.forbidden(f"error looking up service account {namespace}/{name}: {problem}")


def _mounts(account: Tree, spec: Tree) -> bool:
    for said in (
        spec.get("automountServiceAccountToken"),
        account.get("automountServiceAccountToken"),
    ):
        if said is not None:
            return bool(said)
    return True


def _mount(spec: Tree) -> None:
    """Mount the token in all containers that have nothing in its place."""
    volumes = spec.get("volumes") or []
    known = next((v["name"] for v in volumes if v["name"].startswith(VOLUME_PREFIX)), "")
    name = known or VOLUME_PREFIX + "".join(random.choices(NAME_LETTERS, k=NAME_SUFFIX))
    wanted = False
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        mounts = container.get("volumeMounts") or []
        if all(one.get("mountPath") != MOUNT_PATH for one in mounts):
            mount = {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}
            container["volumeMounts"] = [*mounts, mount]
            reorder_keys(container, v1.Container)
            wanted = True
    if wanted and not known:
        spec["volumes"] = [*volumes, {"name": name, "projected": token_projection()}]


def _secrets(account: Tree, spec: Tree) -> Iterator[str]:
    """Secrets that the account does not name."""
    name = account["metadata"]["name"]
    known = {one.get("name") for one in account.get("secrets") or ()}
    for where, secret in _references(spec):
        if secret and secret not in known:
            yield (
                f'{where} secret.secretName="{secret}" is not allowed because service account '
                f"{name} does not reference that secret"
            )
    pulls = {one.get("name") for one in account.get("imagePullSecrets") or ()}
    for index, one in enumerate(spec.get("imagePullSecrets") or ()):
        if one.get("name") not in pulls:
            yield (
                f'imagePullSecrets[{index}].name="{one.get("name")}" is not allowed because '
                f"service account {name} does not reference that imagePullSecret"
            )


_CONTAINERS = (
    ("initContainers", "init container"),
    ("containers", "container"),
    ("ephemeralContainers", "ephemeral container"),
)


def _references(spec: Tree) -> Iterator[tuple[str, str | None]]:
    """Where a pod asks for a secret, in words, and which."""
    for volume in spec.get("volumes") or ():
        yield "volume with", (volume.get("secret") or {}).get("secretName")
    for kind, what in _CONTAINERS:
        for container in spec.get(kind) or ():
            begins = f"{what} {container.get('name')} with"
            for source in container.get("envFrom") or ():
                secret = (source.get("secretRef") or {}).get("name")
                yield f"{begins} envFrom referencing", secret
            for variable in container.get("env") or ():
                reference = (variable.get("valueFrom") or {}).get("secretKeyRef") or {}
                yield f"{begins} envVar {variable.get('name')} referencing", reference.get("name")
