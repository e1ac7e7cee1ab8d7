"""What the issuer of service account tokens says of itself: OpenID discovery, and its public keys.

Mirrors pkg/routes/openidmetadata.go of kube-apiserver.
"""

from __future__ import annotations

import orjson

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import MethodNotAllowed
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Response, page_not_found

CONFIGURATION = "/.well-known/openid-configuration"
KEYS = "/openid/v1/jwks"
_CACHED = ("Cache-Control", "public, max-age=3600")


async def serve_oidc(server: Server, request: Request) -> AnyResponse:
    """The configuration or the keys."""
    if request.path not in (CONFIGURATION, KEYS):
        return page_not_found()
    if request.method not in ("GET", "HEAD"):
        raise MethodNotAllowed
    tokens = server.authentication.accounts
    if tokens is None:
        return page_not_found()
    if request.path == KEYS:
        media = "application/jwk-set+json"
        tree: object = {"keys": [_jwk(key) for key in tokens.keys]}
    else:
        media = "application/json"
        host = request.header("Host") or f"{server.config.bind_address}"
        tree = {
            "issuer": tokens.issuer,
            "jwks_uri": server.config.service_account_jwks_uri or f"https://{host}{KEYS}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({k.algorithm for k in tokens.keys}),
        }
    return Response(media_type=media, body=orjson.dumps(tree), headers=[_CACHED])


def _jwk(key: object) -> dict[str, str]:
    from jwt.algorithms import get_default_algorithms

    from kapiserver.apiserver.authentication.service_accounts import Key

    assert isinstance(key, Key)
    made = get_default_algorithms()[key.algorithm].to_jwk(key.public, as_dict=True)
    numbers = {name: value for name, value in made.items() if name in ("crv", "x", "y", "n", "e")}
    kind = str(made["kty"])
    return {"use": "sig", "kty": kind, "kid": key.id, "alg": key.algorithm, **numbers}
