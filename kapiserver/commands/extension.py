"""`kapiserver new`, `crds`, `protos` and `certificates`: flags and output.

`extension/` does the work.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_extension_commands(commands: _Commands) -> None:
    """Add the commands and their arguments."""
    _add_new(commands)
    _add_certificates(commands)
    crds = commands.add_parser(
        "crds",
        help="print CustomResourceDefinitions of Python classes",
        description="Print the CustomResourceDefinitions of the resources that a Python module "
        "declares with kapiserver.extension, as YAML. Virtual resources and calls have none; they "
        "are named on standard error.",
    )
    crds.set_defaults(command=_print_definitions, verbose=0)
    crds.add_argument(
        "module", metavar="MODULE",
        help="A module, such as shop.types, or the path of its file. Required.",
    )  # fmt: skip
    protos = commands.add_parser(
        "protos",
        help="write .proto files of Python classes",
        description="Write a .proto file for each group-version of the resources that a Python "
        "module declares with kapiserver.extension and whose fields have numbers.",
    )
    protos.set_defaults(command=_write_protos, verbose=0)
    protos.add_argument(
        "module", metavar="MODULE",
        help="A module, such as shop.types, or the path of its file. Required.",
    )  # fmt: skip
    protos.add_argument(
        "folder", type=Path, metavar="DIR",
        help="The folder of the files GROUP/VERSION/generated.proto. Required.",
    )  # fmt: skip


def _add_new(commands: _Commands) -> None:
    new = commands.add_parser(
        "new",
        help="write a small project: an API server of one's own",
        description="Write a project with types, a controller, a test, manifests and a README "
        "into a new folder.",
    )
    new.set_defaults(command=_write_project, verbose=0)
    new.add_argument(
        "folder", type=Path, metavar="DIR", help="A folder that is new or empty. Required."
    )
    new.add_argument(
        "--group", default="example.com", metavar="NAME",
        help="The API group of the resource. Default: %(default)s.",
    )  # fmt: skip
    new.add_argument(
        "--kind", default="Widget", metavar="NAME",
        help="The kind of the resource. Default: %(default)s.",
    )  # fmt: skip
    new.add_argument(
        "--plural", default="", metavar="NAME",
        help="The plural name of the resource. Default: the kind with an s.",
    )  # fmt: skip


def _add_certificates(commands: _Commands) -> None:
    certificates = commands.add_parser(
        "certificates",
        help="make certificates of an extension API server in a cluster",
        description="Make a CA and a certificate of a Service, store them in a Secret of its "
        "namespace, and write the CA into an APIService. A Job of the cluster runs it.",
    )
    certificates.set_defaults(command=_install_certificates, verbose=0)
    certificates.add_argument(
        "--service", required=True, metavar="NAMESPACE/NAME",
        help="The Service of the server. Required.",
    )  # fmt: skip
    certificates.add_argument(
        "--secret", required=True, metavar="NAME",
        help="The Secret, which is created if it does not exist. Required.",
    )  # fmt: skip
    certificates.add_argument(
        "--api-service", required=True, metavar="NAME",
        help="The APIService, such as v1.example.com; it must exist. Required.",
    )  # fmt: skip
    certificates.add_argument(
        "--kubeconfig", type=Path, metavar="FILE",
        help="The kubeconfig of the cluster. Default: $KUBECONFIG, else the files of the pod, else "
        "~/.kube/config.",
    )  # fmt: skip


def _write_project(options: argparse.Namespace) -> int:
    from kapiserver.extension.new_project import write_project

    written = write_project(
        options.folder, group=options.group, kind=options.kind, plural=options.plural
    )
    for path in written:
        sys.stdout.write(f"{options.folder / path}\n")
    return 0


def _install_certificates(options: argparse.Namespace) -> int:
    from kapiserver.client import Client
    from kapiserver.extension.service_certificates import install_certificates
    from kapiserver.storage.cache.entry import ObjectKey

    namespace, slash, name = options.service.partition("/")
    if not (namespace and slash and name):
        raise ValueError("--service is NAMESPACE/NAME")

    async def install() -> None:
        async with Client.from_kubeconfig(options.kubeconfig or "") as client:
            await install_certificates(
                client,
                service=ObjectKey(namespace, name),
                secret=options.secret,
                api_service=options.api_service,
            )

    asyncio.run(install())
    return 0


def _print_definitions(options: argparse.Namespace) -> int:
    from kapiserver.extension.definitions import definitions_text, needs_program, resources_of

    resources = resources_of(load_module(options.module))
    if not resources:
        raise ValueError(f"{options.module} has no resources at its top level")
    defined = []
    for resource in resources:
        reason = needs_program(resource)
        if reason:
            sys.stderr.write(f"{resource.name} has no definition: {reason}\n")
        else:
            defined.append(resource)
    sys.stdout.write(definitions_text(defined))
    return 0


def _write_protos(options: argparse.Namespace) -> int:
    from kapiserver.extension.definitions import resources_of
    from kapiserver.extension.protos import proto_sources

    sources = proto_sources(resources_of(load_module(options.module)))
    if not sources:
        raise ValueError(f"{options.module} has no resources whose fields have numbers")
    for path, text in sources.items():
        file = options.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        sys.stdout.write(f"{file}\n")
    return 0


def load_module(name: str) -> ModuleType:
    """Import a module by its name or by the path of its file; the folder of the file, or the
    current one, is where its imports are looked up first. Raises ImportError."""
    path = Path(name)
    if path.suffix != ".py":
        sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(name)
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ImportError(f"{name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
