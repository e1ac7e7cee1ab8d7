"""Finds the answer of a command in a simulated container in an annotation of the pod. Pure.

`simulation.kapiserver.dev/exec` is a JSON list. Each answer has the `command` that it is for, and
what that command writes and returns: `stdout`, `stderr` and `exitCode`. An answer without `command`
is for all commands that no other answer is for.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from kapiserver.api.accessors import annotations_of
from kapiserver.api.types import Tree
from kapiserver.simulation.annotations import PREFIX

NOT_FOUND = 127
"""The exit code of a shell for a program that does not exist."""


class Answer(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a command writes and returns."""

    command: tuple[str, ...] | None = None
    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0


_DECODER = msgspec.json.Decoder(list[Answer])


def read_answers(text: str) -> list[Answer]:
    """Return the answers of an annotation. Raises ValueError for a malformed one."""
    return _DECODER.decode(text)


def written_answers(answers: Sequence[Answer]) -> str:
    """Return answers as the text of an annotation."""
    return msgspec.json.encode(answers).decode()


def answers_of(pod: Tree, container: str) -> list[Answer]:
    """Return the answers of a container; those that name it come first. What cannot be read counts
    as missing."""
    annotations, answers = annotations_of(pod), []
    for name in (f"{PREFIX}exec.{container}", f"{PREFIX}exec"):
        if name in annotations:
            try:
                answers += read_answers(annotations[name])
            except ValueError:
                continue
    return answers


def find_answer(answers: Sequence[Answer], command: Sequence[str]) -> Answer | None:
    """Return the answer to a command, or None."""
    for answered_command in (tuple(command), None):
        for answer in answers:
            if answer.command == answered_command:
                return answer
    return None


def refusal(container: str, command: Sequence[str]) -> str:
    """Return what a container writes about a command that it has no answer for."""
    return (
        f"simulated container {container} runs no program: {' '.join(command)}\n"
        f"set an answer by the annotation {PREFIX}exec of the pod\n"
    )
