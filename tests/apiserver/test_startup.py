"""Modules that a server does not load before it is ready, and what an import does not compile."""

import subprocess
import sys

DATACLASSES = [
    "kapiserver.api.selectors.Selection",
    "kapiserver.controllers.loop.context.ControllerContext",
    "kapiserver.storage.objects.metadata_informer.DeletedObject",
    "kapiserver.testing.faults.faults.Fault",
    "kapiserver.testing.faults.faults._OpenWatch",
]
"""The dataclasses that an import of the test server makes; other records are msgspec structs."""
FIND_DATACLASSES = """
import dataclasses, sys
import kapiserver.testing.server

modules = [module for name, module in sys.modules.items() if name.startswith("kapiserver")]
classes = {each for module in modules for each in vars(module).values() if isinstance(each, type)}
for each in filter(dataclasses.is_dataclass, classes):
    print(f"{each.__module__}.{each.__qualname__}")
"""
LATER = (
    "kapiserver.api.apiextensions.schema.object_validation",
    "kapiserver.api.formats",
    "kapiserver.api.apply.managed_fields",
    "kapiserver.api.apply.merge_schema",
    "kapiserver.api.apply.structured_merge",
    "kapiserver.apiserver.aggregation.back_ends",
    "kapiserver.apiserver.aggregation.discovery_check",
    "kapiserver.apiserver.aggregation.documents",
    "kapiserver.apiserver.proxy.aggregator",
    "kapiserver.api.patches.strategic_merge_patch",
    "kapiserver.apiserver.endpoints.handlers.create",
    "kapiserver.apiserver.endpoints.handlers.patch",
    "kapiserver.apiserver.debugging.debug_pages",
    "kapiserver.apiserver.debugging.zpages",
    "kapiserver.apiserver.discovery.openapi",
    "kapiserver.codecs.yaml",
    "aiohttp",
    "argparse",
    "cryptography",
    "etcd3",
    "google.protobuf",
    "opentelemetry",
    "jwt",
    "prometheus_client",
    "re2",
    "tracemalloc",
    "yaml",
)
CODE = """
import asyncio, sys
from kapiserver.apiserver.config import Config
from kapiserver.app import serve

async def run():
    async with serve(Config.of(secure_port=None, insecure_port=0)):
        print([name for name in sys.argv[1:] if name in sys.modules])

asyncio.run(run())
"""


def test_lazy_modules() -> None:
    """Handlers of writes, apply, patches and heavy libraries load on first use."""
    command = [sys.executable, "-c", CODE, *LATER]
    completed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert completed.stdout.strip() == "[]"


def test_no_compilation_at_import() -> None:
    """`@dataclass` compiles the methods of a class at import, which takes as long as the rest of
    its module; a msgspec struct compiles nothing."""
    command = [sys.executable, "-c", FIND_DATACLASSES]
    completed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert sorted(completed.stdout.split()) == DATACLASSES
