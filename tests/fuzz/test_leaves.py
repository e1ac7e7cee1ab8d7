"""Every parser of a leaf raises its own errors and no others."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.leaves import LEAVES, Leaf, parse_leaf

_TOKENS = (
    "\0", "\n", " ", "\u00b2", "\u0663", "\u00e9", "\u2028", "\U0001f600", "\udc8b", "-", "+", ".",
    "e", "E", "1" * 20, "0" * 40, "9" * 5000, "[", "(", "{", '"', "'", "\\", "%", "/", ":", ",",
    "=", "@", "[" * 1100, "null", "NaN", "Infinity",
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, leaf: Leaf) -> str:
    """A seed with a few parts deleted, repeated or replaced."""
    text = draw(st.sampled_from(leaf.seeds))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 8)))
        part = draw(
            st.sampled_from(_TOKENS)
            | st.text(max_size=4)
            | st.just(text[start:end] * 2)
            | st.just("")
        )
        text = text[:start] + part + text[end:]
    return text


@pytest.mark.parametrize("name", LEAVES)
def test_seeds(name: str) -> None:
    """The texts to begin with, whole and cut, are parsed or raise the parser's errors."""
    for seed in LEAVES[name].seeds:
        for text in (
            seed, seed[: len(seed) // 2], seed + seed, seed[1:],
            f"{seed}\udc8b", f"\udc8b{seed}", f"{seed[:3]}\udc8b{seed[3:]}",
        ):  # fmt: skip
            parse_leaf(LEAVES[name], text)


@pytest.mark.parametrize("name", LEAVES)
def test_mutated_texts(name: str) -> None:
    """Changed texts are parsed or raise the parser's errors."""

    @settings(max_examples=40)
    @given(mutated(LEAVES[name]) | st.text(max_size=30))
    def check(text: str) -> None:
        parse_leaf(LEAVES[name], text)

    check()
