"""References of objects to others that have to exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.checking.finding import Steps
from kapiserver.checking.rules.pod_templates import containers_of, pod_of, pod_steps
from kapiserver.checking.rules.values import items_at, text_at, value_at

_RBAC = "rbac.authorization.k8s.io"
_BINDINGS = ("RoleBinding", "ClusterRoleBinding")


class Reference(Struct, frozen=True, kw_only=True):
    """A reference of an object to another one.

    steps       lead to the name, from the root of the object
    rule        the rule that a missing object breaks
    namespace   that of the object, "" for a cluster-scoped kind
    keys        keys of a ConfigMap or Secret that are needed, each with the steps to its name
    """

    steps: Steps
    rule: str
    group: str
    kind: str
    namespace: str
    name: str
    keys: tuple[tuple[Steps, str], ...] = ()


def references_of(tree: Tree, namespace: str) -> Iterator[Reference]:
    """Yield the references of an object that lives in a namespace. Optional ones are left out."""
    steps = pod_steps(tree)
    if steps is not None:
        yield from _below(steps, _pod_references(pod_of(tree), namespace))
    kind = tree["kind"]
    if kind in _BY_KIND:
        yield from _BY_KIND[kind](tree, namespace)


def _below(steps: Steps, references: Iterator[Reference]) -> Iterator[Reference]:
    """Yield references of a part of an object, their steps from the root."""
    for reference in references:
        keys = tuple(((*steps, *key_steps), key) for key_steps, key in reference.keys)
        yield Reference(
            steps=(*steps, *reference.steps),
            rule=reference.rule,
            group=reference.group,
            kind=reference.kind,
            namespace=reference.namespace,
            name=reference.name,
            keys=keys,
        )


# Pods ---------------------------------------------------------------------------------------------


def _pod_references(pod: Any, namespace: str) -> Iterator[Reference]:
    yield from _named(
        pod, ("spec", "serviceAccountName"), "missing-service-account", "ServiceAccount", namespace
    )
    for steps, secret in items_at(pod, "spec", "imagePullSecrets"):
        yield from _below(steps, _named(secret, ("name",), "missing-secret", "Secret", namespace))
    for steps, volume in items_at(pod, "spec", "volumes"):
        yield from _below(steps, _volume_references(volume, namespace))
    for steps, container in containers_of(pod):
        yield from _below(steps, _container_references(container, namespace))


def _volume_references(volume: Any, namespace: str) -> Iterator[Reference]:
    yield from _below(("configMap",), _data(value_at(volume, "configMap"), "name", namespace))
    yield from _below(("secret",), _data(value_at(volume, "secret"), "secretName", namespace))
    claim = ("persistentVolumeClaim", "claimName")
    yield from _named(volume, claim, "missing-claim", "PersistentVolumeClaim", namespace)
    for steps, source in items_at(volume, "projected", "sources"):
        for name in ("configMap", "secret"):
            references = _data(
                value_at(source, name), "name", namespace, is_secret=name == "secret"
            )
            yield from _below((*steps, name), references)


def _container_references(container: Any, namespace: str) -> Iterator[Reference]:
    for steps, source in items_at(container, "envFrom"):
        for name in ("configMapRef", "secretRef"):
            references = _data(
                value_at(source, name), "name", namespace, is_secret=name == "secretRef"
            )
            yield from _below((*steps, name), references)
    for steps, variable in items_at(container, "env"):
        for name in ("configMapKeyRef", "secretKeyRef"):
            reference = value_at(variable, "valueFrom", name)
            references = _data(reference, "name", namespace, is_secret=name == "secretKeyRef")
            yield from _below((*steps, "valueFrom", name), references)


def _data(
    source: Any, name_field: str, namespace: str, *, is_secret: bool | None = None
) -> Iterator[Reference]:
    """Yield the reference of a source of data to a ConfigMap or a Secret, with the keys it needs,
    unless it is optional. A source with `secretName` is of a Secret."""
    name = text_at(source, name_field)
    if not name or value_at(source, "optional") is True:
        return
    keys = [((*steps, "key"), text_at(item, "key")) for steps, item in items_at(source, "items")]
    keys.append((("key",), text_at(source, "key")))
    of_secret = name_field == "secretName" if is_secret is None else is_secret
    yield Reference(
        steps=(name_field,),
        rule="missing-secret" if of_secret else "missing-config-map",
        group="",
        kind="Secret" if of_secret else "ConfigMap",
        namespace=namespace,
        name=name,
        keys=tuple((steps, key) for steps, key in keys if key),
    )


def _named(
    tree: Any, steps: tuple[str, ...], rule: str, kind: str, namespace: str, *, group: str = ""
) -> Iterator[Reference]:
    """Yield a reference by name, if there is one."""
    name = text_at(tree, *steps)
    if name:
        yield Reference(
            steps=steps, rule=rule, group=group, kind=kind, namespace=namespace, name=name
        )


# Other kinds --------------------------------------------------------------------------------------


def _of_claim(tree: Any, namespace: str) -> Iterator[Reference]:  # noqa: ARG001 - as the others
    steps = ("spec", "storageClassName")
    return _named(tree, steps, "missing-storage-class", "StorageClass", "", group="storage.k8s.io")


def _of_stateful_set(tree: Any, namespace: str) -> Iterator[Reference]:
    yield from _named(tree, ("spec", "serviceName"), "missing-service", "Service", namespace)
    for steps, claim in items_at(tree, "spec", "volumeClaimTemplates"):
        yield from _below(steps, _of_claim(claim, namespace))


def _of_autoscaler(tree: Any, namespace: str) -> Iterator[Reference]:
    target = value_at(tree, "spec", "scaleTargetRef")
    yield from _named(
        tree,
        ("spec", "scaleTargetRef", "name"),
        "missing-scale-target",
        text_at(target, "kind"),
        namespace,
        group=text_at(target, "apiVersion").rpartition("/")[0],
    )


def _of_ingress(tree: Any, namespace: str) -> Iterator[Reference]:
    backend = ("backend", "service", "name")
    default = ("spec", "defaultBackend", "service", "name")
    yield from _named(tree, default, "missing-service", "Service", namespace)
    for rule_steps, rule in items_at(tree, "spec", "rules"):
        for steps, path in items_at(rule, "http", "paths"):
            references = _named(path, backend, "missing-service", "Service", namespace)
            yield from _below((*rule_steps, *steps), references)
    for steps, tls in items_at(tree, "spec", "tls"):
        references = _named(tls, ("secretName",), "missing-secret", "Secret", namespace)
        yield from _below(steps, references)


def _of_service_account(tree: Any, namespace: str) -> Iterator[Reference]:
    for steps, secret in items_at(tree, "imagePullSecrets"):
        yield from _below(steps, _named(secret, ("name",), "missing-secret", "Secret", namespace))


def _of_binding(tree: Any, namespace: str) -> Iterator[Reference]:
    kind = text_at(tree, "roleRef", "kind")
    place = namespace if kind == "Role" else ""
    yield from _named(tree, ("roleRef", "name"), "missing-role", kind, place, group=_RBAC)
    for steps, subject in items_at(tree, "subjects"):
        if text_at(subject, "kind") == "ServiceAccount":
            account_namespace = text_at(subject, "namespace")
            references = _named(
                subject, ("name",), "missing-service-account", "ServiceAccount", account_namespace
            )
            yield from _below(steps, references)


_BY_KIND = {
    "PersistentVolumeClaim": _of_claim,
    "StatefulSet": _of_stateful_set,
    "HorizontalPodAutoscaler": _of_autoscaler,
    "Ingress": _of_ingress,
    "ServiceAccount": _of_service_account,
    **dict.fromkeys(_BINDINGS, _of_binding),
}
"""The references of kinds that make no pods, and of those that have more than their pods."""
