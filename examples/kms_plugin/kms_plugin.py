"""A KMS v2 plugin whose keys are in a file: it encrypts the seeds of an API server.

Each line of the file is a key: its ID and 32 bytes in base64. The last line is the current key;
append a line to rotate. Old lines decrypt what was stored before, so remove one only after a
migration of the stored objects. The file is read at each call, so that a change takes effect at
once. A real plugin calls a hardware module or a cloud service instead.

    python kms_plugin.py --socket /run/kms.sock --keys keys.txt
"""

from __future__ import annotations

import argparse
import base64
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12

sys.path.insert(0, str(Path(__file__).parent))
messages, services = grpc.protos_and_services("kms.proto")


class KeyFile:
    """The keys of a file, by their IDs; the last one is the current key."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, AESGCM]:
        """Return the keys in the order of the file. Raises ValueError and OSError."""
        keys = {}
        for line in self._path.read_text().splitlines():
            key_id, secret = line.split()
            keys[key_id] = AESGCM(base64.b64decode(secret, validate=True))
        if not keys:
            raise ValueError(f"{self._path} has no keys")
        return keys


class Plugin(services.KeyManagementServiceServicer):
    """The three calls of KMS v2. A seed is authenticated together with the ID of its key."""

    def __init__(self, keys: KeyFile) -> None:
        self._keys = keys

    def Status(self, _request: Any, _context: grpc.ServicerContext) -> Any:
        """Return the ID of the current key; the API server polls it."""
        try:
            key_id = list(self._keys.read())[-1]
        except (OSError, ValueError) as error:
            return messages.StatusResponse(version="v2", healthz=str(error), key_id="none")
        return messages.StatusResponse(version="v2", healthz="ok", key_id=key_id)

    def Encrypt(self, request: Any, _context: grpc.ServicerContext) -> Any:
        """Encrypt with the current key."""
        key_id, key = list(self._keys.read().items())[-1]
        nonce = os.urandom(NONCE_BYTES)
        ciphertext = nonce + key.encrypt(nonce, request.plaintext, key_id.encode())
        return messages.EncryptResponse(ciphertext=ciphertext, key_id=key_id)

    def Decrypt(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Decrypt with the key that the API server names."""
        key = self._keys.read().get(request.key_id)
        if key is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"there is no key {request.key_id}")
            raise AssertionError("abort raises")
        nonce, content = request.ciphertext[:NONCE_BYTES], request.ciphertext[NONCE_BYTES:]
        try:
            plaintext = key.decrypt(nonce, content, request.key_id.encode())
        except InvalidTag:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the ciphertext was changed")
        return messages.DecryptResponse(plaintext=plaintext)


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--socket", type=Path, required=True, help="path of the Unix socket")
    parser.add_argument("--keys", type=Path, required=True, help="file with an ID and key a line")
    options = parser.parse_args()
    os.umask(0o077)  # only this user may connect
    options.socket.unlink(missing_ok=True)
    server = grpc.server(ThreadPoolExecutor(max_workers=8))
    services.add_KeyManagementServiceServicer_to_server(Plugin(KeyFile(options.keys)), server)
    server.add_insecure_port(f"unix:{options.socket.absolute()}")
    server.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    server.stop(grace=1).wait()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main()
