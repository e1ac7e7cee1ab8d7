"""The ConfigMap cluster-info is signed with the bootstrap tokens."""

from __future__ import annotations

import base64
import json

import jwt

from kapiserver.controllers.tokens.bootstrap_signer import detached_signature
from tests.controllers.waiting import wait_until

SECRETS = "/api/v1/namespaces/kube-system/secrets"
MAPS = "/api/v1/namespaces/kube-public/configmaps"


def token_secret(token_id, secret, **data):
    data = {"token-id": token_id, "token-secret": secret, "usage-bootstrap-signing": "true"} | data
    return {
        "metadata": {"name": f"bootstrap-token-{token_id}"},
        "type": "bootstrap.kubernetes.io/token",
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }


def test_signature():
    """A JWT library verifies the signature once the text is put back."""
    head, payload, signature = detached_signature("text", "abcdef", "s" * 32).split(".")
    assert payload == ""
    whole = f"{head}.{base64.urlsafe_b64encode(b'text').rstrip(b'=').decode()}.{signature}"
    decoded = jwt.PyJWS().decode_complete(whole, "s" * 32, algorithms=["HS256"])
    assert decoded["payload"] == b"text"
    assert decoded["header"] == {"alg": "HS256", "kid": "abcdef"}


def test_cluster_info(make_server):
    """There is one signature for each token that may sign; others are removed. The controller has
    the rights of its roles."""
    api = make_server(controllers=("*", "bootstrapsigner")).api
    for secret in (
        token_secret("aaaaaa", "0123456789abcdef"),
        token_secret("bbbbbb", "0123456789abcdef", **{"usage-bootstrap-signing": "false"}),
        token_secret("cccccc", "0123456789abcdef", expiration="2020-01-01T00:00:00Z"),
    ):
        assert api.post(SECRETS, secret).status == 201
    data = {"kubeconfig": "text", "jws-kubeconfig-dddddd": "old", "other": "kept"}
    body = {"metadata": {"name": "cluster-info"}, "data": data}
    assert api.post(MAPS, body).status == 201

    def is_signed(obj):
        return obj is not None and "jws-kubeconfig-dddddd" not in obj["data"]

    signed = wait_until(api, MAPS, "cluster-info", is_signed)["data"]
    assert signed == {
        "kubeconfig": "text",
        "other": "kept",
        "jws-kubeconfig-aaaaaa": detached_signature("text", "aaaaaa", "0123456789abcdef"),
    }
    api.delete(f"{SECRETS}/bootstrap-token-aaaaaa")
    unsigned = wait_until(
        api, MAPS, "cluster-info", lambda obj: "jws-kubeconfig-aaaaaa" not in obj["data"]
    )
    assert json.loads(json.dumps(unsigned["data"])) == {"kubeconfig": "text", "other": "kept"}
