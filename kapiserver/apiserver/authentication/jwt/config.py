"""The types of an AuthenticationConfiguration, and what is valid in it.

Mirrors pkg/apis/apiserver/types.go and pkg/apis/apiserver/validation of k8s.io/apiserver.
"""

from __future__ import annotations

import ssl
from collections.abc import Collection, Iterator, Sequence
from urllib.parse import urlsplit

from kapiserver.api.core.validation.common import validate_domain_prefixed_path
from kapiserver.api.errors import FieldError, Path, duplicate, invalid, required, too_many
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import Kind, Tree, Type, field
from kapiserver.apiserver.authentication.jwt.expressions import (
    CLAIMS,
    USER,
    Variable,
    compile_program,
    selects,
)

MATCH_ANY = "MatchAny"
MAX_AUTHENTICATORS = 64


class AuthenticationConfiguration(Kind):
    """The file of `--authentication-config`."""

    jwt: list[JWTAuthenticator] = field(1, always=True)
    anonymous: AnonymousAuthConfig | None = field(2)


class AnonymousAuthConfig(Type):
    """Which requests without credentials are accepted."""

    enabled: bool = field(1, always=True)
    conditions: list[AnonymousAuthCondition] = field(2)


class AnonymousAuthCondition(Type):
    """A path for which anonymous requests are accepted."""

    path: str = field(1, always=True)


class JWTAuthenticator(Type):
    """The tokens of one issuer."""

    issuer: Issuer = field(1)
    claimValidationRules: list[ClaimValidationRule] = field(2)
    claimMappings: ClaimMappings = field(3)
    userValidationRules: list[UserValidationRule] = field(4)


class Issuer(Type):
    """The issuer of tokens, and their audiences."""

    url: str = field(1, always=True)
    discoveryURL: str | None = field(2)
    certificateAuthority: str = field(3)
    audiences: list[str] = field(4, always=True)
    audienceMatchPolicy: str = field(5)
    egressSelectorType: str = field(6)


class ClaimValidationRule(Type):
    """A claim with the value that it must have, or a condition on all claims."""

    claim: str = field(1)
    requiredValue: str = field(2)
    expression: str = field(3)
    message: str = field(4)


class ClaimMappings(Type):
    """How the claims become a user."""

    username: PrefixedClaimOrExpression = field(1)
    groups: PrefixedClaimOrExpression = field(2)
    uid: ClaimOrExpression = field(3)
    extra: list[ExtraMapping] = field(4)


class PrefixedClaimOrExpression(Type):
    """A claim with a prefix, or an expression."""

    claim: str = field(1)
    prefix: str | None = field(2)
    expression: str = field(3)


class ClaimOrExpression(Type):
    """A claim, or an expression."""

    claim: str = field(1)
    expression: str = field(2)


class ExtraMapping(Type):
    """An extra attribute of the user."""

    key: str = field(1, always=True)
    valueExpression: str = field(2, always=True)


class UserValidationRule(Type):
    """A condition on the user."""

    expression: str = field(1, always=True)
    message: str = field(2)


KINDS: dict[GroupVersionKind, type[Kind]] = {
    GroupVersionKind("apiserver.config.k8s.io", version, "AuthenticationConfiguration"): (
        AuthenticationConfiguration
    )
    for version in ("v1", "v1beta1", "v1alpha1")
}


def configuration_errors(tree: Tree, disallowed_issuers: Collection[str]) -> Iterator[FieldError]:
    """Yield the errors of an AuthenticationConfiguration; `disallowed_issuers` are those of service
    account tokens."""
    root, authenticators = Path("jwt"), tree.get("jwt") or ()
    if len(authenticators) > MAX_AUTHENTICATORS:
        yield too_many(root, len(authenticators), MAX_AUTHENTICATORS)
        return
    urls: set[str] = set()
    discovery_urls: set[str] = set()
    for index, authenticator in enumerate(authenticators):
        path = root[index]
        yield from _authenticator_errors(authenticator, disallowed_issuers, path)
        issuer = authenticator.get("issuer") or {}
        for name, seen in (("url", urls), ("discoveryURL", discovery_urls)):
            value = issuer.get(name) or ""
            if value in seen:
                yield duplicate(path / "issuer" / name, value)
            elif value or name == "url":
                seen.add(value)
    anonymous = tree.get("anonymous") or {}
    if anonymous.get("conditions") and not anonymous.get("enabled"):
        yield invalid(
            Path("anonymous") / "conditions",
            anonymous["conditions"],
            "enabled should be set to true when conditions are defined",
        )


def _authenticator_errors(
    tree: Tree, disallowed_issuers: Collection[str], path: Path
) -> Iterator[FieldError]:
    yield from _issuer_errors(tree.get("issuer") or {}, disallowed_issuers, path / "issuer")
    rules = tree.get("claimValidationRules") or ()
    yield from _claim_rule_errors(rules, path / "claimValidationRules")
    mappings = tree.get("claimMappings") or {}
    yield from _mapping_errors(mappings, path / "claimMappings")
    yield from _email_errors(mappings, rules, path / "claimMappings")
    yield from _user_rule_errors(
        tree.get("userValidationRules") or (), path / "userValidationRules"
    )


def _issuer_errors(
    issuer: Tree, disallowed_issuers: Collection[str], path: Path
) -> Iterator[FieldError]:
    url, discovery_url = issuer.get("url") or "", issuer.get("discoveryURL") or ""
    if not url:
        yield required(path / "url")
    else:
        yield from _url_errors(url, disallowed_issuers, path / "url")
    if discovery_url:
        if url and url.rstrip("/") == discovery_url.rstrip("/"):
            yield invalid(
                path / "discoveryURL", discovery_url, "discoveryURL must be different from URL"
            )
        yield from _url_errors(discovery_url, (), path / "discoveryURL")
    yield from _audience_errors(issuer, path)
    authority = issuer.get("certificateAuthority") or ""
    if authority:
        try:
            ssl.create_default_context(cadata=authority)
        except (ValueError, ssl.SSLError):
            yield invalid(
                path / "certificateAuthority",
                "<omitted>",
                "data does not contain any valid RSA or ECDSA certificates",
            )
    if issuer.get("egressSelectorType"):
        yield invalid(
            path / "egressSelectorType",
            issuer["egressSelectorType"],
            "egress selectors are not supported",
        )


def _url_errors(url: str, disallowed_issuers: Collection[str], path: Path) -> Iterator[FieldError]:
    if url in disallowed_issuers:
        names = " ".join(sorted(disallowed_issuers))
        yield invalid(path, url, f"URL must not overlap with disallowed issuers: [{names}]")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        yield invalid(path, url, str(error))
        return
    if parts.scheme != "https":
        yield invalid(path, url, "URL scheme must be https")
    if "@" in parts.netloc:
        yield invalid(path, url, "URL must not contain a username or password")
    if parts.query:
        yield invalid(path, url, "URL must not contain a query")
    if parts.fragment:
        yield invalid(path, url, "URL must not contain a fragment")


def _audience_errors(issuer: Tree, path: Path) -> Iterator[FieldError]:
    audiences = issuer.get("audiences") or ()
    if not audiences:
        yield required(path / "audiences", f"at least one {path / 'audiences'} is required")
        return
    seen: set[str] = set()
    for index, audience in enumerate(audiences):
        item = (path / "audiences")[index]
        if not audience:
            yield required(item)
        if audience in seen:
            yield duplicate(item, audience)
        seen.add(audience)
    policy = issuer.get("audienceMatchPolicy") or ""
    if len(audiences) > 1 and policy != MATCH_ANY:
        detail = "audienceMatchPolicy must be MatchAny for multiple audiences"
        yield invalid(path / "audienceMatchPolicy", policy, detail)
    if len(audiences) == 1 and policy not in ("", MATCH_ANY):
        detail = "audienceMatchPolicy must be empty or MatchAny for single audience"
        yield invalid(path / "audienceMatchPolicy", policy, detail)


def _claim_rule_errors(rules: Sequence[Tree], path: Path) -> Iterator[FieldError]:
    claims: set[str] = set()
    expressions: set[str] = set()
    for index, rule in enumerate(rules):
        item = path[index]
        claim, expression = rule.get("claim") or "", rule.get("expression") or ""
        if claim and expression:
            yield invalid(item, claim, "claim and expression can't both be set")
        elif not claim and not expression:
            yield required(item, "claim or expression is required")
        elif claim:
            if rule.get("message"):
                detail = "may not be specified when claim is set"
                yield invalid(item / "message", rule["message"], detail)
            if claim in claims:
                yield duplicate(item / "claim", claim)
            claims.add(claim)
        else:
            if rule.get("requiredValue"):
                detail = "may not be specified when expression is set"
                yield invalid(item / "requiredValue", rule["requiredValue"], detail)
            if expression in expressions:
                yield duplicate(item / "expression", expression)
                continue
            expressions.add(expression)
            yield from _expression_errors(expression, item / "expression", CLAIMS, is_rule=True)


def _user_rule_errors(rules: Sequence[Tree], path: Path) -> Iterator[FieldError]:
    expressions: set[str] = set()
    for index, rule in enumerate(rules):
        item, expression = path[index] / "expression", rule.get("expression") or ""
        if not expression:
            yield required(item)
        elif expression in expressions:
            yield duplicate(item, expression)
        else:
            expressions.add(expression)
            yield from _expression_errors(expression, item, USER, is_rule=True)


def _expression_errors(
    expression: str, path: Path, variable: Variable, *, is_rule: bool = False
) -> Iterator[FieldError]:
    try:
        program = compile_program(expression, variable)
    except ValueError as error:
        yield invalid(path, expression, f"compilation failed: {error}")
        return
    if is_rule and program.cel_type.name != "bool":
        yield invalid(path, expression, "must evaluate to bool")


def _mapping_errors(mappings: Tree, path: Path) -> Iterator[FieldError]:
    yield from _prefixed_errors(mappings.get("username") or {}, path / "username", needed=True)
    yield from _prefixed_errors(mappings.get("groups") or {}, path / "groups", needed=False)
    uid = mappings.get("uid") or {}
    if uid.get("claim") and uid.get("expression"):
        yield invalid(path / "uid", "", "claim and expression can't both be set")
    elif uid.get("expression"):
        yield from _expression_errors(uid["expression"], path / "uid" / "expression", CLAIMS)
    keys: set[str] = set()
    for index, extra in enumerate(mappings.get("extra") or ()):
        item, key = (path / "extra")[index], extra.get("key") or ""
        yield from _key_errors(key, item / "key")
        if key in keys:
            yield duplicate(item / "key", key)
            continue
        keys.add(key)
        if not extra.get("valueExpression"):
            yield required(item / "valueExpression")
        else:
            expression = extra["valueExpression"]
            yield from _expression_errors(expression, item / "valueExpression", CLAIMS)


def _key_errors(key: str, path: Path) -> Iterator[FieldError]:
    yield from validate_domain_prefixed_path(key, path)
    if key != key.lower():
        yield invalid(path, key, "must be lowercase")
    domain, slash, _ = key.partition("/")
    if slash and f".{domain}".endswith((".kubernetes.io", ".k8s.io")):
        detail = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
        yield invalid(path, key, detail)


def _prefixed_errors(mapping: Tree, path: Path, *, needed: bool) -> Iterator[FieldError]:
    claim, expression = mapping.get("claim") or "", mapping.get("expression") or ""
    prefix = mapping.get("prefix")
    if claim and expression:
        yield invalid(path, "", "claim and expression can't both be set")
    elif expression:
        if prefix is not None:
            detail = "may not be specified when expression is set"
            yield invalid(path / "prefix", prefix, detail)
        yield from _expression_errors(expression, path / "expression", CLAIMS)
    elif claim:
        if prefix is None:
            detail = (
                "prefix is required when claim is set. It can be set to an empty string to disable "
                "prefixing"
            )
            yield required(path / "prefix", detail)
    elif needed:
        yield required(path, "claim or expression is required")


def _email_errors(mappings: Tree, rules: Sequence[Tree], path: Path) -> Iterator[FieldError]:
    """Yield an error if the user's name comes from an e-mail address that no expression requires to
    be verified."""
    username = (mappings.get("username") or {}).get("expression") or ""
    if not selects(username, "claims", "email"):
        return
    extra = mappings.get("extra") or ()
    expressions = [
        username,
        *(rule.get("expression") or "" for rule in rules),
        *(mapping.get("valueExpression") or "" for mapping in extra),
    ]
    if not any(selects(expression, "claims", "email_verified") for expression in expressions):
        yield invalid(
            path / "username" / "expression",
            username,
            "claims.email_verified must be used in claimMappings.username.expression or "
            "claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when "
            "claims.email is used in claimMappings.username.expression",
        )
