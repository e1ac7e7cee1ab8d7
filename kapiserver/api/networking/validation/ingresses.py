"""Validation of ingresses and ingress classes."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import addresses, names
from kapiserver.api.accessors import annotations_of, value_at
from kapiserver.api.core.validation.common import (
    validate_domain_prefixed_path,
    validate_format,
    validate_required_format,
)
from kapiserver.api.core.validation.services import validate_load_balancer_hostname
from kapiserver.api.errors import (
    FieldError,
    Path,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.types import Tree

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_SPEC = Path("spec")
_CONTROLLER_MAX = 250
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_SCOPES = ("Cluster", "Namespace")
_NOT_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AT_END = ("/..", "/.")
_IS_IP = "must be a DNS name, not an IP address"


def validate_ingress(obj: Tree) -> Iterator[FieldError]:
    """Validate a new ingress."""
    spec = obj.get("spec") or {}
    yield from _validate_ingress_spec(spec)
    annotation, class_ = annotations_of(obj).get(CLASS_ANNOTATION), spec.get("ingressClassName")
    if annotation is not None and class_ is not None and annotation != class_:
        detail = "must match `ingressClassName` when both are specified"
        yield invalid(Path("annotations") / CLASS_ANNOTATION, annotation, detail)


def validate_ingress_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated ingress. Invalid secret names, and invalid rules of wildcard hosts, may
    stay."""
    old_spec = old.get("spec") or {}
    had_invalid_secrets = any(
        _validate_secret_name(tls, Path()) for tls in old_spec.get("tls") or ()
    )
    had_invalid_wildcards = any(
        "*" in (rule.get("host") or "") and any(_validate_http(rule, Path()))
        for rule in old_spec.get("rules") or ()
    )
    for error in _validate_ingress_spec(
        new.get("spec") or {}, skip_wildcard_hosts=had_invalid_wildcards
    ):
        if not (had_invalid_secrets and str(error.path).endswith(".secretName")):
            yield error


def _validate_ingress_spec(
    spec: Tree, *, skip_wildcard_hosts: bool = False
) -> Iterator[FieldError]:
    backend, rules = spec.get("defaultBackend"), spec.get("rules") or ()
    if not rules and backend is None:
        detail = "either `defaultBackend` or `rules` must be specified"
        yield invalid(_SPEC, spec.get("rules"), detail)
    if backend is not None:
        yield from _validate_backend(backend, _SPEC / "defaultBackend")
    for index, rule in enumerate(rules):
        field_path, host = (_SPEC / "rules")[index], rule.get("host") or ""
        if host:
            if addresses.address_of(host) is not None:
                yield invalid(field_path / "host", host, _IS_IP)
            yield from _validate_host(host, field_path / "host")
        if not ("*" in host and skip_wildcard_hosts):
            yield from _validate_http(rule, field_path)
    for index, tls in enumerate(spec.get("tls") or ()):
        field_path = (_SPEC / "tls")[index]
        for number, host in enumerate(tls.get("hosts") or ()):
            yield from _validate_host(host, (field_path / "hosts")[number])
        yield from _validate_secret_name(tls, field_path)
    class_ = spec.get("ingressClassName")
    if class_ is not None:
        yield from validate_format(names.dns1123_subdomain, class_, _SPEC / "ingressClassName")


def _validate_host(host: str, path: Path) -> Iterator[FieldError]:
    check = names.wildcard_subdomain if "*" in host else names.dns1123_subdomain
    return validate_format(check, host, path)


def _validate_secret_name(tls: Tree, path: Path) -> list[FieldError]:
    name = tls.get("secretName") or ""
    return list(validate_format(names.dns1123_subdomain, name, path / "secretName")) if name else []


def _validate_http(rule: Tree, path: Path) -> Iterator[FieldError]:
    if rule.get("http") is None:
        return
    paths, paths_path = rule["http"].get("paths") or (), path / "http" / "paths"
    if not paths:
        yield required(paths_path)
    for index, http_path in enumerate(paths):
        yield from _validate_http_path(http_path, paths_path[index])


def _validate_http_path(http_path: Tree, path: Path) -> Iterator[FieldError]:
    path_type = http_path.get("pathType")
    text = http_path.get("path") or ""
    text_path = path / "path"
    if path_type is None:
        yield required(path / "pathType", "pathType must be specified")
        return
    if path_type not in _PATH_TYPES:
        yield not_supported(path / "pathType", path_type, _PATH_TYPES)
    elif path_type == "ImplementationSpecific":
        if text and not text.startswith("/"):
            yield invalid(text_path, text, "must be an absolute path")
    else:
        if not text.startswith("/"):
            yield invalid(text_path, text, "must be an absolute path")
        for part in _NOT_IN_PATHS:
            if part in text:
                yield invalid(text_path, text, f"must not contain '{part}'")
        for end in _NOT_AT_END:
            if text.endswith(end):
                yield invalid(text_path, text, f"cannot end with '{end}'")
    yield from _validate_backend(http_path.get("backend") or {}, path / "backend")


def _validate_backend(backend: Tree, path: Path) -> Iterator[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _validate_reference(resource, path / "resource")
    elif service is not None:
        service_path, port = path / "service", service.get("port") or {}
        yield from validate_required_format(
            names.dns1123_label, service.get("name"), service_path / "name"
        )
        name, number = port.get("name"), port.get("number")
        if name and number:
            yield invalid(path, "", "cannot set both port name & port number")
        elif name:
            yield from validate_format(names.port_name, name, service_path / "port" / "name")
        elif number:
            for message in names.port_number(number):
                yield invalid(service_path / "port" / "number", number, message)
        else:
            yield required(path, "port name or number is required")
    else:
        yield invalid(path, "", "resource or service backend is required")


def _validate_reference(reference: Tree, path: Path) -> Iterator[FieldError]:
    group = reference.get("apiGroup")
    if group is not None:
        yield from validate_format(names.dns1123_subdomain, group, path / "apiGroup")
    for name in ("kind", "name"):
        if reference.get(name):
            yield from validate_format(names.path_segment, reference[name], path / name)
        else:
            yield required(path / name)


def validate_ingress_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate the load balancer status of an ingress."""
    entries, old_entries = (
        value_at(entry, "status", "loadBalancer", "ingress") or () for entry in (new, old)
    )
    old_ips = [entry["ip"] for entry in old_entries if entry.get("ip")]
    for index, entry in enumerate(entries):
        entry_path = (Path("status") / "loadBalancer" / "ingress")[index]
        if entry.get("ip"):
            yield from validate_format(
                addresses.ip, entry["ip"], entry_path / "ip", old_values=old_ips
            )
        yield from validate_load_balancer_hostname(
            entry.get("hostname") or "", entry_path / "hostname"
        )


def validate_ingress_class(obj: Tree) -> Iterator[FieldError]:
    """Validate a new or updated ingress class."""
    spec = obj.get("spec") or {}
    controller = spec.get("controller") or ""
    if len(controller) > _CONTROLLER_MAX:
        yield too_long(_SPEC / "controller", _CONTROLLER_MAX)
    yield from validate_domain_prefixed_path(controller, _SPEC / "controller")
    if spec.get("parameters") is not None:
        yield from _validate_parameters(spec["parameters"], _SPEC / "parameters")


def _validate_parameters(parameters: Tree, path: Path) -> Iterator[FieldError]:
    yield from _validate_reference(parameters, path)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    namespace_path = path / "namespace"
    if scope is None:
        yield required(path / "scope")
    elif scope not in _SCOPES:
        yield not_supported(path / "scope", scope, _SCOPES)
    elif scope == "Cluster":
        if namespace is not None:
            yield forbidden(namespace_path, "`parameters.scope` is set to 'Cluster'")
    elif namespace is None:
        yield required(namespace_path, "`parameters.scope` is set to 'Namespace'")
    else:
        yield from validate_format(names.dns1123_label, namespace, namespace_path)


def validate_ingress_class_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated ingress class. Its controller is immutable."""
    controller = value_at(new, "spec", "controller") or ""
    old_controller = value_at(old, "spec", "controller") or ""
    yield from immutable(controller, old_controller, _SPEC / "controller")
    yield from validate_ingress_class(new)
