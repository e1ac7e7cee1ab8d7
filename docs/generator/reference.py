"""The tables of the reference, each derived from the registry that the server itself reads."""

from __future__ import annotations

import argparse
import ast
import asyncio
import functools
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType

from docs.generator.markdown import capitalized, code, first_paragraph, prose, table
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import Field, Kind, ListOf, MapOf, Message, Shape, Type
from kapiserver.apiserver.admission import plugins
from kapiserver.apiserver.admission.plugin import Plugin
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.feature_gates import GATES
from kapiserver.apiserver.serving.metrics.server_families import ServerFamilies
from kapiserver.apiserver.serving.metrics.stability import stability_of
from kapiserver.apiserver.serving.metrics.text import Family
from kapiserver.cli import parser
from kapiserver.cluster import open_cluster
from kapiserver.controllers.descriptor import ControllerDescriptor
from kapiserver.controllers.registry import REGISTRY
from kapiserver.doctor.checks import INSTALLATION_CHECKS, SERVER_CHECKS

_APISERVER = "kapiserver.apiserver"
CONFIGURATION_FILES = {
    "--authentication-config": f"{_APISERVER}.authentication.jwt.config",
    "--authorization-config": f"{_APISERVER}.authorization.configuration",
    "--authorization-policy-file": f"{_APISERVER}.authorization.abac",
    "--audit-policy-file": f"{_APISERVER}.audit.policy",
    "--encryption-provider-config": "kapiserver.storage.encryption.config",
    "--admission-control-config-file": f"{_APISERVER}.admission.configuration",
    "--tracing-config-file": f"{_APISERVER}.tracing.configuration",
}
"""The module that declares the kinds of each file, by flag."""


# --- commands and flags


def commands() -> str:
    """Return a section for each command, with a table of flags for each group of them."""
    return "\n\n".join(_command_sections(parser(), set()))


Flags = tuple[str, ...]
_UNTITLED = ("options", "positional arguments")
"""The groups of argparse itself."""


def _command_sections(command: argparse.ArgumentParser, shown: set[Flags]) -> Iterator[str]:
    """Yield the sections of a command. Groups of flags that another command has shown, as `doctor`
    has those of `serve`, are left out; the command's description names the other command."""
    subcommands = [
        action for action in command._actions if isinstance(action, argparse._SubParsersAction)
    ]
    flag_tables = list(_flag_tables(command, shown))
    if flag_tables or not subcommands:
        yield f"## {command.prog}\n\n{prose(command.description or '')}"
        if command.epilog:
            yield prose(command.epilog)
        yield from flag_tables
    for action in subcommands:
        for each in action.choices.values():
            yield from _command_sections(each, shown)


def _flag_tables(command: argparse.ArgumentParser, shown: set[Flags]) -> Iterator[str]:
    for group in command._action_groups:
        flags = tuple(flag for action in group._group_actions for flag in action.option_strings)
        if flags and flags in shown:
            continue
        if group.title not in _UNTITLED:
            shown.add(flags)
        rows = [
            (_flag_cell(command, action), _flag_help(action))
            for action in group._group_actions
            if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
        ]
        if rows and group.title in _UNTITLED:
            yield table(("argument", "meaning"), rows)
        elif rows:
            title = f"{group.title}".capitalize() if group.title.islower() else group.title
            yield f"### {title}\n\n{table(('flag', 'meaning'), rows)}"


def _flag_cell(command: argparse.ArgumentParser, action: argparse.Action) -> str:
    if not action.option_strings:
        return code(str(action.metavar or action.dest))
    flag = action.option_strings[-1]
    value = f" {action.metavar}" if action.metavar and action.nargs != 0 else ""
    anchor = "-".join((*command.prog.split()[1:], flag.lstrip("-")))
    return f'{code(", ".join(action.option_strings) + value)}<a id="{anchor}"></a>'


def _flag_help(action: argparse.Action) -> str:
    return prose((action.help or "") % vars(action))


def doctor_checks() -> str:
    """Return the tables of the checks of `kapiserver doctor`."""
    header = ("check", "looks at")
    return "\n\n".join(
        table(header, [(code(check.name), check.text) for check in checks])
        for checks in (INSTALLATION_CHECKS, SERVER_CHECKS)
    )


def feature_gates() -> str:
    """Return the table of feature gates."""
    rows = (
        (code(name), gate.stage, "on" if gate.default else "off", "yes" if gate.locked else "")
        for name, gate in sorted(GATES.items())
    )
    return table(("feature gate", "stage", "default", "locked"), rows)


# --- controllers and admission plugins


def controllers() -> str:
    """Return the table of controllers that `--controllers` knows, and that of the others."""
    header = ("controller", "short name", "default", "runs on", "what it does")
    selectable, other_flags = (
        table(header, [_controller_row(each) for each in REGISTRY if each.selectable is flag])
        for flag in (True, False)
    )
    return f"{selectable}\n\n## Controllers that always run\n\n{other_flags}"


def _controller_row(descriptor: ControllerDescriptor) -> tuple[str, ...]:
    return (
        code(descriptor.name),
        ", ".join(map(code, descriptor.aliases)),
        "on" if descriptor.enabled_by_default else "off",
        descriptor.scope.value,
        capitalized(first_paragraph(_module_of(descriptor.factory))),
    )


def admission_plugins() -> str:
    """Return the table of admission plugins in the order in which they run."""
    names = dict.fromkeys(plugin.name for plugin in plugins.PLUGINS)
    rows = [_plugin_row([each for each in plugins.PLUGINS if each.name == name]) for name in names]
    return table(("plugin", "default", "operations", "resources", "what it does"), rows)


def _plugin_row(records: list[Plugin]) -> tuple[str, ...]:
    """A plugin has several records if its resources differ by operation."""
    first = records[0]
    text = first_paragraph(_module_of(first.load) if first.load else _module_of_hooks(first))
    names, _, does = text.partition(": ")
    operations = dict.fromkeys(each for record in records for each in record.operations)
    resources = dict.fromkeys(name for record in records for name in record.resources)
    is_everything = any(not record.resources for record in records)
    return (
        code(first.name),
        "on" if first.enabled_by_default else "off",
        ", ".join(operations),
        "all" if is_everything else ", ".join(map(code, resources)),
        capitalized(does if first.name in names else text),
    )


def _module_of_hooks(plugin: Plugin) -> object:
    hook = plugin.admit or plugin.validate
    assert hook is not None, f"{plugin.name} has neither a loader nor hooks"
    return importlib.import_module(hook().__module__)


def _module_of(factory: Callable[..., object]) -> object:
    """Return the module that a factory imports when it is called; the factory if it imports
    none."""
    if isinstance(factory, functools.partial):  # of a row `_loaded_by(lazy(...))`
        (load,) = factory.args
        return importlib.import_module(load().__module__)
    source = textwrap.dedent(inspect.getsource(factory))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            is_package = hasattr(importlib.import_module(node.module), "__path__")
            suffix = f".{node.names[0].name}" if is_package else ""
            return importlib.import_module(f"{node.module}{suffix}")
    return factory


# --- metrics


def metrics() -> str:
    """Return the table of the server's own metrics."""
    rows = [
        (
            code(family.name),
            stability_of(family.name),
            family.type,
            ", ".join(map(code, family.labels)),
            prose(family.text),
        )
        for family in asyncio.run(_families())
    ]
    return table(("metric", "stability", "type", "labels", "meaning"), rows)


async def _families() -> list[Family]:
    """Return the families of metrics of a new server."""
    async with open_cluster(Config.of(enable_logical_clusters=True)) as cluster:
        return [*ServerFamilies(cluster.server)]


# --- configuration files


_TYPE_META = ("kind", "apiVersion")


def configuration_files() -> str:
    """Return a section for each file, with a table of fields for each of its types."""
    modules = [
        *(
            (code(flag), importlib.import_module(name))
            for flag, name in CONFIGURATION_FILES.items()
        ),
        *_plugin_modules(),
    ]
    return "\n\n".join(
        section for where, module in modules for section in _file_sections(where, module)
    )


_PLUGIN_FILE = "a plugin in `--admission-control-config-file`"


def _plugin_modules() -> Iterator[tuple[str, ModuleType]]:
    """Yield the modules of admission plugins that declare a kind of configuration."""
    for plugin_module in pkgutil.iter_modules(plugins.__path__, f"{plugins.__name__}."):
        module = importlib.import_module(plugin_module.name)
        if _kinds(module):
            yield _PLUGIN_FILE, module
    for name in ("webhook_configuration", "manifest_configuration"):
        yield _PLUGIN_FILE, importlib.import_module(f"{_APISERVER}.admission.{name}")


def _kinds(module: ModuleType) -> dict[GroupVersionKind, type[Kind]]:
    kinds: dict[GroupVersionKind, type[Kind]]
    kinds = getattr(module, "KINDS", None) or getattr(module, "_KINDS", {})
    return kinds


def _file_sections(where: str, module: ModuleType) -> Iterator[str]:
    """A file of several versions has the fields of its first one."""
    kinds = _kinds(module)
    kind, type_ = next(iter(kinds.items()))
    versions = ", ".join(code(f"{each.group}/{each.version}") for each in kinds)
    yield f"## {kind.kind} of {where}\n\n`kind: {kind.kind}`, `apiVersion` is {versions}."
    for each in _nested_types(type_):
        if each is not type_:
            yield f"### {each.__name__} in {kind.kind}\n\n{prose(first_paragraph(each))}"
        fields = [flat.field for flat in each.flat_fields()]
        rows = [_field_row(field) for field in fields if field.name not in _TYPE_META]
        is_described = any(meaning for *_, meaning in rows)
        columns = len(rows[0]) if is_described else len(rows[0]) - 1
        yield table(("field", "type", "meaning")[:columns], [row[:columns] for row in rows])


def _field_row(field: Field) -> tuple[str, ...]:
    options = field.options
    notes = [prose(options.doc)]
    if options.enum:
        notes.append(f"One of {', '.join(map(code, options.enum))}.")
    if options.default is not None:
        notes.append(f"Default: {code(str(options.default))}.")
    return (code(field.name), _shape_name(field.shape), " ".join(filter(None, notes)))


def _shape_name(shape: Shape) -> str:
    if isinstance(shape, Message):
        return shape.type.__name__
    if isinstance(shape, ListOf):
        return f"list of {_shape_name(shape.item)}"
    if isinstance(shape, MapOf):
        return f"map of {_shape_name(shape.value)}"
    return shape.name


def _nested_types(type_: type[Type]) -> list[type[Type]]:
    """Return a type and the types of its fields, each once, in the order of the fields."""
    ordered: dict[type[Type], None] = {}
    pending = [type_]
    while pending:
        each = pending.pop(0)
        if each not in ordered and (each is type_ or each.flat_fields()):
            ordered[each] = None
            pending += [
                nested
                for flat in each.flat_fields()
                for nested in _messages(flat.field.shape)
                if nested.__module__ != "kapiserver.api.meta.v1"
            ]
    return list(ordered)


def _messages(shape: Shape) -> list[type[Type]]:
    if isinstance(shape, ListOf):
        return _messages(shape.item)
    if isinstance(shape, MapOf):
        return _messages(shape.value)
    return [shape.type] if isinstance(shape, Message) else []
