"""Search for parsers of leaves that need more than linear time.

    python -m tests.fuzz.growth

Each parser gets long texts: the beginning of a seed, and then a short part many times. The search
doubles the length twice, and prints a parser whose CPU time grows more than threefold each time.
The exit status is then 1.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator

from tests.fuzz.leaves import LEAVES, Leaf, parse_leaf

_PARTS = ("0", "1", "9", "a", " ", "\t", "\n", "\\", "'", '"', "-", ".", ",", "/", "[", "(", "{",
          "%", "=", "!", "+", "0.", "1s", "-----\n", "-----BEGIN ", "A\n", "..a", "[*]", "[?(@",
          "a=b,", "a in (b),", "/-", ";q=1,", "a b ", "é")  # fmt: skip
_LENGTHS = (4_000, 8_000, 16_000)
_LEAST_SECONDS = 0.004
_GROWTH = 3.2
_SECONDS_OF_LEAF = 1.0
"""CPU time for the search in one parser."""


def texts(leaf: Leaf) -> Iterator[tuple[str, str, str]]:
    """Yield beginnings of seeds, parts to repeat after them, and endings, in a random order that is
    the same in each run."""
    rng = random.Random(1)
    while True:
        seed = rng.choice(leaf.seeds)
        at = rng.randrange(len(seed) + 1)
        own = seed[at : at + rng.randint(1, 4)]
        part = rng.choice(_PARTS) if rng.random() < 0.6 or not own else own
        yield seed[: rng.choice((0, at))], part, rng.choice(("", "\0", ")", '"'))


def seconds(leaf: Leaf, text: str) -> float:
    """Return the least CPU time of two calls."""
    times = []
    for _ in range(2):
        started = time.thread_time()
        parse_leaf(leaf, text)
        times.append(time.thread_time() - started)
    return min(times)


def grows(leaf: Leaf, beginning: str, part: str, ending: str) -> list[float]:
    """Return the times for each length if they grow too fast, or an empty list."""
    times: list[float] = []
    for length in _LENGTHS:
        times.append(seconds(leaf, beginning + part * (length // len(part)) + ending))
        if times[-1] < _LEAST_SECONDS / 8 or (len(times) > 1 and times[-1] < _GROWTH * times[-2]):
            return []
    return times if times[-1] > _LEAST_SECONDS else []


def main() -> None:
    """Print each parser that needs more than linear time once."""
    problem_count = 0
    for name, leaf in LEAVES.items():
        if len(sys.argv) > 1 and sys.argv[1] not in name:
            continue
        started = time.thread_time()
        for beginning, part, ending in texts(leaf):
            if time.thread_time() - started > _SECONDS_OF_LEAF:
                break
            times = grows(leaf, beginning, part, ending)
            if times:
                milliseconds = ", ".join(f"{seconds * 1e3:.1f}" for seconds in times)
                print(
                    f"{name}: {beginning!r} + {part!r} * n + {ending!r}: {milliseconds} ms",
                    flush=True,
                )
                problem_count += 1
                break
    sys.exit(problem_count > 0)


if __name__ == "__main__":
    main()
