"""The flags of authentication."""

from __future__ import annotations

import argparse
from pathlib import Path

from kapiserver.flags.values import DEFAULTS, boolean, names, pair, seconds


def add_authentication_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags of users, issuers of tokens and service accounts."""
    _add_users(group)
    add_request_header_flags(group)
    _add_tokens(group)
    _add_jwt(group)
    _add_service_accounts(group)


def add_client_ca_flag(group: argparse._ArgumentGroup) -> None:
    """Add the flag of the CAs of client certificates."""
    group.add_argument(
        "--client-ca-file", type=Path, metavar="FILE",
        help="PEM file of CA certificates. A client certificate that one of them signed "
        "authenticates its common name as the user and its organizations as the groups. "
        "Default: only the CA in --cert-dir is trusted; it always is.",
    )  # fmt: skip


def _add_users(group: argparse._ArgumentGroup) -> None:
    add_client_ca_flag(group)
    group.add_argument(
        "--token-auth-file", type=Path, metavar="FILE",
        help='CSV file of static bearer tokens, a line each: token,user,uid,"group1,group2". '
        "The groups may be left out. It is read again when it changes. Default: no static tokens.",
    )  # fmt: skip
    group.add_argument(
        "--anonymous-auth", type=boolean, default=True, metavar="BOOL",
        help="Accept requests without credentials, as user system:anonymous in group "
        "system:unauthenticated; false answers them with 401. Default: true.",
    )  # fmt: skip


def _add_tokens(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--enable-bootstrap-token-auth", type=boolean, nargs="?", const=True, default=False,
        metavar="BOOL",
        help="Accept the tokens of Secrets of type bootstrap.kubernetes.io/token in kube-system, "
        "with which nodes join the cluster. Default: false.",
    )  # fmt: skip
    group.add_argument(
        "--authentication-token-webhook-config-file", type=Path, metavar="FILE",
        help="kubeconfig of a webhook that recognizes bearer tokens: it gets a TokenReview for "
        "each token that no other authenticator recognizes. Default: no webhook.",
    )  # fmt: skip
    group.add_argument(
        "--authentication-token-webhook-cache-ttl", type=seconds, metavar="DURATION",
        default=DEFAULTS.authentication_token_webhook_cache_ttl,
        help="How long a verdict of the authentication webhook is used; 0 asks it for each "
        "request. Default: 2m.",
    )  # fmt: skip
    group.add_argument(
        "--authentication-token-webhook-version", choices=("v1", "v1beta1"),
        default=DEFAULTS.authentication_token_webhook_version,
        help="Version of the TokenReviews that the authentication webhook gets. "
        "Default: %(default)s.",
    )  # fmt: skip


def add_request_header_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags of front proxies."""
    group.add_argument(
        "--requestheader-client-ca-file", type=Path, metavar="FILE",
        help="PEM file of the CAs of front proxies: a proxy that shows a client certificate of one "
        "of them names the user in headers. Default: no proxy is trusted.",
    )  # fmt: skip
    group.add_argument(
        "--requestheader-allowed-names", type=names, default=(), metavar="NAME,...",
        help="Common names that the certificate of a front proxy may have. Default: any.",
    )  # fmt: skip
    for attribute, text in (
        ("username", "the user's name, such as X-Remote-User; the first one with a value counts"),
        ("uid", "the user's uid, such as X-Remote-Uid; the first one with a value counts"),
        ("group", "the user's groups, such as X-Remote-Group; all values count"),
    ):
        group.add_argument(
            f"--requestheader-{attribute}-headers", type=names, default=(), metavar="NAME,...",
            help=f"Headers in which a front proxy sends {text}. Default: none.",
        )  # fmt: skip
    group.add_argument(
        "--requestheader-extra-headers-prefix", type=names, default=(), metavar="PREFIX,...",
        help="Prefixes of the headers in which a front proxy sends the user's extra fields, such "
        "as X-Remote-Extra-. Default: none.",
    )  # fmt: skip


def _add_jwt(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--authentication-config", type=Path, metavar="FILE",
        help="YAML or JSON file with an AuthenticationConfiguration of apiserver.config.k8s.io: "
        "issuers of JSON Web Tokens with their audiences, claim mappings and rules, and the paths "
        "that anonymous users may request. It is read again when it changes. Excludes the "
        "--oidc-* flags. Default: no file.",
    )  # fmt: skip
    group.add_argument(
        "--oidc-issuer-url", default="", metavar="URL",
        help="HTTPS URL of an OpenID Connect issuer whose JSON Web Tokens authenticate users. "
        "Needs --oidc-client-id. Default: no issuer.",
    )  # fmt: skip
    group.add_argument(
        "--oidc-client-id", default="", metavar="NAME",
        help="Audience that the tokens of --oidc-issuer-url must have; each flag needs the other. "
        "Default: none.",
    )  # fmt: skip
    group.add_argument(
        "--oidc-ca-file", type=Path, metavar="FILE",
        help="PEM file of the CAs that may sign the certificate of --oidc-issuer-url. Default: "
        "those of the operating system.",
    )  # fmt: skip
    group.add_argument(
        "--oidc-username-claim", default=DEFAULTS.oidc_username_claim, metavar="CLAIM",
        help="Claim with the user's name; email counts only if it is verified. "
        "Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--oidc-username-prefix", default="", metavar="TEXT",
        help="Text before the names of users; - for none. Default: the issuer's URL and #, and "
        "nothing before an email.",
    )  # fmt: skip
    group.add_argument(
        "--oidc-groups-claim", default="", metavar="CLAIM",
        help="Claim with the user's groups, a string or a list of strings. Default: no groups.",
    )  # fmt: skip
    group.add_argument(
        "--oidc-groups-prefix", default="", metavar="TEXT",
        help="Text before the names of groups, such as oidc:. Default: nothing.",
    )  # fmt: skip
    group.add_argument(
        "--oidc-required-claim", action="append", type=pair, metavar="CLAIM=VALUE",
        help="Claim that a token must have, with its value. May be repeated. Default: no claim.",
    )  # fmt: skip
    group.add_argument(
        "--oidc-signing-algs", type=names, default=DEFAULTS.oidc_signing_algs, metavar="NAME,...",
        help="Algorithms with which tokens of --oidc-issuer-url may be signed: RS256, RS384, "
        "RS512, ES256, ES384, ES512, PS256, PS384, PS512. "
        f"Default: {','.join(DEFAULTS.oidc_signing_algs)}.",
    )  # fmt: skip


def _add_service_accounts(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--service-account-issuer", action="append", metavar="URL",
        help="Issuer of service account tokens. If repeated, new tokens name the first, and "
        f"tokens of all are accepted. Default: {DEFAULTS.service_account_issuer[0]}.",
    )  # fmt: skip
    group.add_argument(
        "--service-account-key-file", action="append", type=Path, metavar="FILE",
        help="PEM file with RSA or ECDSA keys, public or private, that verify service account "
        "tokens. May be repeated. The signing key verifies too. "
        "Default: the signing key alone.",
    )  # fmt: skip
    group.add_argument(
        "--service-account-signing-key-file", type=Path, metavar="FILE",
        help="PEM file with the RSA or ECDSA private key that signs service account tokens. "
        "Default: sa.key in --cert-dir, created if missing; with --service-account-key-file, a "
        "key that is lost when the server stops.",
    )  # fmt: skip
    group.add_argument(
        "--service-account-jwks-uri", default="", metavar="URL",
        help="URI of the issuer's JSON Web Key Set, shown at /.well-known/openid-configuration. "
        "Default: /openid/v1/jwks of this server.",
    )  # fmt: skip
    group.add_argument(
        "--service-account-extend-token-expiration", type=boolean, nargs="?", const=True,
        default=True, metavar="BOOL",
        help="Let the tokens in Pods live for a year instead of an hour, for programs that read "
        "them once; the audit log marks their use after the hour. Default: true.",
    )  # fmt: skip
    group.add_argument(
        "--service-account-max-token-expiration", type=seconds, default=0.0, metavar="DURATION",
        help="Longest validity of new service account tokens, from 1h on; a request for more gets "
        "this and a warning. 0 means no limit. Default: 0.",
    )  # fmt: skip
    group.add_argument(
        "--api-audiences", type=names, default=(), metavar="NAME,...",
        help="Identifiers of this API; a service account token must have one of them as an "
        "audience. Default: the values of --service-account-issuer.",
    )  # fmt: skip
