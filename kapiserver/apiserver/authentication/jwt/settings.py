"""The AuthenticationConfiguration of a server: the file of `--authentication-config`, or the one
that the `--oidc-*` flags stand for, or the issuers of a logical cluster.

Mirrors pkg/kubeapiserver/options/authentication.go of kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from kapiserver.api.scheme import ConfigurationScheme
from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.jwt.config import KINDS, configuration_errors
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.configuration_files import BadConfiguration, decode_configuration
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.json import JSONSerializer, encode_value

PURPOSE = "authentication configuration"


def decode_authentication_configuration(file: Path, config: Config, data: bytes) -> Tree:
    """Return the configuration in the content of a file. Raises BadConfiguration."""
    tree = decode_configuration(
        data,
        file,
        KINDS,
        purpose=PURPOSE,
        validate=lambda tree: configuration_errors(
            tree, config.service_accounts.service_account_issuer
        ),
    )
    if tree.get("anonymous") is not None and not config.authentication.anonymous_auth:
        raise BadConfiguration(
            "--anonymous-auth cannot be set when the authentication configuration file "
            f"{file} sets anonymous"
        )
    return tree


def configuration_of_flags(config: Config) -> Tree:
    """Return the configuration of the `--oidc-*` flags. Raises BadConfiguration."""
    url, claim, prefix = (
        config.oidc.oidc_issuer_url,
        config.oidc.oidc_username_claim,
        config.oidc.oidc_username_prefix,
    )
    if not prefix and claim != "email":
        prefix = f"{url}#"
    issuer: Tree = {"url": url, "audiences": [config.oidc.oidc_client_id]}
    if config.oidc.oidc_ca_file is not None:
        try:
            issuer["certificateAuthority"] = config.oidc.oidc_ca_file.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise BadConfiguration(f"cannot read {config.oidc.oidc_ca_file}: {error}") from error
    mappings: Tree = {"username": {"claim": claim, "prefix": "" if prefix == "-" else prefix}}
    if config.oidc.oidc_groups_claim:
        groups = {"claim": config.oidc.oidc_groups_claim, "prefix": config.oidc.oidc_groups_prefix}
        mappings["groups"] = groups
    rules = [
        {"claim": name, "requiredValue": value} for name, value in config.oidc.oidc_required_claim
    ]
    tree: Tree = {
        "jwt": [{"issuer": issuer, "claimMappings": mappings, "claimValidationRules": rules}]
    }
    problems = [
        str(error)
        for error in configuration_errors(tree, config.service_accounts.service_account_issuer)
    ]
    if problems:
        raise BadConfiguration(f"--oidc-* flags: {', '.join(problems)}")
    return tree


def configuration_of_issuers(issuers: Sequence[Tree], disallowed_issuers: Collection[str]) -> Tree:
    """Return the configuration with these JWTAuthenticators, as a client wrote them;
    `disallowed_issuers` are those of service account tokens. Raises BadConfiguration."""
    kind = next(iter(KINDS))
    data = encode_value({"jwt": issuers})
    try:
        decoded = JSONSerializer(ConfigurationScheme(KINDS)).decode(data, defaults=kind)
    except CodecError as error:
        raise BadConfiguration(str(error)) from error
    errors = map(str, configuration_errors(decoded.object, disallowed_issuers))
    problems = [*decoded.strict_errors, *errors]
    if problems:
        raise BadConfiguration(", ".join(problems))
    return decoded.object
