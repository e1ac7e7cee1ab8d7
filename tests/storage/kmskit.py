"""KMS plugins of tests: the one of `examples/kms_plugin`, and one in this process whose failures a
test decides."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kapiserver.storage.encryption.kms_messages import KeySource, StatusResponse
from kapiserver.storage.encryption.kms_provider import KMSError

PLUGIN = Path(__file__).parent.parent.parent / "examples/kms_plugin/kms_plugin.py"


def no_kms(_settings: object) -> Any:
    """Refuse KMS providers, of which the configuration has none."""
    raise AssertionError("the configuration has a KMS provider")


def add_key(file: Path, key_id: str) -> None:
    """Make a new key the current one of the plugin with this key file."""
    with file.open("a") as opened:
        opened.write(f"{key_id} {base64.b64encode(os.urandom(32)).decode()}\n")


@contextmanager
def running_plugin(socket: Path, keys: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the plugin of the examples until the block ends."""
    command = [sys.executable, str(PLUGIN), "--socket", str(socket), "--keys", str(keys)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


class Plugin:
    """A plugin in this process, which "encrypts" a seed by writing its key ID before it.

    key_id, healthz, version    what it reports
    problem                     why all its calls fail; "" if they do not
    calls                       how often each call succeeded
    """

    def __init__(self) -> None:
        self.key_id, self.healthz, self.version = "k1", "ok", "v2"
        self.encrypts_with = ""
        self.problem = ""
        self.calls: dict[str, int] = {}
        self.is_closed = False

    def _call(self, name: str) -> None:
        if self.problem:
            raise KMSError(self.problem)
        self.calls[name] = self.calls.get(name, 0) + 1

    async def status(self) -> StatusResponse:
        self._call("status")
        return StatusResponse(self.version, self.healthz, self.key_id)

    async def encrypt(self, plaintext: bytes) -> KeySource:
        self._call("encrypt")
        key_id = self.encrypts_with or self.key_id
        return KeySource(key_id, key_id.encode() + b":" + plaintext, {"a.example.com": b"note"})

    async def decrypt(self, source: KeySource) -> bytes:
        self._call("decrypt")
        key_id, _, plaintext = source.encrypted.partition(b":")
        assert key_id.decode() == source.key_id
        return plaintext

    def close(self) -> None:
        self.is_closed = True
