"""Modules that a server does not load before it is ready."""

import subprocess
import sys

LATER = (
    "kapiserver.api.apiextensions.schema_validation",
    "kapiserver.api.formats",
    "kapiserver.api.managed_fields",
    "kapiserver.api.merge_schema",
    "kapiserver.api.structured_merge",
    "kapiserver.api.patch_strategic",
    "kapiserver.apiserver.endpoints.handlers.create",
    "kapiserver.apiserver.endpoints.handlers.patch",
    "kapiserver.apiserver.discovery.openapi",
    "kapiserver.codecs.yaml",
    "etcd3",
    "jsonpatch",
    "re2",
    "yaml",
)
CODE = """
import asyncio, sys
from kapiserver.apiserver.config import Config
from kapiserver.app import serve

async def run():
    async with serve(Config(secure_port=None, insecure_port=0)):
        print([name for name in sys.argv[1:] if name in sys.modules])

asyncio.run(run())
"""


def test_lazy_modules() -> None:
    """Handlers of writes, apply, patches and heavy libraries load on first use."""
    command = [sys.executable, "-c", CODE, *LATER]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
