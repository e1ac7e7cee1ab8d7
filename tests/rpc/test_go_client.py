"""A Go client that learns the calls from reflection."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.rpc.groups import dummy, served

SOURCE = Path(__file__).parent / "go_client"
GO = shutil.which("go")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(GO is None, reason="there is no Go toolchain"),
]


@pytest.fixture(scope="module", name="program")
def _program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert GO is not None
    if subprocess.run([GO, "mod", "download"], cwd=SOURCE, check=False).returncode:
        pytest.skip("the Go modules of the client cannot be downloaded")
    program = tmp_path_factory.mktemp("go") / "client"
    subprocess.run([GO, "build", "-o", program, "."], cwd=SOURCE, check=True)
    return program


def test_both_versions(program: Path, tmp_path: Path) -> None:
    """A response, a flag and an error, over the sockets of both versions."""

    async def call(*arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            program, *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        output, _ = await process.communicate()
        return output.decode()

    async def run() -> None:
        async with served(tmp_path, [dummy()]) as listening:
            v1, v1alpha1 = (str(path) for path in listening.sockets[:2])
            assert await call(v1, "v1.Dummy", "input", "21") == "response 42\n"
            assert await call(v1, "v1.Dummy", "input", str(2**62)) == "overflow true\n"
            assert await call(v1alpha1, "v1alpha1.Dummy", "input32", "21") == "response32 42\n"
            assert await call(v1alpha1, "v1alpha1.Dummy", "input32", str(2**30)) == (
                "OutOfRange response32: 2147483648 does not fit into int32\n"
            )

    asyncio.run(run())
