"""`kapiserver certificates`: certificates of an extension API server that runs in a cluster.

A Job of the cluster runs it, as kube-webhook-certgen is run for webhooks.
"""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path

from kapiserver.api.resource_client import Client, StatusError
from kapiserver.apiserver.serving.tls.credentials import write_serving_certificate
from kapiserver.storage.cache.entry import ObjectKey

_FILES = ("ca.crt", "tls.crt", "tls.key")


async def install_certificates(
    client: Client, *, service: ObjectKey, secret: str, api_service: str
) -> None:
    """Make a CA and a certificate of a Service, store them in a Secret of its namespace, and write
    the CA into an APIService. Raises StatusError."""
    namespace = service.namespace
    data = _new_certificates(service)
    secrets = client.resource("v1", "secrets", namespace=namespace)
    content = {"data": data, "type": "kubernetes.io/tls"}
    try:
        await secrets.create({"metadata": {"name": secret, "namespace": namespace}, **content})
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise
        await secrets.patch(secret, {"data": data})
    api_services = client.resource("apiregistration.k8s.io/v1", "apiservices")
    await api_services.patch(api_service, {"spec": {"caBundle": data["ca.crt"]}})


def _new_certificates(service: ObjectKey) -> dict[str, str]:
    """Return the files of a CA and a certificate, in base64."""
    name = f"{service.name}.{service.namespace}.svc"
    with tempfile.TemporaryDirectory(prefix="kapiserver-") as folder:
        write_serving_certificate(Path(folder), (name, f"{name}.cluster.local"))
        return {file: base64.b64encode(Path(folder, file).read_bytes()).decode() for file in _FILES}
