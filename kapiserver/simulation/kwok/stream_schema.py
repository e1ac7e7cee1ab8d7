"""The schemas of kwok's kinds that say what pods answer: Logs, Exec, Attach and PortForward.

Mirrors pkg/apis/v1alpha1 of kwok.
"""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.simulation.kwok.schemas import count, flag, items, record, text, texts
from kapiserver.simulation.kwok.usage_schema import SELECTOR

_CONTAINERS = texts("The names of the containers. Without names, all are meant.")
_LOGS = items(
    "The logs of containers.",
    record(
        "",
        {
            "containers": _CONTAINERS,
            "logsFile": text("A file of the server's machine with the log."),
            "previousLogsFile": text("A file with the log of the run before."),
            "follow": flag("Whether lines that the file gets later are shown."),
        },
    ),
)
_EXECS = items(
    "Where the commands of containers run.",
    record(
        "",
        {
            "containers": _CONTAINERS,
            "local": record(
                "The server's machine.",
                {
                    "workDir": text("The directory in which a command runs."),
                    "envs": items(
                        "Variables of its environment.",
                        record(
                            "",
                            {
                                "name": text("The name.") | {"minLength": 1},
                                "value": text("The value."),
                            },
                            required=("name",),
                        ),
                    ),
                    "securityContext": record(
                        "Who runs it.",
                        {
                            "runAsUser": count("The number of the user."),
                            "runAsGroup": count("The number of the group."),
                        },
                    ),
                },
            ),
        },
    ),
)
_ATTACHES = items(
    "What a client that attaches to a container sees.",
    record(
        "",
        {
            "containers": _CONTAINERS,
            "logsFile": text("A file of the server's machine, whose new lines are shown."),
        },
    ),
)
_FORWARDS = items(
    "Where connections to ports lead.",
    record(
        "",
        {
            "ports": items("The ports. Without ports, all are meant.", {"type": "integer"}),
            "target": record(
                "What the server connects to.",
                {
                    "port": count("The port.") | {"maximum": 65535},
                    "address": text("The address.") | {"minLength": 1},
                },
                required=("port", "address"),
            ),
            "command": texts(
                "A command of the server's machine, whose input and output are connected. It "
                "counts before `target`."
            ),
        },
    ),
)


def _forms(description: str, field: str, entries: Tree) -> tuple[Tree, Tree]:
    """Return the schemas of the form for one pod, and of the form of the cluster."""
    own = record(f"{description} of the pod of the same name.", {field: entries}, required=(field,))
    properties = {"selector": SELECTOR, field: entries}
    return own, record(f"{description} of pods.", properties, required=(field,))


LOGS, CLUSTER_LOGS = _forms("The logs", "logs", _LOGS)
EXEC, CLUSTER_EXEC = _forms("The commands", "execs", _EXECS)
ATTACH, CLUSTER_ATTACH = _forms("The output", "attaches", _ATTACHES)
PORT_FORWARD, CLUSTER_PORT_FORWARD = _forms("The ports", "forwards", _FORWARDS)
