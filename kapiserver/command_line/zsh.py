"""The completion of zsh, by its `_arguments`."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.command_line.commands import Argument, Command

_SCRIPT = """\
#compdef kapiserver
# Completion of kapiserver for zsh: source <(kapiserver completion zsh), after compinit

{functions}
if [[ $funcstack[1] == _kapiserver ]]; then
    _kapiserver "$@"
else
    compdef _kapiserver kapiserver
fi
"""
_FUNCTION = """\
{name}() {{
    local curcontext=$curcontext context state state_descr line
    typeset -A opt_args
    _arguments -C -s \\
{specs}{rest}
}}
"""
_REST = """\
 \\
        '1:command:->command' \\
        '*::argument:->rest'
    case $state in
    command)
        local -a names=(
{names}
        )
        _describe command names
        ;;
    rest)
        case $line[1] in
{branches}
        esac
        ;;
    esac"""


def zsh_completion(root: Command) -> str:
    """Return the script."""
    return _SCRIPT.format(functions="\n".join(_function(node) for node in root.walk()))


def _name(command: Command) -> str:
    return "_".join(("_kapiserver", *command.words))


def _function(command: Command) -> str:
    specs = [spec for argument in command.arguments for spec in _specs(argument)]
    rest = ""
    if command.subcommands:
        rest = _REST.format(
            names="\n".join(
                f"            '{subcommand.words[-1]}:{_escaped(subcommand.summary)}'"
                for subcommand in command.subcommands
            ),
            branches="\n".join(
                f"        {subcommand.words[-1]}) {_name(subcommand)} ;;"
                for subcommand in command.subcommands
            ),
        )
    return _FUNCTION.format(
        name=_name(command), specs=" \\\n".join(f"        '{spec}'" for spec in specs), rest=rest
    )


def _specs(argument: Argument) -> Iterator[str]:
    action = _action(argument)
    if not argument.flags:
        yield f"{'*' if argument.repeats else ':'}:{_escaped(argument.metavar)}:{action}"
        return
    repeats = "*" if argument.repeats else ""
    for flag in argument.flags:
        equals, value = "", ""
        if argument.metavar:
            equals = ("=-" if argument.is_optional else "=") if flag.startswith("--") else "+"
            colons = "::" if argument.is_optional else ":"
            value = f"{colons}{_escaped(argument.metavar)}:{action}"
        yield f"{repeats}{flag}{equals}[{_escaped(argument.summary)}]{value}"


def _action(argument: Argument) -> str:
    if argument.choices:
        return f"({' '.join(argument.choices)})"
    return {"file": "_files", "folder": "_files -/"}.get(argument.completes, " ")


def _escaped(text: str) -> str:
    """Return a text as it stands in a specification between single quotes."""
    for character in "\\:[]":
        text = text.replace(character, f"\\{character}")
    return text.replace("'", "'\\''")
