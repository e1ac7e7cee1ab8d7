"""PodSecurity: what the labels of a namespace, or the server's defaults, ask of pods in it.

`enforce` refuses pods; `warn` tells of pods and of templates that would be refused; there is no
audit log for `audit` to note them in. Some namespaces, users and runtime classes may be exempt.
Mirrors k8s.io/pod-security-admission/admission.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kapiserver.api.accessors import annotations_of, labels_of, metadata_of, name_of, value_at
from kapiserver.api.core.pod_security import Violation
from kapiserver.api.core.pod_security_policy import Policy, Standard, describe_policy, policy_of
from kapiserver.api.errors import InvalidObject
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.attributes import Attributes
from kapiserver.apiserver.admission.configuration import AdmissionSettings, PodSecurity
from kapiserver.apiserver.context import Server
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.query import ListQuery

PODS_LOOKED_AT = 3000
"""Of a namespace that is to be held to more."""
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "podtemplates": ("template",),
    "replicationcontrollers": ("spec", "template"),
    "daemonsets.apps": ("spec", "template"),
    "deployments.apps": ("spec", "template"),
    "replicasets.apps": ("spec", "template"),
    "statefulsets.apps": ("spec", "template"),
    "jobs.batch": ("spec", "template"),
    "cronjobs.batch": ("spec", "jobTemplate", "spec", "template"),
}


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
) -> None:
    """Raises Forbidden, InvalidObject."""
    target, settings = attributes.target, _settings(server)
    if new is None:
        return
    if target.is_namespace:
        if not target.subresource:
            await _look_at_namespace(server, attributes, new, old)
        return
    if target.key.namespace in settings.namespaces or attributes.user.name in settings.usernames:
        return
    labels = labels_of(await _namespace(server, target.key.namespace))
    policy = policy_of(labels, settings.defaults).policy
    path = _TEMPLATES.get(target.resource.qualified_name)
    if path is None:
        if old is None or _is_significant(new, old):
            _look_at_pod(attributes, new, policy, settings)
    elif not target.subresource:
        template = value_at(new, *path)
        if template and not _is_exempt(template, settings):
            _warn(attributes, template, policy)


def _settings(server: Server) -> PodSecurity:
    return (server.admission or AdmissionSettings()).pod_security


def _is_exempt(pod: Tree, settings: PodSecurity) -> bool:
    return value_at(pod, "spec", "runtimeClassName") in settings.runtime_classes


def _is_significant(new: Tree, old: Tree) -> bool:
    """Whether an update of a pod changes what counts: its containers and their images."""
    fresh, stale = new.get("spec") or {}, old.get("spec") or {}
    if any(
        len(fresh.get(kind) or ()) != len(stale.get(kind) or ())
        for kind in ("containers", "initContainers")
    ):
        return True
    known = {one.get("name"): one for one in _containers(stale)}
    annotations, before = annotations_of(new), annotations_of(old)
    for container in _containers(fresh):
        name = container.get("name")
        if name not in known or container.get("image") != known[name].get("image"):
            return True
        if annotations.get(f"{_SECCOMP}{name}") != before.get(f"{_SECCOMP}{name}"):
            return True
    return False


def _containers(spec: Tree) -> Iterator[Tree]:
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def _look_at_pod(attributes: Attributes, pod: Tree, policy: Policy, settings: PodSecurity) -> None:
    if policy.is_privileged or _is_exempt(pod, settings):
        return
    broken = policy.enforce.violations_of(pod)
    if broken:
        raise attributes.forbidden(f'violates PodSecurity "{policy.enforce}": {_listed(broken)}')
    _warn(attributes, pod, policy)


def _warn(attributes: Attributes, pod: Tree, policy: Policy) -> None:
    broken = policy.warn.violations_of(pod)
    if broken:
        attributes.warnings.add(f'would violate PodSecurity "{policy.warn}": {_listed(broken)}')


def _listed(broken: Sequence[Violation]) -> str:
    return ", ".join(map(str, broken))


async def _look_at_namespace(
    server: Server, attributes: Attributes, new: Tree, old: Tree | None
) -> None:
    settings = _settings(server)
    asked = policy_of(labels_of(new), settings.defaults)
    before = policy_of(labels_of(old or {}), settings.defaults)
    if asked.errors and (old is None or asked.errors != before.errors):
        raise InvalidObject(group="", kind="Namespace", name=name_of(new), errors=asked.errors)
    enforce, kept = asked.policy.enforce, before.policy.enforce
    if old is not None and (enforce == kept or enforce.level == "privileged"):
        return
    if old is not None and enforce.minor == kept.minor and not enforce.is_stricter(kept):
        return
    if name_of(new) in settings.namespaces:
        if not asked.policy.is_privileged and asked.policy != settings.defaults:
            attributes.warnings.add(
                f'namespace "{name_of(new)}" is exempt from Pod Security, and the policy '
                f"({describe_policy(asked.policy, labels_of(new))}) will be ignored"
            )
    elif old is not None:
        for warning in await _broken_in(server, name_of(new), enforce):
            attributes.warnings.add(warning)


async def _broken_in(server: Server, namespace: str, standard: Standard) -> list[str]:
    """What to tell of the pods there that do not meet a new standard."""
    store = server.stores.by_name(CORE, "pods")
    entries = (await store.list(ListQuery(namespace=namespace, resource_version="0"))).entries
    pods = _prioritized([one.tree() for one in entries], _settings(server))
    found: dict[str, list[str]] = {}
    for pod in pods[:PODS_LOOKED_AT]:
        reasons = ", ".join(one.reason for one in standard.violations_of(pod))
        if reasons:
            found.setdefault(reasons, []).append(name_of(pod))
    warnings = []
    if len(pods) > PODS_LOOKED_AT:
        warnings.append(
            "new PodSecurity enforce level only checked against the first "
            f"{PODS_LOOKED_AT} of {len(pods)} existing pods"
        )
    if found:
        warnings.append(
            f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level '
            f'"{standard}"'
        )
    return [*warnings, *sorted(_counted(names, reasons) for reasons, names in found.items())]


def _prioritized(pods: Sequence[Tree], settings: PodSecurity) -> list[Tree]:
    """One pod of each controller before its others; none of an exempt runtime class."""
    first: list[Tree] = []
    others: list[Tree] = []
    controllers: set[str] = set()
    for pod in pods:
        if _is_exempt(pod, settings):
            continue
        owners = metadata_of(pod).get("ownerReferences") or ()
        controller = next((one.get("uid") for one in owners if one.get("controller")), None)
        (others if controller in controllers else first).append(pod)
        if controller is not None:
            controllers.add(controller)
    return first + others


def _counted(names: Sequence[str], reasons: str) -> str:
    first, others = min(names), len(names) - 1
    if others:
        first += f" (and {others} other {'pod' if others == 1 else 'pods'})"
    return f"{first}: {reasons}"


async def _namespace(server: Server, name: str) -> Tree:
    namespaces = server.stores.by_name(CORE, "namespaces")
    try:
        return (await namespaces.get(ObjectKey("", name), resource_version="0")).tree()
    except NotFound:
        return {}  # it is somebody else's to say so
