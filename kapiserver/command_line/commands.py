"""The commands of a parser of argparse, as records.

argparse has no public interface for what a parser contains; this module alone reads its private
attributes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

_FOLDERS = ("DIR", "DIRECTORY")
_FILES = ("FILE", "PATH", "STORE", "SNAPSHOT", "RECORDING")


class Argument(Struct, frozen=True, kw_only=True):
    """A flag, or a positional argument, which has no `flags`.

    metavar     the name of its value; "" for a flag without one
    is_optional whether the value of the flag may be left out, and follows `=`
    repeats     whether it may be given several times
    choices     all values, if they are known
    completes   "file", "folder", or "" for values that no shell can complete
    """

    flags: tuple[str, ...]
    metavar: str
    is_optional: bool
    repeats: bool
    choices: tuple[str, ...]
    completes: str
    text: str

    @property
    def summary(self) -> str:
        """The first sentence of the text, without its full stop."""
        return self.text.partition(". ")[0].removesuffix(".")


class Group(Struct, frozen=True, kw_only=True):
    """Arguments with a title; "" for the arguments of no group."""

    title: str
    arguments: Sequence[Argument]


class Command(Struct, frozen=True, kw_only=True):
    """A command.

    words       its name after `kapiserver`; () is the program itself
    summary     one line; text and epilog are paragraphs
    """

    words: tuple[str, ...]
    summary: str
    text: str
    epilog: str
    groups: Sequence[Group]
    subcommands: Sequence[Command]

    @property
    def arguments(self) -> list[Argument]:
        """The arguments of all groups."""
        return [argument for group in self.groups for argument in group.arguments]

    def walk(self) -> Iterator[Command]:
        """Yield the command and all below it."""
        yield self
        for command in self.subcommands:
            yield from command.walk()


def read_commands(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = (), summary: str = ""
) -> Command:
    """Return the command of a parser with its subcommands."""
    subcommands: list[Command] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            subcommands += [
                read_commands(parser, (*words, name), helps.get(name, ""))
                for name, parser in action.choices.items()
            ]
    return Command(
        words=words,
        summary=summary,
        text=parser.description or "",
        epilog=parser.epilog or "",
        groups=list(_groups(parser)),
        subcommands=subcommands,
    )


def _groups(parser: argparse.ArgumentParser) -> Iterator[Group]:
    for group in parser._action_groups:
        arguments = [
            _argument(action)
            for action in group._group_actions
            if not isinstance(action, argparse._SubParsersAction)
        ]
        if arguments:
            is_untitled = group.title in ("options", "positional arguments")
            yield Group(title="" if is_untitled else group.title or "", arguments=arguments)


def _argument(action: argparse.Action) -> Argument:
    has_value = action.nargs != 0
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    choices = tuple(map(str, action.choices or ())) if has_value else ()
    if metavar == "BOOL":
        choices = ("true", "false")
    return Argument(
        flags=tuple(action.option_strings),
        metavar=(metavar or ("|".join(choices) or action.dest.upper())) if has_value else "",
        is_optional=bool(action.option_strings) and action.nargs == "?",
        repeats=isinstance(action, argparse._AppendAction | argparse._CountAction)
        or action.nargs in ("*", "+"),
        choices=choices,
        completes=_completes(action, metavar),
        text=(action.help or "") % vars(action),
    )


def _completes(action: argparse.Action, metavar: str) -> str:
    if metavar in _FOLDERS:
        return "folder"
    return "file" if metavar in _FILES or action.type is Path else ""
