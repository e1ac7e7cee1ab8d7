"""The help text of every flag and argument of `kapiserver`."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from kapiserver.cli import parser

LEAST_WORDS = 4


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag or argument of one command, and its help text with the default filled in."""

    command: str
    name: str
    text: str
    action: argparse.Action

    @property
    def place(self) -> str:
        """The command and the flag, as a user writes them."""
        return f"{self.command} {self.name}"


def flags_of(command: argparse.ArgumentParser) -> Iterator[Flag]:
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subcommand in action.choices.values():
                yield from flags_of(subcommand)
        elif not isinstance(action, argparse._HelpAction):
            name = ", ".join(action.option_strings) or str(action.metavar)
            text = (action.help or "") % {"default": action.default}
            yield Flag(command.prog, name, text, action)


@pytest.fixture(scope="module", name="flags")
def _all_flags() -> list[Flag]:
    return list(flags_of(parser()))


def test_every_flag_has_a_text(flags: list[Flag]) -> None:
    """Each text has at least four words and ends with a full stop."""
    assert len(flags) > 50
    assert [flag.place for flag in flags if len(flag.text.split()) < LEAST_WORDS] == []
    assert [flag.place for flag in flags if not flag.text.endswith(".")] == []


def test_no_text_is_used_twice(flags: list[Flag]) -> None:
    """No two flags have the same text; the storage commands share theirs."""
    names: dict[str, set[str]] = defaultdict(set)
    for flag in flags:
        names[flag.text].add(flag.name)
    assert {text: flag_names for text, flag_names in names.items() if len(flag_names) > 1} == {}


def test_every_text_shows_the_default(flags: list[Flag]) -> None:
    """Each text says the default, or that the flag is required."""
    markers = ("default", "required")
    without_default = [
        flag.place
        for flag in flags
        if not isinstance(flag.action, argparse._VersionAction)
        and not any(word in flag.text.lower() for word in markers)
    ]
    assert without_default == []


def test_defaults_in_texts_are_true(flags: list[Flag]) -> None:
    """A default that is a number or a text appears in the help as it is, durations excepted."""
    wrong_defaults = [
        flag.place
        for flag in flags
        if isinstance(flag.action.default, int | str)
        and not isinstance(flag.action.default, bool)
        and flag.action.default not in ("", argparse.SUPPRESS)
        and str(flag.action.default) not in flag.text
    ]
    assert wrong_defaults == []
