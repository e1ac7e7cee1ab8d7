"""Invalid authentication configurations, refused with kube-apiserver's words."""

from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.configuration_files import BadConfiguration
from tests.apiserver.authentication.test_jwt import Login, configuration, run

AT = "https://a.example.com"
BASE: Any = {
    "issuer": {"url": AT, "audiences": ["me"]},
    "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
}


def changed(issuer: Any = None, mappings: Any = None, **parts: Any) -> Any:
    return {
        "issuer": BASE["issuer"] | (issuer or {}),
        "claimMappings": BASE["claimMappings"] | (mappings or {}),
        **parts,
    }


@pytest.mark.parametrize(
    ("authenticators", "message"),
    [
        ([BASE] * 65, "jwt: Too many: 65: must have at most 64 items"),
        ([BASE, BASE], f'jwt[1].issuer.url: Duplicate value: "{AT}"'),
        ([changed({"url": ""})], "jwt[0].issuer.url: Required value"),
        ([changed({"url": "http://a"})], '"http://a": URL scheme must be https'),
        ([changed({"url": "https://u@a"})], "URL must not contain a username or password"),
        ([changed({"url": "https://a?b"})], "URL must not contain a query"),
        ([changed({"url": "https://a#b"})], "URL must not contain a fragment"),
        (
            [changed({"url": "https://sa"})],
            'Invalid value: "https://sa": URL must not overlap with disallowed issuers: '
            "[https://sa]",
        ),
        ([changed({"discoveryURL": f"{AT}/"})], "discoveryURL must be different from URL"),
        ([changed({"certificateAuthority": "x"})], 'Invalid value: "<omitted>"'),
        ([changed({"audiences": []})], "at least one jwt[0].issuer.audiences is required"),
        ([changed({"audiences": [""]})], "jwt[0].issuer.audiences[0]: Required value"),
        (
            [changed({"audiences": ["a", "b"]})],
            "audienceMatchPolicy must be MatchAny for multiple audiences",
        ),
        (
            [changed({"audienceMatchPolicy": "x"})],
            "audienceMatchPolicy must be empty or MatchAny for single audience",
        ),
        (
            [changed(mappings={"username": {}})],
            "jwt[0].claimMappings.username: Required value: claim or expression is required",
        ),
        (
            [changed(mappings={"username": {"claim": "a", "expression": "b"}})],
            "claim and expression can't both be set",
        ),
        ([changed(mappings={"username": {"claim": "a"}})], "prefix is required when claim is set"),
        (
            [changed(mappings={"groups": {"expression": "claims.a", "prefix": ""}})],
            "claimMappings.groups.prefix: Invalid value: \"\": may not be specified when "
            "expression is set",
        ),
        (
            [changed(mappings={"username": {"expression": "claims."}})],
            "claimMappings.username.expression: Invalid value: \"claims.\": compilation failed: "
            "ERROR: <input>:1:8",
        ),
        (
            [changed(mappings={"username": {"expression": "claims.email"}})],
            "claims.email_verified must be used in",
        ),
        (
            [changed(mappings={"uid": {"claim": "a", "expression": "b"}})],
            "uid: Invalid value: \"\": claim and expression can't both be set",
        ),
        (
            [changed(mappings={"extra": [{"key": "a", "valueExpression": "'a'"}]})],
            'must be a domain-prefixed path (such as "acme.io/foo")',
        ),
        (
            [changed(mappings={"extra": [{"key": "a.k8s.io/b", "valueExpression": "'a'"}]})],
            "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use",
        ),
        (
            [changed(mappings={"extra": [{"key": "a.io/B", "valueExpression": "'a'"}]})],
            "must be lowercase",
        ),
        (
            [changed(claimValidationRules=[{"claim": "a", "message": "m"}])],
            "claimValidationRules[0].message: Invalid value: \"m\": may not be specified when "
            "claim is set",
        ),
        (
            [changed(claimValidationRules=[{"expression": "claims.a"}])],
            'claimValidationRules[0].expression: Invalid value: "claims.a": must evaluate to bool',
        ),
        (
            [changed(userValidationRules=[{"expression": "user.other == ''"}])],
            "undefined field 'other'",
        ),
        ([changed(userValidationRules=[{}])], "userValidationRules[0].expression: Required value"),
        ([changed(other=1)], 'unknown field "jwt[0].other"'),
    ],
)  # fmt: skip
def test_bad_configurations(tmp_path: Path, authenticators: Any, message: str) -> None:
    """An invalid configuration is refused with kube-apiserver's words."""

    async def check(_: Login) -> None:
        raise AssertionError("the configuration is accepted")

    with pytest.raises(BadConfiguration) as caught:
        run(tmp_path, configuration(*authenticators), check, service_account_issuer=("https://sa",))
    assert message in str(caught.value)


def test_bad_anonymous(tmp_path: Path) -> None:
    """Conditions need enabled anonymous requests; the flag and the file cannot both decide."""

    async def check(_: Login) -> None:
        raise AssertionError("the configuration is accepted")

    anonymous = {"enabled": False, "conditions": [{"path": "/livez"}]}
    with pytest.raises(BadConfiguration, match="enabled should be set to true"):
        run(tmp_path, configuration(anonymous=anonymous), check)
    enabled = configuration(anonymous={"enabled": True})
    with pytest.raises(BadConfiguration, match="--anonymous-auth cannot be set"):
        run(tmp_path, enabled, check, anonymous_auth=False)
