"""The cluster of the tests: a server that runs already and simulates nodes."""

import os
import subprocess
from pathlib import Path


class KindCluster:
    """What the tests of kr8s use of a cluster; KIND_KUBECONFIG and KIND_KUBECTL name its files."""

    def __init__(self, name: str, image: str | None = None) -> None:
        self.name = name
        self.kubeconfig_path = Path(os.environ["KIND_KUBECONFIG"])
        self.kubectl_path = Path(os.environ["KIND_KUBECTL"])

    def create(self) -> None:
        """Run the pods that every cluster of kind has in the namespace kube-system."""
        self.kubectl("create", "deployment", "coredns", "--image=coredns", "-n=kube-system")
        self.kubectl("rollout", "status", "deployment/coredns", "-n=kube-system")

    def kubectl(self, *arguments: str) -> str:
        """Return the output of a kubectl command."""
        command = [str(self.kubectl_path), f"--kubeconfig={self.kubeconfig_path}", *arguments]
        return subprocess.check_output(command, text=True)
