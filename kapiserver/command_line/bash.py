"""The completion of bash, for version 4 and later; needs no other script."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.command_line.commands import Argument, Command

_SCRIPT = """\
# Completion of kapiserver for bash: source <(kapiserver completion bash)

_kapiserver() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} command= flag= last= index word
    # Find the command, and the flag whose value the cursor is at. Bash splits words at `=`.
    for ((index = 1; index < COMP_CWORD; index++)); do
        word=${{COMP_WORDS[index]}}
        if [[ $word == = ]]; then
            flag=$last
        elif [[ -n $flag ]]; then
            flag=
        elif [[ $word == -* ]]; then
            last=$word
            case "$command:$word" in
            {valued}) flag=$word ;;
            esac
        else
            case "$command $word" in
            {commands}) command="$command $word" ;;
            esac
        fi
    done
    if [[ $cur == = ]]; then
        flag=$last cur=
    fi
    COMPREPLY=()
    if [[ -n $flag ]]; then
        case "$command:$flag" in
{values}
        esac
        return
    fi
    local words=
    case "$command" in
{words}
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
        return
    fi
    case "$command" in
{names}
    esac
}}

complete -o filenames -o bashdefault -F _kapiserver kapiserver
"""


def bash_completion(root: Command) -> str:
    """Return the script."""
    commands = list(root.walk())
    return _SCRIPT.format(
        commands=_pattern(_key(command) for command in commands if command.words),
        valued=_pattern(
            f"{_key(command)}:{flag}"
            for command in commands
            for argument in command.arguments
            if argument.metavar and not argument.is_optional
            for flag in argument.flags
        ),
        values="\n".join(line for command in commands for line in _values(command)),
        words="\n".join(map(_words, commands)),
        names="\n".join(line for command in commands for line in _names(command)),
    )


def _words(command: Command) -> str:
    return f"    {_quoted(_key(command))}) words='{_flags(command)}' ;;"


def _key(command: Command) -> str:
    """Return the command's words as the script collects them: each after a space."""
    return "".join(f" {word}" for word in command.words)


def _quoted(text: str) -> str:
    return f'"{text}"'


def _pattern(texts: Iterator[str]) -> str:
    return " | ".join(map(_quoted, texts))


def _flags(command: Command) -> str:
    return " ".join(flag for argument in command.arguments for flag in argument.flags)


def _values(command: Command) -> Iterator[str]:
    for argument in command.arguments:
        source = _source(argument)
        if argument.flags and source:
            pattern = _pattern(f"{_key(command)}:{flag}" for flag in argument.flags)
            yield f"        {pattern}) COMPREPLY=($({source})) ;;"


def _names(command: Command) -> Iterator[str]:
    """Yield what completes a word that is not a flag: a subcommand, or a positional argument."""
    if command.subcommands:
        names = " ".join(subcommand.words[-1] for subcommand in command.subcommands)
        source = f"compgen -W '{names}' -- \"$cur\""
    else:
        sources = [_source(argument) for argument in command.arguments if not argument.flags]
        source = next(filter(None, sources), "")
    if source:
        yield f"    {_quoted(_key(command))}) COMPREPLY=($({source})) ;;"


def _source(argument: Argument) -> str:
    """Return the command that prints the values of an argument; "" if there are none to print."""
    if argument.choices:
        return f"compgen -W '{' '.join(argument.choices)}' -- \"$cur\""
    if argument.completes:
        return f'compgen -{"d" if argument.completes == "folder" else "f"} -- "$cur"'
    return ""
