"""The completion of fish."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.command_line.commands import Argument, Command

_SCRIPT = """\
# Completion of kapiserver for fish: kapiserver completion fish | source

function __kapiserver_at
    # Whether the words before the cursor name this command, and no other below it.
    set -l command
    for word in (commandline -opc)[2..-1]
        if contains -- "$command $word" {commands}
            set command "$command $word"
        end
    end
    test "$command" = "$argv[1]"
end

complete -c kapiserver -f
{lines}
"""


def fish_completion(root: Command) -> str:
    """Return the script."""
    commands = list(root.walk())
    return _SCRIPT.format(
        commands=" ".join(_quoted(_key(command)) for command in commands if command.words),
        lines="\n".join(line for command in commands for line in _lines(command)),
    )


def _key(command: Command) -> str:
    return "".join(f" {word}" for word in command.words)


def _lines(command: Command) -> Iterator[str]:
    condition = f'__kapiserver_at "{_key(command)}"'
    begin = f"complete -c kapiserver -n {_quoted(condition)}"
    for subcommand in command.subcommands:
        yield f"{begin} -a {subcommand.words[-1]} -d {_quoted(subcommand.summary)}"
    for argument in command.arguments:
        names = [
            f"-l {flag.removeprefix('--')}" if flag.startswith("--") else f"-s {flag[1:]}"
            for flag in argument.flags
        ]
        if names or _values(argument):
            words = (begin, *names, _values(argument), f"-d {_quoted(argument.summary)}")
            yield " ".join(filter(None, words))


def _values(argument: Argument) -> str:
    """Return the options of `complete` for the value of an argument."""
    if not argument.metavar or argument.is_optional:
        return ""  # fish completes no value that may be left out
    requires = "-x" if argument.flags else ""
    if argument.choices:
        return f"{requires} -a {_quoted(' '.join(argument.choices))}".strip()
    if argument.completes == "folder":
        return f"{requires} -a '(__fish_complete_directories)'".strip()
    if argument.completes == "file":
        return "-r -F" if argument.flags else "-F"
    return requires


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
