"""Runs an operator of the corpus in a process that runs other things, too.

`kapiserver explore --in-process -- tests.explore.operators.in_process:run MODULE:CLASS`.
"""

import os
from importlib import import_module

from tests.explore.operators.kube import Client


async def run(reference: str, *flags: str) -> None:
    """Run the operator of a class, named `module:class`, until cancelled; with `--repaired` the
    twin."""
    module, _, name = reference.partition(":")
    operator = getattr(import_module(module), name)
    await operator(Client(os.environ["KUBECONFIG"]), repaired="--repaired" in flags).run()
