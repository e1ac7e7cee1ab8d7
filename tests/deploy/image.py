"""Carries out the steps of the Dockerfile without a container engine.

`build` runs the RUN and COPY instructions as root in a mount namespace with a root directory of its
own: the system directories of this machine, read-only, and a Python in place of the base image's.
`run` then starts the image's command there: as its user, without capabilities, on a read-only file
system, with the declared volumes and /tmp. What is not shown is what the base image contains.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

SYSTEM = ("bin", "lib", "lib32", "lib64", "sbin", "usr")


@dataclass(kw_only=True)
class Stage:
    """What one FROM begins: the steps that a shell runs, and the settings of the image."""

    steps: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    user: str = "0"
    folder: str = "/"
    volumes: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)
    entry_point: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)


def read(dockerfile: Path) -> list[Stage]:
    """Return the stages of a Dockerfile. Raises ValueError for an instruction that is unknown."""
    stages: list[Stage] = []
    text = dockerfile.read_text().replace("\\\n", " ")
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stages.append(Stage())
        elif word and not word.startswith("#"):
            _add(stages[-1], word, rest.strip())
    return stages


def _add(stage: Stage, word: str, rest: str) -> None:
    match word:
        case "RUN":
            stage.steps.append(f"(cd {stage.folder} && {rest})")
        case "COPY" if rest.startswith("--from="):
            pass  # both stages have one root directory
        case "COPY":
            *sources, target = rest.split()
            for source in sources:
                stage.steps.append(f"(cd {stage.folder} && cp -r /context/{source} {target})")
        case "ARG":
            name, _, value = rest.partition("=")
            stage.steps.append(f"export {name}={value}")
        case "ENV":
            for setting in shlex.split(rest):
                name, _, value = setting.partition("=")
                stage.environment[name] = value
        case "WORKDIR":
            stage.folder = rest
            stage.steps.append(f"mkdir -p {rest}")
        case "USER":
            stage.user = rest
        case "VOLUME":
            stage.volumes.append(rest)
        case "HEALTHCHECK":
            stage.health = json.loads(rest.partition(" CMD ")[2])
        case "ENTRYPOINT":
            stage.entry_point = json.loads(rest)
        case "CMD":
            stage.command = json.loads(rest)
        case "EXPOSE" | "STOPSIGNAL":
            pass
        case _:
            raise ValueError(f"unknown instruction {word}")


@dataclass(frozen=True, kw_only=True)
class Image:
    """A root directory in which the steps of all stages have run; `stage` is the last one."""

    root: Path
    python: Path
    stage: Stage

    def process(self, *command: str, volume: Path) -> list[str]:
        """Return a command line that runs a command as the container would. `volume` is a folder of
        this machine for the volume of the image."""
        (target,) = self.stage.volumes
        limited = [
            "setpriv", f"--reuid={self.stage.user}", f"--regid={self.stage.user}",
            "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--",
            *command,
        ]  # fmt: skip
        exports = " ".join(f'{name}="{value}"' for name, value in self.stage.environment.items())
        inside = f"export {exports}; cd {self.stage.folder}; exec {shlex.join(limited)}"
        script = f"""
            mount --bind -o ro {self.python} {self.root}{self.python}
            mount --bind {volume} {self.root}{target}
            mount -t tmpfs none {self.root}/tmp
            mount -o remount,ro,bind {self.root}
            exec chroot {self.root} /bin/sh -c {shlex.quote(inside)}
        """
        return _in_namespace(_mounts(self.root) + script)


def build(dockerfile: Path, context: Path, python: Path, root: Path) -> Image:
    """Run the steps of a Dockerfile in a new root directory. `python` is the folder of a Python,
    such as /usr/local. Raises CalledProcessError with what the steps wrote."""
    stages = read(dockerfile)
    for name in (*SYSTEM, "etc", "proc", "dev", "opt", "tmp", "context"):
        (root / name).mkdir()
    python_mount = root / python.relative_to("/")
    python_mount.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "/etc/.", str(root / "etc")], check=True)
    steps = "\n".join(step for stage in stages for step in stage.steps)
    (root / "steps").write_text(f"set -eu\nexport PATH={python}/bin:$PATH\n{steps}\n")
    script = f"""
        mount --bind -o ro {context} {root}/context
        mount --bind -o ro {python} {python_mount}
        chroot {root} /bin/sh /steps
    """
    subprocess.run(
        _in_namespace(_mounts(root) + script), check=True, capture_output=True, text=True
    )
    return Image(root=root, python=python, stage=stages[-1])


def _mounts(root: Path) -> str:
    """The commands that mount what each root directory has. The root is a mount of its own, so that
    it can become read-only."""
    binds = "\n".join(
        f"if [ -d /{name} ]; then mount --rbind -o ro /{name} {root}/{name}; fi" for name in SYSTEM
    )
    return f"""
        mount --bind {root} {root}
        {binds}
        mount --rbind /dev {root}/dev
        mount -t proc none {root}/proc 2>/dev/null || mount --rbind /proc {root}/proc
    """


def _in_namespace(script: str) -> list[str]:
    return ["unshare", "--mount", "--propagation=private", "sh", "-euc", script]
