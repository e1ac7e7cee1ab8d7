"""TCP with mutual TLS, and a server without grpcio or without RPC."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import Credentials, ensure_certificates
from kapiserver.cli import main
from kapiserver.rpc.calls import GroupRunner, Limits
from kapiserver.rpc.groups.discovery.v1 import api_pb2
from kapiserver.rpc.groups.discovery.v1.client_generated import DiscoveryClient
from kapiserver.rpc.serving import Addresses, TLSFiles, serve_rpc
from tests.rpc.groups import EXAMPLES, ROOT, Client, Probe, dummy, probe


def _channel(port: int, files: Credentials, *, authenticate: bool) -> grpc.aio.Channel:
    credentials = grpc.ssl_channel_credentials(
        root_certificates=files.ca.read_bytes(),
        private_key=files.admin.key.read_bytes() if authenticate else None,
        certificate_chain=files.admin.certificate.read_bytes() if authenticate else None,
    )
    return grpc.aio.secure_channel(f"localhost:{port}", credentials)


def test_mutual_tls(tmp_path: Path) -> None:
    """One port serves all groups and their discovery. The user is that of the certificate; a
    client without one is refused."""
    files = ensure_certificates(Config(), tmp_path)
    tls = TLSFiles(certificate=files.serving.certificate, key=files.serving.key, client_ca=files.ca)

    async def run() -> None:
        implementation = Probe()
        groups = [dummy(), probe(lambda: implementation)]
        runners = [GroupRunner(group, Limits()) for group in groups]
        addresses = Addresses(tcp="127.0.0.1:0", tls=tls)
        async with serve_rpc(runners, addresses) as listening:
            assert listening.sockets == []
            async with _channel(listening.port, files, authenticate=True) as channel:
                client = Client(channel, groups[1].versions[0])
                assert (await client("Echo", text="x")).text == "x"
                client = Client(channel, groups[0].versions[1])
                assert (await client("ComputeDouble", input32=4)).response32 == 8
                answer = await DiscoveryClient(channel).list_groups(api_pb2.ListGroupsRequest())
                assert [group.name for group in answer.groups] == ["dummy", "probe"]
            async with _channel(listening.port, files, authenticate=False) as channel:
                client = Client(channel, groups[1].versions[0])
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await client("Echo", text="x")
                assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
            async with grpc.aio.insecure_channel(f"localhost:{listening.port}") as channel:
                with pytest.raises(grpc.aio.AioRpcError):
                    await Client(channel, groups[1].versions[0])("Echo", text="x")
        (call,) = implementation.calls
        assert call.user is not None
        assert call.user.name == "kubernetes-admin"
        assert call.user.groups == ("system:masters", "system:authenticated")

    asyncio.run(run())


def test_one_port_has_one_service_of_a_name(tmp_path: Path) -> None:
    files = TLSFiles(certificate=tmp_path, key=tmp_path, client_ca=tmp_path)

    async def run() -> None:
        runners = [GroupRunner(probe(), Limits()) for _ in range(2)]
        with pytest.raises(ValueError, match=r"same service: probe\.v1\.Probe"):
            async with serve_rpc(runners, Addresses(tcp="127.0.0.1:0", tls=files)):
                pass

    asyncio.run(run())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "--socket-dir or --bind-address must be set"),
        (["--bind-address=:0"], "must be set together"),
        (["--socket-dir=x", "--client-ca-file=x"], "must be set together"),
    ],
)
def test_flags_of_addresses(flags: list[str], words: str, capsys) -> None:
    assert main(["rpc", "serve", str(EXAMPLES), *flags]) == 1
    assert words in capsys.readouterr().err


def _run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_without_the_extra(tmp_path: Path) -> None:
    """gRPC needs the extra and says so; the same groups over HTTP do not."""
    program = (
        "import asyncio, sys; from pathlib import Path\n"
        "sys.modules['grpc'] = None\n"
        "from kapiserver.rpc.api_server import ServedGroups\n"
        "groups = ServedGroups(Path('examples/rpc'), with_storage=True)\n"
        "print([each.group.name for each in groups.call_groups])\n"
        "from kapiserver.cli import main\n"
        f"sys.exit(main(['rpc', 'serve', 'examples/rpc', '--socket-dir', {str(tmp_path)!r}]))\n"
    )
    result = _run(program)
    assert result.stdout == "['dummy.rpc', 'shelf.rpc', 'storage.kapiserver']\n"
    assert result.returncode == 1
    assert "serving RPC needs the package grpc" in result.stderr
    assert "pip install 'kapiserver[rpc]'" in result.stderr


def test_a_server_without_rpc_imports_nothing_of_it() -> None:
    program = (
        "import asyncio, sys\n"
        "from kapiserver.cli import parser\n"
        "from kapiserver.server_config import config_of\n"
        "from kapiserver.app import serve\n"
        "from kapiserver.apiserver.config import Config\n"
        "async def run():\n"
        "    async with serve(Config.of(secure_port=None, insecure_port=0)):\n"
        "        pass\n"
        "config_of(parser().parse_args(['serve']))\n"
        "asyncio.run(run())\n"
        "names = ('grpc', 'google.protobuf', 'kapiserver.rpc.')\n"
        "print([name for name in sys.modules if name.startswith(names)])\n"
    )
    result = _run(program)
    assert (result.stdout, result.stderr) == ("[]\n", "")
