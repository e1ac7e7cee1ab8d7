"""A fuzz target for the parsers of leaves, which may raise only their own errors.

`make fuzz` runs it with atheris. The first byte of an input selects the parser; the rest is its
text.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.fuzz.leaves import LEAVES, parse_leaf

_LEAVES = tuple(LEAVES.values())


def parse_any(data: bytes) -> None:
    """Parse an input. Raises what the parser must not raise."""
    if data:
        text = data[1:].decode("utf-8", "replace")
        parse_leaf(_LEAVES[data[0] % len(_LEAVES)], text)


def corpus() -> list[bytes]:
    """Each text to begin with, prefixed with the byte that selects its parser."""
    return [
        bytes((number,)) + seed.encode()
        for number, leaf in enumerate(_LEAVES)
        for seed in leaf.seeds
    ]


def main() -> None:
    """Run libFuzzer with the command line's arguments; the first that is not an option is the
    corpus."""
    import atheris

    folder = Path(next(argument for argument in sys.argv[1:] if not argument.startswith("-")))
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(corpus()):
        (folder / f"seed-{number}").write_bytes(data)
    atheris.instrument_all()
    atheris.Setup(sys.argv, parse_any)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
