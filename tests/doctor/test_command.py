"""The command `kapiserver doctor`: exit statuses, outputs, and servers that do not answer."""

from __future__ import annotations

import base64
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from kapiserver.cli import main
from kapiserver.doctor.checks import INSTALLATION_CHECKS, SERVER_CHECKS
from kapiserver.testing.server import TestServer
from tests.doctor.examined import write_certificate
from tests.e2e.programs import start, stop
from tests.storage.etcd_server import free_port


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)


def _report(capsys: pytest.CaptureFixture[str], *flags: str, status: int = 0) -> Any:
    assert main(["doctor", "--output=json", *flags]) == status
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        ([], 0),
        (["--insecure-port=8080"], 0),
        (["--insecure-port=8080", "--strict"], 1),
        (["--authorization-mode=AlwaysAllow"], 1),
        (["--oidc-client-id=x"], 2),
        (["--kubeconfig=missing"], 2),
        (["--previous=missing"], 2),
    ],
)
def test_exit_status(flags: list[str], status: int) -> None:
    """0 without errors, 1 with findings that count, 2 if the command cannot run."""
    assert main(["doctor", *flags]) == status
    assert os.listdir(".") == []  # nothing was written


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    """A finding says how bad it is, what it is about, what is wrong and what to do."""
    main(["doctor", "--insecure-port=8080", "--authorization-mode=AlwaysAllow"])
    output = capsys.readouterr()
    assert output.out.startswith(
        "error    --authorization-mode=AlwaysAllow  [unsafe-settings]\n"
        "         everybody who reaches the port may do everything, without credentials\n"
        "         -> use --authorization-mode=Node,RBAC\n"
    )
    assert "\nwarning  --insecure-port  [unsafe-settings]\n" in output.out
    assert output.err.startswith(f"{len(INSTALLATION_CHECKS)} checks: 1 error, ")


def test_server_of_kubeconfig(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --kubeconfig only the checks of a server run. A later report says what has grown."""
    with TestServer() as server:
        flag = f"--kubeconfig={server.kubeconfig}"
        report = _report(capsys, flag)
        assert report["checks"] == [check.name for check in SERVER_CHECKS]
        assert [each["check"] for each in report["findings"]] == ["version"]
        assert report["figures"]["clusterroles.rbac.authorization.k8s.io"] > 50
        report["figures"]["clusterroles.rbac.authorization.k8s.io"] = 1
        Path("earlier.json").write_text(json.dumps(report))
        monkeypatch.setattr("kapiserver.doctor.server_health.GROWN_OBJECTS", 1)
        later = _report(capsys, flag, "--previous=earlier.json")
        assert later["checks"][-1] == "growth"
        # Others grow, too: the flow schemas are made some seconds after the start.
        grown = [each["about"] for each in later["findings"]]
        assert "clusterroles.rbac.authorization.k8s.io" in grown


def test_user_without_rights(capsys: pytest.CaptureFixture[str]) -> None:
    """What the user may not read is said, and is no error."""
    with TestServer() as server:
        token = server.add_token("nobody")
        kubeconfig = server.write_kubeconfig("default", token=token)
        report = _report(capsys, f"--kubeconfig={kubeconfig}")
    messages = [each["message"] for each in report["findings"]]
    assert sum(message.startswith("was not examined: ") for message in messages) > 5


def test_server_that_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """A server that does not answer is one error."""
    cluster = {"server": f"https://127.0.0.1:{free_port()}"}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a"}}],
        "clusters": [{"name": "a", "cluster": cluster}],
    }
    Path("kubeconfig").write_text(json.dumps(kubeconfig))
    report = _report(capsys, "--kubeconfig=kubeconfig", status=1)
    (finding,) = report["findings"]
    assert (finding["check"], finding["about"]) == ("connection", cluster["server"])


def test_foreign_authority(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server whose CA the kubeconfig does not have is one error, whose remedy names the CA."""
    foreign = base64.b64encode(write_certificate(tmp_path).read_bytes()).decode()
    with TestServer() as server:
        text = re.sub(
            "certificate-authority-data: .*",
            f"certificate-authority-data: {foreign}",
            server.kubeconfig_text,
        )
        Path("kubeconfig").write_text(text)
        report = _report(capsys, "--kubeconfig=kubeconfig", status=1)
    (finding,) = report["findings"]
    assert "certificate verify failed" in finding["message"]
    assert "CA" in finding["remedy"]


def test_running_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The server of the flags is examined if it runs, and its port is not an error then."""
    server = start(tmp_path)
    try:
        flags = (
            f"--data-dir={tmp_path}/data", f"--cert-dir={tmp_path}/certificates",
            f"--kubeconfig-out={server.kubeconfig}",
            f"--secure-port={server.url.rpartition(':')[2]}",
        )  # fmt: skip
        report = _report(capsys, *flags)
        assert len(report["checks"]) == len(INSTALLATION_CHECKS) + len(SERVER_CHECKS)
        assert report["figures"]["bytes of kapiserver.db"] > 0
    finally:
        assert stop(server) == 0
    report = _report(capsys, *flags)
    assert report["checks"] == [check.name for check in INSTALLATION_CHECKS]
    assert report["findings"][-1]["check"] == "connection"
