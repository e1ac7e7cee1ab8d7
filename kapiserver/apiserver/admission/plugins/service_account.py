"""ServiceAccount: sets the service account of a pod, and mounts a token of it unless turned off.

Mirrors plugin/pkg/admission/serviceaccount.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from kapiserver.api.accessors import annotations_of
from kapiserver.api.core import v1
from kapiserver.api.core.service_account_token import token_projection
from kapiserver.api.group import CORE
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.pod_cost import pod_cost
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound

DEFAULT = "default"
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
VOLUME_PREFIX = "kube-api-access-"
ENFORCE = "kubernetes.io/enforce-mountable-secrets"
MIRROR = "kubernetes.io/config.mirror"
_RETRY_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Waits for the default account, which a controller creates in a new namespace."""
_TRUE = ("1", "t", "T", "true", "TRUE", "True")


async def admit(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Set the account, its token and pull secrets. Raises Forbidden for a missing account."""
    if new is None or attributes.operation != "CREATE" or attributes.target.subresource:
        return
    spec = new.setdefault("spec", {})
    if MIRROR in annotations_of(new):
        _check_mirror_pod(attributes, spec)
        return
    name = spec.get("serviceAccountName") or DEFAULT
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = await _service_account(server, attributes, name)
    if _wants_token(account, spec):
        new_suffix = server.stores.identifiers.suffix
        await server.offloader.run(pod_cost(spec), _mount_token, spec, new_suffix)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [dict(reference) for reference in account["imagePullSecrets"]]
    reorder_keys(spec, v1.PodSpec)


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Raise Forbidden for secrets that the account does not list, if it enforces that."""
    if new is None or attributes.target.subresource not in ("", "ephemeralcontainers"):
        return
    if attributes.operation == "UPDATE" and not attributes.target.subresource:
        return
    spec = new.get("spec") or {}
    if MIRROR in annotations_of(new):
        return
    name = spec.get("serviceAccountName") or ""
    account = await _service_account(server, attributes, name)
    if annotations_of(account).get(ENFORCE) in _TRUE:
        for problem in _disallowed_secrets(account, spec):
            raise attributes.forbidden(problem)


def _check_mirror_pod(attributes: Attributes, spec: Tree) -> None:
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


async def _service_account(server: Server, attributes: Attributes, name: str) -> Tree:
    store = server.stores.by_name(CORE, "serviceaccounts")
    namespace = attributes.target.key.namespace
    key = ObjectKey(namespace, name)
    for seconds in (0.0, *(_RETRY_SECONDS if name == DEFAULT else ())):
        if seconds:
            await asyncio.sleep(seconds)
        try:
            return (await store.get_cached_first(key)).tree()
        except NotFound as error:
            message = str(error).replace("serviceaccounts", "serviceaccount", 1)
    raise attributes.forbidden(f"error looking up service account {namespace}/{name}: {message}")


def _wants_token(account: Tree, spec: Tree) -> bool:
    for automount in (
        spec.get("automountServiceAccountToken"),
        account.get("automountServiceAccountToken"),
    ):
        if automount is not None:
            return bool(automount)
    return True


def _mount_token(spec: Tree, new_suffix: Callable[[], str]) -> None:
    """Mount the token in all containers without another mount at its path."""
    volumes = spec.get("volumes") or []
    volume_name = next((v["name"] for v in volumes if v["name"].startswith(VOLUME_PREFIX)), "")
    name = volume_name or VOLUME_PREFIX + new_suffix()
    is_mounted = False
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        mounts = container.get("volumeMounts") or []
        if all(mount.get("mountPath") != MOUNT_PATH for mount in mounts):
            mount = {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}
            container["volumeMounts"] = [*mounts, mount]
            reorder_keys(container, v1.Container)
            is_mounted = True
    if is_mounted and not volume_name:
        spec["volumes"] = [*volumes, {"name": name, "projected": token_projection()}]


def _disallowed_secrets(account: Tree, spec: Tree) -> Iterator[str]:
    """Yield a message for each secret that the account does not list."""
    name = account["metadata"]["name"]
    secret_names = {reference.get("name") for reference in account.get("secrets") or ()}
    for description, secret in _secret_references(spec):
        if secret and secret not in secret_names:
            yield (
                f'{description} secret.secretName="{secret}" is not allowed because service '
                f"account {name} does not reference that secret"
            )
    pull_secret_names = {
        reference.get("name") for reference in account.get("imagePullSecrets") or ()
    }
    for index, reference in enumerate(spec.get("imagePullSecrets") or ()):
        if reference.get("name") not in pull_secret_names:
            yield (
                f'imagePullSecrets[{index}].name="{reference.get("name")}" is not allowed because '
                f"service account {name} does not reference that imagePullSecret"
            )


_CONTAINERS = (
    ("initContainers", "init container"),
    ("containers", "container"),
    ("ephemeralContainers", "ephemeral container"),
)


def _secret_references(spec: Tree) -> Iterator[tuple[str, str | None]]:
    """Yield the secrets that a pod refers to, each after a description of the place."""
    for volume in spec.get("volumes") or ():
        yield "volume with", (volume.get("secret") or {}).get("secretName")
    for kind, description in _CONTAINERS:
        for container in spec.get(kind) or ():
            prefix = f"{description} {container.get('name')} with"
            for source in container.get("envFrom") or ():
                secret = (source.get("secretRef") or {}).get("name")
                yield f"{prefix} envFrom referencing", secret
            for variable in container.get("env") or ():
                reference = (variable.get("valueFrom") or {}).get("secretKeyRef") or {}
                yield f"{prefix} envVar {variable.get('name')} referencing", reference.get("name")
