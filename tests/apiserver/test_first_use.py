"""The first request for a kind compiles nothing on the event loop."""

import subprocess
import sys

PROGRAM = """
import asyncio, json, sys, threading
from kapiserver.apiserver.config import Config
from kapiserver.app import serve
from kapiserver.codecs.codegen import FunctionSource

compiled = []
compile_source = FunctionSource.compile

def record(source, label, **names):
    compiled.append((label, threading.get_ident()))
    return compile_source(source, label, **names)

FunctionSource.compile = record
POD = {
    "metadata": {"name": "first"},
    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
}

async def send(port, method, path, media="application/json", body=b""):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"{method} /api/v1/namespaces/default/{path} HTTP/1.1\\r\\nHost: localhost\\r\\n"
        f"Accept: {media}\\r\\nContent-Type: application/json\\r\\n"
        f"Connection: close\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n"
    )
    writer.write(head.encode() + body)
    response = await reader.read()
    writer.close()
    return int(response.split()[1])

async def main():
    async with serve(Config.of(secure_port=None, insecure_port=0)) as running:
        port = int(running.url.rpartition(":")[2])
        assert await send(port, "POST", "pods", body=json.dumps(POD).encode()) == 201
        for media in ("application/json", "application/yaml", "application/cbor"):
            assert await send(port, "GET", "pods/first", media) == 200
    of_pods = [thread for label, thread in compiled if label.split()[-1] == "PodSpec"]
    assert of_pods
    assert threading.get_ident() not in of_pods, compiled
    assert "kapiserver.apiserver.admission.plugins.pod_security" in sys.modules

asyncio.run(main())
"""


def test_first_pod() -> None:
    """Decoders, encoders and validation of the first pod are compiled in threads."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=120)
