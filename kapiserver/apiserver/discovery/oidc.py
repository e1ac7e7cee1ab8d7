"""OpenID discovery of the issuer of service account tokens, and its JSON Web Key Set.

Mirrors pkg/routes/openidmetadata.go of kube-apiserver.
"""

from __future__ import annotations

import orjson

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.go_restful import check_accept
from kapiserver.apiserver.errors import MethodNotAllowed
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Response, page_not_found

CONFIGURATION = "/.well-known/openid-configuration"
KEY_SET = "/openid/v1/jwks"
_JSON = "application/json"
_KEY_SET_TYPE = "application/jwk-set+json"
_CACHE_CONTROL = ("Cache-Control", "public, max-age=3600")


async def serve_oidc(server: Server, request: Request) -> AnyResponse:
    """Return the issuer's configuration or its keys. Raises MethodNotAllowed,
    RouteNotAcceptable."""
    if request.path not in (CONFIGURATION, KEY_SET):
        return page_not_found()
    media = _KEY_SET_TYPE if request.path == KEY_SET else _JSON
    if request.method != "GET":
        raise MethodNotAllowed
    check_accept(request.header("Accept"), (media,))
    tokens = server.service_account_tokens
    if tokens is None:
        return page_not_found()
    if request.path == KEY_SET:
        tree: object = {"keys": [_jwk(key) for key in tokens.keys]}
    else:
        host = request.header("Host") or f"{server.config.serving.bind_address}"
        tree = {
            "issuer": tokens.issuer,
            "jwks_uri": server.config.service_accounts.service_account_jwks_uri
            or f"https://{host}{KEY_SET}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({k.algorithm for k in tokens.keys}),
        }
    return Response(media_type=media, body=orjson.dumps(tree), headers=[_CACHE_CONTROL])


def _jwk(key: object) -> dict[str, str]:
    from jwt.algorithms import get_default_algorithms

    from kapiserver.apiserver.authentication.service_accounts.keys import Key

    assert isinstance(key, Key)
    fields = get_default_algorithms()[key.algorithm].to_jwk(key.public, as_dict=True)
    numbers = {name: value for name, value in fields.items() if name in ("crv", "x", "y", "n", "e")}
    kind = str(fields["kty"])
    return {"use": "sig", "kty": kind, "kid": key.id, "alg": key.algorithm, **numbers}
