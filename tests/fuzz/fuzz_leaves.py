"""A fuzz target for the parsers of leaves, which may raise only their own errors.

`make fuzz` runs it with atheris, which is guided by the branches of kapiserver's code.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Run libFuzzer with the command line's arguments; the first that is not an option is the
    corpus."""
    import atheris

    with atheris.instrument_imports(include=["kapiserver"]):
        from tests.fuzz.leaves import corpus, parse_any
    folder = Path(next(argument for argument in sys.argv[1:] if not argument.startswith("-")))
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(corpus()):
        (folder / f"seed-{number}").write_bytes(data)
    atheris.Setup(sys.argv, parse_any)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
