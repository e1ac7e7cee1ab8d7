"""Floats as Go writes them. Knows nothing else. Mirrors encoding/json's float encoder."""

from __future__ import annotations


def float_text(value: float) -> str:
    """A finite float in Go's JSON: no exponent from 1e-6 up to 1e21, no `.0`."""
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
    whole, _, part = digits.lstrip("-").partition(".")
    shift = int(exponent)
    if shift < 0:
        return f"{sign}0.{'0' * (-shift - len(whole))}{whole}{part}"
    return f"{sign}{(whole + part).ljust(len(whole) + shift, '0')}"
