"""The lexer of CEL. Mirrors the grammar of cel-spec (CEL.g4)."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from kapiserver.api.cel.syntax import MAX_CHARACTERS, CelSyntaxError
from kapiserver.api.cel.values import UInt

_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n]*)"
    r"|(?P<float>[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+([eE][+-]?[0-9]+)?)"
    r"|(?P<uint>(0x[0-9a-fA-F]+|[0-9]+)[uU])"
    r"|(?P<int>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<text>[rRbB]{0,2}('''|\"\"\"|'|\"))"
    r"|(?P<ident>[_a-zA-Z][_a-zA-Z0-9]*)"
    r"|(?P<escaped>`[a-zA-Z0-9_.\-/ ]+`)"
    r"|(?P<symbol>&&|\|\||==|!=|<=|>=|[-+*/%!?:.,<>()\[\]{}])"
)
_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\",
    "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|([0-3][0-7]{2})|u([0-9a-fA-F]{4})"
    r"|U([0-9a-fA-F]{8}))|\\(.|$)",
    re.DOTALL,
)
_QUOTED = {
    "'": re.compile(r"((?:[^'\\\n]|\\[^\n])*+)'"),
    '"': re.compile(r'((?:[^"\\\n]|\\[^\n])*+)"'),
    "'''": re.compile(r"((?:(?!''')[^\\]|\\.)*+)'''", re.DOTALL),
    '"""': re.compile(r'((?:(?!""")[^\\]|\\.)*+)"""', re.DOTALL),
}
"""The rest of a text with its closing quote, by its quote. A character after a backslash is part of
the text."""
_RAW = {
    "'": re.compile("([^'\n]*+)'"),
    '"': re.compile('([^"\n]*+)"'),
    "'''": re.compile("((?:(?!''').)*+)'''", re.DOTALL),
    '"""': re.compile('((?:(?!""").)*+)"""', re.DOTALL),
}
RESERVED = frozenset(
    (
        "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
        "loop", "package", "namespace", "return", "var", "void", "while",
    )
)  # fmt: skip
"""Words that cannot name a variable. A field may have such a name."""
TOKENS = frozenset(("true", "false", "null", "in"))
"""Words of the grammar. A field with such a name needs backticks."""
KEYWORDS = RESERVED | TOKENS


class Token(Struct, frozen=True):
    """A token: `kind` is symbol, ident, escaped, literal or end."""

    kind: str
    text: str
    position: int
    value: Any = None


def tokenize(source: str) -> list[Token]:
    """Return the tokens of an expression, the last of kind `end`. Raises CelSyntaxError."""
    if len(source) > MAX_CHARACTERS:
        message = f"expression code point size exceeds limit: size: {len(source)}"
        raise CelSyntaxError(0, f"{message}, limit {MAX_CHARACTERS}")
    tokens: list[Token] = []
    position = 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            character = source[position]
            message = f"Syntax error: token recognition error at: '{character}'"
            raise CelSyntaxError(position, message)
        kind, text, start = match.lastgroup or "", match[0], position
        position = match.end()
        if match["text"]:
            value, position = _text(source, match["text"], start, position)
            tokens.append(Token("literal", source[start:position], start, value))
        elif kind in _NUMBERS or match["float"]:
            tokens.append(Token("literal", text, start, _number(match, text, start)))
        elif kind != "space":
            tokens.append(Token(kind, text, start))
    tokens.append(Token("end", "<EOF>", len(source)))
    return tokens


_NUMBERS = ("float", "uint", "int")
_MAX_DIGITS = 20


def _number(match: re.Match[str], text: str, position: int) -> Any:
    if match["float"]:
        return float(text)
    digits = text.rstrip("uU")
    if digits.startswith("0x"):
        value = int(digits, 16)
    else:
        digits = digits.lstrip("0") or "0"
        value = int(digits) if len(digits) <= _MAX_DIGITS else 1 << 64
    if match["uint"]:
        if value > 2**64 - 1:
            raise CelSyntaxError(position, "invalid uint literal")
        return UInt(value)
    # 2^63 is valid after a minus only, which the parser checks.
    if value > 2**63:
        raise CelSyntaxError(position, "invalid int literal")
    return value


def _text(source: str, opening: str, start: int, position: int) -> tuple[str | bytes, int]:
    quote = opening.lstrip("rRbB")
    prefix = opening[: -len(quote)].lower()
    match = (_RAW if "r" in prefix else _QUOTED)[quote].match(source, position)
    if match is None:
        message = f"Syntax error: token recognition error at: '{source[start:]}'"
        raise CelSyntaxError(start, message)
    raw, end = match[1], match.end(1)
    is_bytes = "b" in prefix
    text = raw if "r" in prefix else _unescape(raw, start, is_bytes)
    if is_bytes:
        encoding = "latin-1" if "r" not in prefix else "utf-8"
        return text.encode(encoding, "surrogateescape"), end + len(quote)
    return text, end + len(quote)


def _unescape(text: str, position: int, is_bytes: bool) -> str:
    # Bytes are text with one character per byte: \xff is a byte in bytes, a code point in text.
    def plain(part: str) -> str:
        return part.encode(errors="surrogateescape").decode("latin-1") if is_bytes else part

    parts: list[str] = []
    position_in_text = 0
    for match in _ESCAPE.finditer(text):
        parts.append(plain(text[position_in_text : match.start()]))
        position_in_text = match.end()
        if match[1]:
            parts.append(_ESCAPES[match[1]])
            continue
        if match[6] is not None:
            raise CelSyntaxError(position, f"Syntax error: invalid escape sequence: \\{match[6]}")
        code = (
            int(match[2] or match[4] or match[5] or "0", 16) if not match[3] else int(match[3], 8)
        )
        if (match[4] or match[5]) and is_bytes:
            raise CelSyntaxError(position, "Syntax error: unicode escape in bytes")
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise CelSyntaxError(position, "Syntax error: invalid unicode code point")
        parts.append(chr(code))
    parts.append(plain(text[position_in_text:]))
    return "".join(parts)
