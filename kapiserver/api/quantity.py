"""Quantity: a fixed-point number with a suffix, `500m`, `1536Mi`, `12e6`.

Knows no resource. Mirrors k8s.io/apimachinery/pkg/api/resource with its quirks: a text that is
nearly canonical (`1.500`, `+5Gi`) is kept, any other value is written with the largest suffix that
needs no fraction; values finer than nano round away from zero; binary values end at 2^63-1.
"""

from __future__ import annotations

import functools
import re
from decimal import Context, Decimal
from typing import ClassVar, Literal

from msgspec import Struct

from kapiserver.api.types import ScalarType, Tree, Value, field

Format = Literal["DecimalSI", "DecimalExponent", "BinarySI"]

_DECIMAL = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()} | {0: ""}

_SCANNER = re.compile(r"([+-]?)0*+([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[-+]?+[0-9]*+)")
_NANO = -9
_MAX_BINARY_EXPONENT = 60
_MAX_INT64 = 2**63 - 1
_INT64_DIGITS = 18
_MAX_DIGITS = 4000
"""The maximum number of significant digits, more than any quantity needs."""
_MAX_LENGTH = 4200
"""The maximum number of digits, zeros at both ends included. Python parses ints of 4300 at most."""
_MAX_EXPONENT = 2**31 - 1

_WRONG_FORM = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_WRONG_NUMBER = "unable to parse numeric part of quantity"
_WRONG_SUFFIX = "unable to parse quantity's suffix"


class Amount(Struct, frozen=True):
    """`mantissa * 10**scale`, and its format."""

    mantissa: int
    scale: int
    format: Format
    text: str = ""
    """The text that it was parsed from, if it is written unchanged."""

    def __str__(self) -> str:
        return self.text or _format(self)

    @property
    def decimal(self) -> Decimal:
        """The exact value, for comparing and adding."""
        return Decimal(self.mantissa).scaleb(self.scale, _EXACT)

    @property
    def is_integer(self) -> bool:
        """Whether the value has no fraction."""
        return self.scale >= 0 or self.mantissa % 10**-self.scale == 0

    def scaled(self, scale: int) -> int:
        """Return the value in units of `10**scale`, rounded away from zero and limited to 64 bits,
        as ScaledValue does: 0 for Value, -3 for MilliValue."""
        shift = self.scale - scale
        if shift < 0:
            size: int = -(-abs(self.mantissa) // 10**-shift)
        else:
            size = abs(self.mantissa) * int(10 ** min(shift, _INT64_DIGITS + 1))
        return min(size, _MAX_INT64) * (-1 if self.mantissa < 0 else 1)


_EXACT = Context(prec=_MAX_DIGITS, Emax=999_999_999_999, Emin=-999_999_999_999)


class _Suffix(Struct, frozen=True):
    base: int
    exponent: int
    format: Format


def _suffix(text: str) -> _Suffix:
    if text in _DECIMAL:
        return _Suffix(10, _DECIMAL[text], "DecimalSI")
    if text in _BINARY:
        return _Suffix(2, _BINARY[text], "BinarySI")
    if text[0] not in "eE" or len(text) > 20:
        raise ValueError(_WRONG_SUFFIX)
    try:
        exponent = int(text[1:])
    except ValueError:
        raise ValueError(_WRONG_SUFFIX) from None
    if abs(exponent) > _MAX_EXPONENT:
        raise ValueError(_WRONG_SUFFIX)
    return _Suffix(10, exponent, "DecimalExponent")


def parse(text: str) -> Amount:
    """Parse a quantity. Raises ValueError worded as resource.ParseQuantity words it."""
    # Long texts are not cached, so that clients cannot fill the cache with them.
    return _parse_cached(text) if len(text) <= _MAX_CACHED_LENGTH else _parse(text)


def _parse(text: str) -> Amount:
    match = _SCANNER.fullmatch(text)
    if match is None or not text:
        raise ValueError(_WRONG_FORM)
    sign, integer, fraction = match[1], match[2] or "0", match[3] or ""
    suffix = _suffix(match[4])
    digits = integer + fraction
    if len(digits) > _MAX_LENGTH or len(digits.strip("0")) > _MAX_DIGITS:
        raise ValueError(_WRONG_NUMBER)
    if len(digits) - 1 + suffix.exponent > _MAX_EXPONENT:
        raise ValueError(_WRONG_SUFFIX)
    value = int(sign + digits)
    int64_amount = _int64_amount(value, digits, fraction, suffix, text)
    if int64_amount is not None:
        return int64_amount
    if suffix.base == 10:
        return _round_to_nano(value, suffix.exponent - len(fraction), suffix.format)
    return _binary_amount(value << suffix.exponent, len(fraction))


_MAX_CACHED_LENGTH = 64
_parse_cached = functools.lru_cache(4096)(_parse)


def _int64_amount(
    value: int, digits: str, fraction: str, suffix: _Suffix, text: str
) -> Amount | None:
    # The values that Go stores in an int64. Only they can keep their text, so the limit is Go's.
    scale = -len(fraction) + (suffix.exponent if suffix.base == 10 else 0)
    if suffix.base == 10:
        if len(digits) > _INT64_DIGITS or scale < _NANO:
            return None
        keeps_text = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
        return Amount(value, scale, suffix.format, text if keeps_text else "")
    if fraction or 15 - len(digits) - suffix.exponent * 3 // 10 - 1 < 0:
        return None
    if abs(value) << suffix.exponent > _MAX_INT64:
        return None
    keeps_text = abs(value) & 7 != 0
    return Amount(value << suffix.exponent, 0, "BinarySI", text if keeps_text else "")


def _round_to_nano(value: int, scale: int, form: Format) -> Amount:
    # Values finer than nano round away from zero.
    drop = _NANO - scale
    if value == 0:
        return Amount(0, 0, form)
    if drop <= 0:
        return Amount(value, scale, form)
    sign = -1 if value < 0 else 1
    mantissa = 1 if drop > _MAX_DIGITS else -(-abs(value) // 10**drop)
    return Amount(sign * mantissa, _NANO, form)


def _binary_amount(value: int, places: int) -> Amount:
    exact = _round_to_nano(value, -places, "BinarySI")
    unit = 10**-exact.scale
    size = abs(exact.mantissa)
    if size > _MAX_INT64 * unit:
        return Amount(_MAX_INT64 if value > 0 else -_MAX_INT64, 0, "BinarySI")
    form: Format = "DecimalSI" if 0 < size < unit else "BinarySI"
    return Amount(exact.mantissa, exact.scale, form)


def add(left: Amount, right: Amount) -> Amount:
    """Return the sum, in the format of the first, or of the second if the first is zero.

    The number of digits is limited, so that exponents far apart cost nothing. If the sum is too
    large for `parse`, the result is the first amount.
    """
    result_format = left.format if left.mantissa else right.format
    total = _EXACT.add(left.decimal, right.decimal)
    if total and total.adjusted() > _MAX_EXPONENT:
        return left
    sign, digits, exponent = total.as_tuple()
    assert isinstance(exponent, int)
    mantissa = int("".join(map(str, digits))) * (-1 if sign else 1)
    if exponent > 0 and result_format == "BinarySI":
        if exponent > _INT64_DIGITS + 1:
            result_format = "DecimalSI"
        else:
            mantissa, exponent = mantissa * 10**exponent, 0
    return Amount(mantissa, exponent, result_format)


def subtract(left: Amount, right: Amount) -> Amount:
    """Return the difference, in the format of the first."""
    return add(left, Amount(-right.mantissa, right.scale, right.format))


def _format(amount: Amount) -> str:
    if amount.mantissa == 0:
        return "0"
    if amount.format == "BinarySI":
        text = _format_binary(amount)
        if text is not None:
            return text
    mantissa, exponent = amount.mantissa, amount.scale
    while mantissa % 10 == 0:
        mantissa, exponent = mantissa // 10, exponent + 1
    shift = exponent % 3
    mantissa, exponent = mantissa * 10**shift, exponent - shift
    if amount.format != "DecimalExponent" and exponent in _DECIMAL_SUFFIX:
        return f"{mantissa}{_DECIMAL_SUFFIX[exponent]}"
    # DecimalSI has no suffix beyond E; Go falls back to an exponent.
    return f"{mantissa}e{exponent}" if exponent else str(mantissa)


def _format_binary(amount: Amount) -> str | None:
    # None if a binary suffix would need rounding, or if the value is too small for one.
    integer, remainder = divmod(amount.mantissa, 10**-amount.scale)
    if remainder or -1024 < integer < 1024:
        return None
    exponent = 0
    while integer % 1024 == 0 and exponent < _MAX_BINARY_EXPONENT:
        integer, exponent = integer // 1024, exponent + 10
    return f"{integer}{_BINARY_SUFFIX[exponent]}"


@functools.lru_cache(4096)
def _canonical(text: str) -> str:
    return str(parse(text.strip()))


class Quantity(ScalarType):
    """A fixed-point number with an optional suffix: `500m` (thousandths), `3`, `12e6`, `1536Mi`.
    Suffixes are n, u, m, k, M, G, T, P, E and Ki, Mi, Gi, Ti, Pi, Ei."""

    package: ClassVar[str] = "k8s.io.apimachinery.pkg.api.resource"
    openapi: ClassVar[Tree] = {"oneOf": [{"type": "string"}, {"type": "number"}]}

    string: str = field(1, doc="The quantity as text, in canonical form.")

    @classmethod
    def canonical(cls, value: Value) -> str:
        if isinstance(value, str):
            if len(value) <= _MAX_CACHED_LENGTH:
                return _canonical(value)
            return str(parse(value.strip()))
        if value is None:
            return "0"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(_WRONG_FORM)
        if isinstance(value, int) and abs(value) > _MAX_INT64:
            return str(Amount(value, 0, "DecimalSI"))
        return _canonical(repr(value))

    @classmethod
    def to_message(cls, value: Value) -> Tree:
        return {"string": value if value is not None else "0"}

    @classmethod
    def from_message(cls, message: Tree) -> Value:
        return cls.canonical(message.get("string") or "0")
