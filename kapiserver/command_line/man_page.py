"""The man page kapiserver(1), which the wheel installs into share/man/man1.

`make tables` writes it. Mirrors man(7); roff needs no library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kapiserver.command_line.commands import Argument, Command, Group

_CONTROL = re.compile(r"^([.'])", re.M)
_SEE_ALSO = ("kubectl(1)", "etcd(1)", "systemd.service(5)")
_STATUS = """\
.TP
.B 0
The command has done what it should.
.TP
.B 1
It failed, or has found what it looks for; standard error or the output says what.
.TP
.B 2
The command line is wrong.
"""


def man_page(root: Command, version: str) -> str:
    """Return the text of the page."""
    return "".join(f"{line}\n" for line in _page(root, version))


def _page(root: Command, version: str) -> Iterator[str]:
    yield f'.TH KAPISERVER 1 "" "kapiserver {_escaped(version)}" "User Commands"'
    yield ".SH NAME"
    yield f"kapiserver \\- {_escaped(root.text.removesuffix('.'))}"
    yield ".SH SYNOPSIS"
    yield ".B kapiserver"
    yield ".I COMMAND"
    yield "[\\fIFLAG\\fR ...]"
    yield ".SH DESCRIPTION"
    yield _escaped(root.text)
    yield "Each command has a section below, and prints it with \\fB\\-\\-help\\fR."
    yield ".SH OPTIONS"
    for group in root.groups:
        yield from _group(group)
    yield ".SH COMMANDS"
    for command in root.walk():
        if command.words and not command.subcommands:
            yield from (".TP", f".B {_escaped(' '.join(command.words))}")
            yield _escaped(f"{command.summary[:1].upper()}{command.summary[1:]}.")
    shown: set[tuple[str, ...]] = set()
    for command in root.walk():
        if command.words and not command.subcommands:
            yield from _section(command, shown)
    yield ".SH EXIT STATUS"
    yield _STATUS.rstrip()
    yield ".SH SEE ALSO"
    yield from (f".BR {name.replace('(', ' (')} ," for name in _SEE_ALSO[:-1])
    yield f".BR {_SEE_ALSO[-1].replace('(', ' (')}"


def _section(command: Command, shown: set[tuple[str, ...]]) -> Iterator[str]:
    """Yield the section of a command. Groups of flags that another command has shown are left out;
    the text of the command names the other one."""
    yield f'.SH "KAPISERVER {_escaped(" ".join(command.words).upper())}"'
    yield _escaped(command.text)
    if command.epilog:
        yield ".PP"
        yield _escaped(command.epilog)
    for group in command.groups:
        flags = tuple(flag for argument in group.arguments for flag in argument.flags)
        if group.title and flags in shown:
            continue
        shown.add(flags)
        yield from _group(group)


def _group(group: Group) -> Iterator[str]:
    if group.title:
        yield f'.SS "{_escaped(group.title[:1].upper() + group.title[1:])}"'
    for argument in group.arguments:
        yield ".TP"
        yield _names(argument)
        yield _escaped(argument.text)


def _names(argument: Argument) -> str:
    value = f"\\fI{_escaped(argument.metavar)}\\fR" if argument.metavar else ""
    if not argument.flags:
        return value
    value = f"[={value}]" if argument.is_optional else f"={value}" if value else ""
    return ", ".join(f"\\fB{_escaped(flag)}\\fR" for flag in argument.flags) + value


def _escaped(text: str) -> str:
    """Return a text without characters that roff would interpret."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return _CONTROL.sub(r"\\&\1", escaped)
