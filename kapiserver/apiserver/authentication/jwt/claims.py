"""Maps the claims of a verified token to a user, by the rules of an AuthenticationConfiguration.

Mirrors plugin/pkg/authenticator/token/oidc of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.authenticator import InvalidCredentials
from kapiserver.apiserver.authentication.jwt.expressions import CLAIMS, USER, evaluate
from kapiserver.apiserver.user import (
    CREDENTIAL_ID,
    User,
    user_info,
    with_authenticated,
)

_INT64 = 1 << 63


class ClaimMapper:
    """The rules of one issuer; `tree` is a valid JWTAuthenticator."""

    def __init__(self, tree: Tree) -> None:
        self._mappings: Tree = tree.get("claimMappings") or {}
        self._claim_rules = tree.get("claimValidationRules") or ()
        self._user_rules = tree.get("userValidationRules") or ()

    def user(self, claims: Mapping[str, Any]) -> User:
        """Return the user whom the claims describe. Raises InvalidCredentials if they break a rule
        or lack a claim."""
        tree = _with_cel_numbers(dict(claims))
        self._check_claims(tree)
        name = self._username(tree)
        user = User(
            name=name,
            uid=self._uid(tree),
            groups=self._groups(tree),
            extra=self._extra(tree),
        )
        self._check_user(user)
        # Rules may forbid groups with the prefix "system:"; they judge only what the token says.
        return replace(user, groups=with_authenticated(name, user.groups))

    def _username(self, claims: Tree) -> str:
        mapping = self._mappings["username"]
        if mapping.get("expression"):
            name = evaluate(mapping["expression"], CLAIMS, claims)
            if not isinstance(name, str):
                raise InvalidCredentials("oidc: username claim expression must return a string")
            if not name:
                raise InvalidCredentials("oidc: empty username via CEL expression is not allowed")
            return name
        claim = mapping["claim"]
        name = claims.get(claim)
        if not isinstance(name, str):
            raise InvalidCredentials(f'oidc: parse username claims "{claim}": no string')
        verified = claims.get("email_verified", True) if claim == "email" else True
        if verified is not True:
            raise InvalidCredentials("oidc: email not verified")
        return f"{mapping.get('prefix') or ''}{name}"

    def _groups(self, claims: Tree) -> tuple[str, ...]:
        mapping = self._mappings.get("groups") or {}
        if mapping.get("expression"):
            return _texts(evaluate(mapping["expression"], CLAIMS, claims), "groups")
        claim = mapping.get("claim") or ""
        if not claim or claims.get(claim) is None:
            return ()
        groups = claims[claim]
        groups = [groups] if isinstance(groups, str) else groups
        if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
            raise InvalidCredentials(f'oidc: parse groups claim "{claim}": no list of strings')
        prefix = mapping.get("prefix") or ""
        return tuple(f"{prefix}{group}" for group in groups)

    def _uid(self, claims: Tree) -> str:
        mapping = self._mappings.get("uid") or {}
        if mapping.get("expression"):
            uid = evaluate(mapping["expression"], CLAIMS, claims)
        elif mapping.get("claim"):
            uid = claims.get(mapping["claim"])
        else:
            return ""
        if not isinstance(uid, str):
            raise InvalidCredentials("oidc: the uid is not a string")
        return uid

    def _extra(self, claims: Tree) -> Mapping[str, tuple[str, ...]]:
        extra: dict[str, tuple[str, ...]] = {}
        if isinstance(claims.get("jti"), str) and claims["jti"]:
            extra[CREDENTIAL_ID] = (f"JTI={claims['jti']}",)
        for mapping in self._mappings.get("extra") or ():
            values = _texts(evaluate(mapping["valueExpression"], CLAIMS, claims), mapping["key"])
            if values:
                extra[mapping["key"]] = values
        return extra

    def _check_claims(self, claims: Tree) -> None:
        for rule in self._claim_rules:
            if rule.get("claim"):
                claim, required_value = rule["claim"], rule.get("requiredValue") or ""
                if claim not in claims:
                    raise InvalidCredentials(
                        f"oidc: required claim {claim} not present in ID token"
                    )
                if claims[claim] != required_value:
                    raise InvalidCredentials(f"oidc: required claim {claim} value does not match")
            else:
                _check_rule(rule, evaluate(rule["expression"], CLAIMS, claims))

    def _check_user(self, user: User) -> None:
        if self._user_rules:
            tree = {"username": "", "uid": "", "groups": [], "extra": {}} | user_info(user)
            for rule in self._user_rules:
                _check_rule(rule, evaluate(rule["expression"], USER, tree))


def _check_rule(rule: Tree, value: Any) -> None:
    if value is not True:
        reason = f": {rule['message']}" if rule.get("message") else ""
        expression = rule["expression"]
        raise InvalidCredentials(f"oidc: validation expression '{expression}' failed{reason}")


def _texts(value: Any, expression: str) -> tuple[str, ...]:
    """Return the strings that an expression yields: those of a list, one, or none for null. Empty
    strings are left out."""
    values = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        text = "expression must return a string or a list of strings"
        raise InvalidCredentials(f"oidc: error evaluating {expression}: {text}")
    return tuple(filter(None, values))


def _with_cel_numbers(value: Any) -> Any:
    """Return a value whose integers fit in 64 bits; larger ones become floats, as in Go."""
    if isinstance(value, dict):
        return {name: _with_cel_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_cel_numbers(item) for item in value]
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        try:
            return float(value)
        except OverflowError:
            raise InvalidCredentials("a number of the token is too large") from None
    return value
