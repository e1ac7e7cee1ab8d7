"""The types of an AuthorizationConfiguration, and what is valid in it.

Mirrors pkg/apis/apiserver/types.go and pkg/apis/apiserver/validation of k8s.io/apiserver.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath

from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    invalid,
    not_supported,
    not_supported_in_order,
    required,
    too_many,
)
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.names import dns1123_subdomain
from kapiserver.api.types import Kind, Tree, Type, field
from kapiserver.apiserver.authorization.match_conditions import compile_condition
from kapiserver.apiserver.configuration_files import decode_configuration
from kapiserver.apiserver.durations import parse_duration

WEBHOOK = "Webhook"
MAX_TIMEOUT = 30.0
MAX_CONDITIONS = 64


class AuthorizationConfiguration(Kind):
    """The file of `--authorization-config`."""

    authorizers: list[AuthorizerConfiguration] = field(1, always=True)


class AuthorizerConfiguration(Type):
    """One authorizer: a mode of `--authorization-mode`, and the settings of a webhook."""

    type: str = field(1, always=True)
    name: str = field(2, always=True)
    webhook: WebhookConfiguration | None = field(3)


class WebhookConfiguration(Type):
    """How a webhook is called and what its decisions are worth; durations as in `5m`."""

    authorizedTTL: str = field(1)
    cacheAuthorizedRequests: bool | None = field(2)
    unauthorizedTTL: str = field(3)
    cacheUnauthorizedRequests: bool | None = field(4)
    timeout: str = field(5)
    subjectAccessReviewVersion: str = field(6, always=True)
    matchConditionSubjectAccessReviewVersion: str = field(7)
    failurePolicy: str = field(8, always=True)
    connectionInfo: WebhookConnectionInfo = field(9)
    matchConditions: list[WebhookMatchCondition] = field(10)


class WebhookConnectionInfo(Type):
    """Where the webhook is."""

    type: str = field(1, always=True)
    kubeConfigFile: str | None = field(2)


class WebhookMatchCondition(Type):
    """A CEL expression; the webhook is asked about a request if all are true."""

    expression: str = field(1, always=True)


_GROUP = "apiserver.config.k8s.io"
_KIND = "AuthorizationConfiguration"
_KINDS = {
    GroupVersionKind(_GROUP, version, _KIND): AuthorizationConfiguration
    for version in ("v1", "v1beta1", "v1alpha1")
}


def decode_authorization_configuration(
    data: bytes, file: FilePath, purpose: str, types: frozenset[str]
) -> Tree:
    """Return the configuration in the content of a file; `types` are the types of authorizers
    that exist. Raises BadConfiguration."""

    def validate(tree: Tree) -> Iterator[FieldError]:
        return _errors(_defaulted(tree), types)

    return _defaulted(decode_configuration(data, file, _KINDS, purpose=purpose, validate=validate))


def _defaulted(tree: Tree) -> Tree:
    """Return a configuration with the default lifetimes of decisions."""
    authorizers = [
        {**authorizer, "webhook": _with_lifetimes(authorizer["webhook"])}
        if authorizer.get("webhook")
        else authorizer
        for authorizer in tree.get("authorizers") or ()
    ]
    return {**tree, "authorizers": authorizers}


def _with_lifetimes(webhook: Tree) -> Tree:
    return {
        **webhook,
        "authorizedTTL": webhook.get("authorizedTTL") or "5m0s",
        "unauthorizedTTL": webhook.get("unauthorizedTTL") or "30s",
    }


def _errors(tree: Tree, types: frozenset[str]) -> Iterator[FieldError]:
    path = Path("authorizers")
    authorizers = tree["authorizers"]
    if not authorizers:
        yield required(path, "at least one authorization mode must be defined")
    seen_types, seen_names = set[str](), set[str]()
    for index, authorizer in enumerate(authorizers):
        kind, name = authorizer.get("type") or "", authorizer.get("name") or ""
        if not kind:
            yield required(path[index] / "type")
        elif kind not in types:
            yield not_supported(path[index] / "type", kind, sorted(types))
        elif kind in seen_types and kind != WEBHOOK:
            yield duplicate(path[index] / "type", kind)
        else:
            seen_types.add(kind)
            yield from _name_errors(name, seen_names, path[index] / "name")
            seen_names.add(name)
            yield from _settings_errors(authorizer, path[index])


def _name_errors(name: str, seen: set[str], path: Path) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    elif name in seen:
        yield duplicate(path, name)
    elif problems := dns1123_subdomain(name):
        yield invalid(path, name, f"authorizer name is invalid: {', '.join(problems)}")


def _settings_errors(authorizer: Tree, path: Path) -> Iterator[FieldError]:
    webhook = authorizer.get("webhook")
    if authorizer["type"] != WEBHOOK:
        if webhook is not None:
            detail = "may only be specified when type=Webhook"
            yield invalid(path / "webhook", "non-null", detail)
    elif webhook is None:
        yield required(path / "webhook", "required when type=Webhook")
    else:  # kube-apiserver's paths have no `webhook`, either
        yield from _duration_errors(webhook, path)
        yield from _version_errors(webhook, path)
        yield from _connection_errors(webhook.get("connectionInfo") or {}, path / "connectionInfo")
        yield from _condition_errors(webhook.get("matchConditions") or (), path / "matchConditions")


def _duration_errors(webhook: Tree, path: Path) -> Iterator[FieldError]:
    for name, limit, detail in (
        ("timeout", MAX_TIMEOUT, "must be > 0s and <= 30s"),
        ("authorizedTTL", None, "must be > 0s"),
        ("unauthorizedTTL", None, "must be > 0s"),
    ):
        text = webhook.get(name) or ""
        seconds = parse_duration(text)
        if not text or seconds == 0:
            yield required(path / name)
        elif seconds is None or (limit is not None and seconds > limit):
            yield invalid(path / name, text, detail)


def _version_errors(webhook: Tree, path: Path) -> Iterator[FieldError]:
    field_name = "subjectAccessReviewVersion"
    yield from _choice_errors(webhook.get(field_name), ("v1", "v1beta1"), path / field_name)
    field_name = "matchConditionSubjectAccessReviewVersion"
    version = webhook.get(field_name)
    if version:
        yield from _choice_errors(version, ("v1",), path / field_name)
    elif webhook.get("matchConditions"):
        yield required(path / field_name, "required if match conditions are specified")
    policy = webhook.get("failurePolicy")
    yield from _choice_errors(policy, ("NoOpinion", "Deny"), path / "failurePolicy")


def _choice_errors(value: str | None, allowed: tuple[str, ...], path: Path) -> Iterator[FieldError]:
    if not value:
        yield required(path)
    elif value not in allowed:
        yield not_supported_in_order(path, value, allowed)


def _connection_errors(connection: Tree, path: Path) -> Iterator[FieldError]:
    kind, file = connection.get("type") or "", connection.get("kubeConfigFile")
    yield from _choice_errors(kind, ("InClusterConfig", "KubeConfigFile"), path / "type")
    path = path / "kubeConfigFile"
    if kind == "InClusterConfig" and file is not None:
        yield invalid(path, file, "can only be set when type=KubeConfigFile")
    elif kind == "KubeConfigFile":
        if not file:
            yield required(path, "required when type=KubeConfigFile")
        elif not FilePath(file).is_absolute():
            yield invalid(path, file, "must be an absolute path")
        elif problem := _file_problem(FilePath(file)):
            yield invalid(path, file, problem)


def _file_problem(file: FilePath) -> str:
    try:
        mode = file.stat().st_mode
    except (OSError, ValueError) as error:
        return f"error loading file: {error}"
    return "" if stat.S_ISREG(mode) else "must be a regular file"


def _condition_errors(conditions: Sequence[Tree], path: Path) -> Iterator[FieldError]:
    if len(conditions) > MAX_CONDITIONS:
        yield too_many(path, len(conditions), MAX_CONDITIONS)
        return
    seen = set[str]()
    for index, condition in enumerate(conditions):
        text = condition.get("expression") or ""
        field_path = path[index] / "expression"
        if not text.strip():
            yield required(field_path)
        elif text in seen:
            yield duplicate(field_path, text)
        else:
            seen.add(text)
            try:
                compile_condition(text)
            except ValueError as error:
                yield invalid(field_path, text, f"compilation failed: {error}")
