"""PodSecurity: checks pods against the policy of their namespace's labels, or the server's default.

`enforce` refuses pods; `warn` adds warnings for pods and pod templates, and `audit` annotations to
their audit events. Namespaces, users and runtime classes may be exempt. Mirrors
k8s.io/pod-security-admission/admission.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kapiserver.api.accessors import annotations_of, labels_of, metadata_of, name_of, value_at
from kapiserver.api.core.pods.security import LATEST, Violation
from kapiserver.api.core.pods.security_policy import Policy, Standard, describe_policy, policy_of
from kapiserver.api.errors import FieldError, InvalidObject
from kapiserver.api.group import CORE
from kapiserver.api.releases import NEWEST_MINOR
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.plugins.pod_security_configuration import Settings
from kapiserver.apiserver.admission.pod_cost import pod_cost
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.metrics import PodSecurityLabels, PodSecurityMetrics
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound

_PREFIX = "pod-security.kubernetes.io/"
"""The prefix of the annotations of audit events."""
MAX_PODS = 3000
"""The maximum number of existing pods that are checked when a namespace gets a stricter policy."""
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
    settings: Settings, server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
) -> None:
    """Raise Forbidden for a pod that violates the enforced policy, InvalidObject for bad labels of
    a namespace; add warnings."""
    target = attributes.target
    if new is None:
        return
    if target.is_namespace:
        if not target.subresource:
            await _check_namespace(server, attributes, settings, new, old)
        return
    record = _Record(server.metrics.pod_security, attributes)
    exemption = _exemption(attributes, settings)
    if exemption:
        record.exempt(exemption)
        return
    policy = await _namespace_policy(server, record, settings)
    path = _TEMPLATES.get(target.resource.qualified_name)
    run = server.offloader.run
    if path is None:
        if old is None or _is_significant(new, old):
            cost = pod_cost(new.get("spec") or {})
            await run(cost, _check_pod, record, new, policy, settings)
    elif not target.subresource:
        template = value_at(new, *path)
        if template:
            cost = pod_cost(template.get("spec") or {})
            await run(cost, _check_template, record, template, policy, settings)


class _Record:
    """The audit annotations, the warnings and the metrics of one write."""

    def __init__(self, metrics: PodSecurityMetrics, attributes: Attributes) -> None:
        self.attributes = attributes
        self._metrics = metrics
        target = attributes.target
        kind = "pod" if target.resource.qualified_name == "pods" else "controller"
        self._labels = (attributes.operation.lower(), kind, target.subresource)

    def annotate(self, name: str, text: str) -> None:
        """Add an annotation to the audit event."""
        self.attributes.audit.annotations[_PREFIX + name] = text

    def exempt(self, reason: str) -> None:
        """Count an exempt write."""
        self.annotate("exempt", reason)
        self._metrics.exemptions.add(self._labels)

    def bad_policy(self, errors: Sequence[FieldError]) -> None:
        """Count a namespace whose labels are invalid."""
        self.annotate("error", f"Failed to parse policy: {', '.join(map(str, errors))}")
        self._metrics.errors.add(("false", *self._labels))

    def evaluate(self, mode: str, standard: Standard, *, allowed: bool) -> None:
        """Count an evaluation of one mode."""
        decision = "allow" if allowed else "deny"
        labels = PodSecurityLabels(
            decision, standard.level, _version(standard), mode, *self._labels
        )
        self._metrics.evaluations.add(labels)


def _version(standard: Standard) -> str:
    """Return the version of a standard as the metrics name it."""
    if standard.level == "privileged" or standard.minor == LATEST:
        return "latest"
    return "future" if standard.minor > NEWEST_MINOR else f"v1.{standard.minor}"


def _exemption(attributes: Attributes, settings: Settings) -> str:
    """Return why the request is exempt, "namespace" or "user"; "" if it is not."""
    if attributes.target.key.namespace in settings.namespaces:
        return "namespace"
    return "user" if attributes.user.name in settings.usernames else ""


async def _namespace_policy(server: Server, record: _Record, settings: Settings) -> Policy:
    """Return the policy of the request's namespace. Errors in its labels are audited."""
    labels = labels_of(await _namespace(server, record.attributes.target.key.namespace))
    parsed = policy_of(labels, settings.defaults)
    if parsed.errors:
        record.bad_policy(parsed.errors)
    return parsed.policy


def _is_exempt(pod: Tree, settings: Settings) -> bool:
    return value_at(pod, "spec", "runtimeClassName") in settings.runtime_classes


def _is_significant(new: Tree, old: Tree) -> bool:
    """Report whether an update changes containers, their images or their seccomp profiles."""
    new_spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    if any(
        len(new_spec.get(kind) or ()) != len(old_spec.get(kind) or ())
        for kind in ("containers", "initContainers")
    ):
        return True
    old_containers = {container.get("name"): container for container in _containers(old_spec)}
    annotations, old_annotations = annotations_of(new), annotations_of(old)
    for container in _containers(new_spec):
        name = container.get("name")
        old_container = old_containers.get(name)
        if old_container is None or container.get("image") != old_container.get("image"):
            return True
        if annotations.get(f"{_SECCOMP}{name}") != old_annotations.get(f"{_SECCOMP}{name}"):
            return True
    return False


def _containers(spec: Tree) -> Iterator[Tree]:
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def _check_pod(record: _Record, pod: Tree, policy: Policy, settings: Settings) -> None:
    if _is_exempt(pod, settings):
        record.exempt("runtimeClass")
        return
    record.annotate("enforce-policy", str(policy.enforce))
    violations = policy.enforce.violations_of(pod) if not policy.is_privileged else []
    record.evaluate("enforce", policy.enforce, allowed=not violations)
    if policy.is_privileged:
        return
    _audit(record, pod, policy)
    if violations:
        raise record.attributes.forbidden(
            f'violates PodSecurity "{policy.enforce}": {_reasons_text(violations)}'
        )
    _warn(record, pod, policy)


def _check_template(record: _Record, template: Tree, policy: Policy, settings: Settings) -> None:
    if _is_exempt(template, settings):
        record.exempt("runtimeClass")
        return
    _audit(record, template, policy)
    _warn(record, template, policy)


def _audit(record: _Record, pod: Tree, policy: Policy) -> None:
    violations = policy.audit.violations_of(pod)
    if violations:
        record.evaluate("audit", policy.audit, allowed=False)
        reasons = _reasons_text(violations)
        text = f'would violate PodSecurity "{policy.audit}": {reasons}'
        record.annotate("audit-violations", text)


def _warn(record: _Record, pod: Tree, policy: Policy) -> None:
    violations = policy.warn.violations_of(pod)
    if violations:
        record.evaluate("warn", policy.warn, allowed=False)
        record.attributes.warnings.add(
            f'would violate PodSecurity "{policy.warn}": {_reasons_text(violations)}'
        )


def _reasons_text(violations: Sequence[Violation]) -> str:
    return ", ".join(map(str, violations))


async def _check_namespace(
    server: Server, attributes: Attributes, settings: Settings, new: Tree, old: Tree | None
) -> None:
    new_policy = policy_of(labels_of(new), settings.defaults)
    old_policy = policy_of(labels_of(old or {}), settings.defaults)
    if new_policy.errors and (old is None or new_policy.errors != old_policy.errors):
        raise InvalidObject(group="", kind="Namespace", name=name_of(new), errors=new_policy.errors)
    enforce, old_enforce = new_policy.policy.enforce, old_policy.policy.enforce
    if old is not None and (enforce == old_enforce or enforce.level == "privileged"):
        return
    is_same_version = enforce.minor == old_enforce.minor
    if old is not None and is_same_version and not enforce.is_stricter(old_enforce):
        return
    if name_of(new) in settings.namespaces:
        if not new_policy.policy.is_privileged and new_policy.policy != settings.defaults:
            attributes.warnings.add(
                f'namespace "{name_of(new)}" is exempt from Pod Security, and the policy '
                f"({describe_policy(new_policy.policy, labels_of(new))}) will be ignored"
            )
    elif old is not None:
        for warning in await _existing_violations(server, settings, name_of(new), enforce):
            attributes.warnings.add(warning)


async def _existing_violations(
    server: Server, settings: Settings, namespace: str, standard: Standard
) -> list[str]:
    """Return warnings about the pods of a namespace that violate a new standard."""
    store = server.stores.by_name(CORE, "pods")
    entries = await store.cached_entries(namespace)
    pods = _prioritized([entry.tree() for entry in entries], settings)
    names_by_reason: dict[str, list[str]] = {}
    for pod in pods[:MAX_PODS]:
        reasons = ", ".join(violation.reason for violation in standard.violations_of(pod))
        if reasons:
            names_by_reason.setdefault(reasons, []).append(name_of(pod))
    warnings = []
    if len(pods) > MAX_PODS:
        warnings.append(
            "new PodSecurity enforce level only checked against the first "
            f"{MAX_PODS} of {len(pods)} existing pods"
        )
    if names_by_reason:
        warnings.append(
            f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level '
            f'"{standard}"'
        )
    return [
        *warnings,
        *sorted(_pods_text(names, reasons) for reasons, names in names_by_reason.items()),
    ]


def _prioritized(pods: Sequence[Tree], settings: Settings) -> list[Tree]:
    """Return the pods that are not exempt, one of each controller first."""
    first: list[Tree] = []
    other_pods: list[Tree] = []
    controllers: set[str] = set()
    for pod in pods:
        if _is_exempt(pod, settings):
            continue
        owners = metadata_of(pod).get("ownerReferences") or ()
        controller = next((owner.get("uid") for owner in owners if owner.get("controller")), None)
        (other_pods if controller in controllers else first).append(pod)
        if controller is not None:
            controllers.add(controller)
    return first + other_pods


def _pods_text(names: Sequence[str], reasons: str) -> str:
    text, other_count = min(names), len(names) - 1
    if other_count:
        text += f" (and {other_count} other {'pod' if other_count == 1 else 'pods'})"
    return f"{text}: {reasons}"


async def _namespace(server: Server, name: str) -> Tree:
    namespaces = server.stores.by_name(CORE, "namespaces")
    try:
        return (await namespaces.get(ObjectKey("", name), resource_version="0")).tree()
    except NotFound:
        return {}  # NamespaceLifecycle reports a missing namespace
