"""Formats numbers and text as Go's encoding/json does."""

from __future__ import annotations

_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


def replace_surrogates(text: str) -> str:
    """Return the text with U+FFFD in place of each lone surrogate."""
    return text.translate(_SURROGATES)


def format_float(value: float) -> str:
    """Format a finite float as Go does: without an exponent from 1e-6 to 1e21, without `.0`."""
    if value == 0:
        return "-0" if str(value).startswith("-") else "0"
    if 1e-6 <= abs(value) < 1e21:
        return _without_exponent(value)
    digits, _, exponent = repr(value).partition("e")
    digits = digits.removesuffix(".0")
    if not exponent:
        digits, _, exponent = f"{value:.17e}".partition("e")
    sign = exponent[0] if exponent[0] in "+-" else "+"
    return f"{digits}e{sign}{exponent.lstrip('+-').lstrip('0')}"


def _without_exponent(value: float) -> str:
    text = repr(value)
    if "e" not in text:
        return text.removesuffix(".0")
    digits, _, exponent = text.partition("e")
    sign = "-" if digits.startswith("-") else ""
    whole, _, fraction = digits.lstrip("-").partition(".")
    shift = int(exponent)
    if shift < 0:
        return f"{sign}0.{'0' * (-shift - len(whole))}{whole}{fraction}"
    return f"{sign}{(whole + fraction).ljust(len(whole) + shift, '0')}"
