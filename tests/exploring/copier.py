"""An operator for tests of explorations, with the standard library and PyYAML, so that it starts
fast: each ConfigMap with the label `copy` gets a Secret of the same name.

Arguments switch faults on: `forgets` does not look at what is there when it starts, `overwrites`
replaces Secrets without their resourceVersion, and `listens` occupies the port PORT.
"""

import base64
import http.client
import json
import os
import socket
import ssl
import sys
import time
from pathlib import Path

import yaml

FAULTS = sys.argv[1:]
SELECTOR = "labelSelector=copy"
CONFIG_MAPS, SECRETS = (f"/api/v1/namespaces/default/{name}" for name in ("configmaps", "secrets"))


class Refused(Exception):
    """The server refused a request."""


class Client:
    """Sends requests to the server of KUBECONFIG."""

    def __init__(self) -> None:
        config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.address = cluster["server"].removeprefix("https://")
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.ssl = ssl.create_default_context(cadata=ca)
        self.headers = {"Authorization": f"Bearer {user['token']}", "User-Agent": "copier"}
        self.connection = self.connect()

    def connect(self) -> http.client.HTTPSConnection:
        """Return a new connection."""
        return http.client.HTTPSConnection(self.address, context=self.ssl)

    def call(self, method: str, path: str, body: object = None, **headers: str) -> dict:
        """Return the response to a request. Raises Refused, OSError."""
        data = None if body is None else json.dumps(body)
        self.connection.request(
            method, path, data, {**self.headers, "Content-Type": "application/json", **headers}
        )
        response = self.connection.getresponse()
        result = json.loads(response.read())
        if response.status >= 400:
            raise Refused(response.status, result["message"])
        return result

    def events(self, path: str):
        """Yield the events of a watch."""
        connection = self.connect()
        connection.request("GET", path, headers=self.headers)
        for line in connection.getresponse():
            yield json.loads(line)


def reconcile(client: Client, config_map: dict) -> None:
    """Make the Secret of a ConfigMap what it should be."""
    name = config_map["metadata"]["name"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": name}
    secret = {
        "metadata": {
            "name": name,
            "ownerReferences": [owner | {"uid": config_map["metadata"]["uid"]}],
        },
        "stringData": config_map.get("data", {}),
    }
    try:
        client.call("POST", SECRETS, secret)
    except Refused as error:
        if error.args[0] != 409:
            raise
    if "overwrites" in FAULTS:
        client.call("PUT", f"{SECRETS}/{name}", secret)
    else:
        patch = {"stringData": secret["stringData"]}
        merge = {"Content-Type": "application/merge-patch+json"}
        client.call("PATCH", f"{SECRETS}/{name}", patch, **merge)
    client.call(
        "PATCH",
        f"{CONFIG_MAPS}/{name}",
        {"metadata": {"annotations": {"copied": "yes"}}},
        **{"Content-Type": "application/merge-patch+json"},
    )


def occupy_port() -> socket.socket:
    """Listen on the port of the environment; without it, end the operator."""
    try:
        return socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
    except OSError as error:
        sys.exit(str(error))


def main() -> None:
    """Run until the end of the process."""
    client = Client()
    listener = None
    while True:
        try:
            items = client.call("GET", f"{CONFIG_MAPS}?{SELECTOR}")
            for item in () if "forgets" in FAULTS else items["items"]:
                reconcile(client, item)
            if "listens" in FAULTS and listener is None:
                listener = occupy_port()
            version = items["metadata"]["resourceVersion"]
            path = f"{CONFIG_MAPS}?{SELECTOR}&watch=1&resourceVersion={version}"
            for event in client.events(path):
                if event["type"] in ("ADDED", "MODIFIED"):
                    reconcile(client, event["object"])
        except (OSError, http.client.HTTPException, Refused) as error:
            print("try again:", error, flush=True)
            client.connection = client.connect()
            time.sleep(0.05)


main()
