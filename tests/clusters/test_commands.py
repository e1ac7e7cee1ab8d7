"""`kapiserver clusters`: the commands, and what they say when there is no such cluster."""

from __future__ import annotations

import pytest
import yaml

from kapiserver.cli import main
from tests.clusters.clusterkit import Kit

MISSING = 'clusters.clusters.kapiserver.dev "missing" not found'


def test_life_of_a_cluster(kit: Kit, capsys: pytest.CaptureFixture[str]) -> None:
    """A created cluster is listed, its kubeconfig can be printed again, and it can be deleted."""
    flags = ("--kubeconfig", str(kit.server.kubeconfig))
    assert main(["clusters", "create", "command", *flags]) == 0
    created = capsys.readouterr().out
    assert yaml.safe_load(created)["clusters"][0]["cluster"]["server"].endswith("/clusters/command")
    assert main(["clusters", "kubeconfig", "command", *flags]) == 0
    assert capsys.readouterr().out == created
    assert main(["clusters", "list", *flags]) == 0
    assert f"Ready   {kit.server.url}/clusters/command\n" in capsys.readouterr().out
    assert main(["clusters", "delete", "command", *flags]) == 0
    assert capsys.readouterr().out == "cluster command deleted\n"


@pytest.mark.parametrize("command", ["kubeconfig", "delete"])
def test_missing_cluster(kit: Kit, capsys: pytest.CaptureFixture[str], command: str) -> None:
    """The error names the cluster."""
    flags = ("--kubeconfig", str(kit.server.kubeconfig))
    assert main(["clusters", command, "missing", *flags]) == 1
    assert capsys.readouterr().err == f"kapiserver: {MISSING}\n"
