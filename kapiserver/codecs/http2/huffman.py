"""The Huffman code of HTTP/2's headers. Pure. Source: RFC 7541, section 5.2 and appendix B.

A decoder reads whole bytes: a state is a node of the code's tree, and a transition is what one byte
leads to, the next state and the symbols on the way. Transitions are computed when they are first
needed; header text needs some hundreds of the 65,536.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

EOS = 256
"""The symbol that pads, and is never sent."""

_SYMBOLS_BY_LENGTH: dict[int, bytes] = {
    5: b"012aceiost",
    6: b" %-./3456789=A_bdfghlmnpru",
    7: b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz",
    8: b"&*,;XZ",
    10: b'!"()?',
    11: b"'+|",
    12: b"#>",
    13: b"\x00$@[]~",
    14: b"^}",
    15: b"<`{",
    19: b"\\\xc3\xd0",
    20: bytes((128, 130, 131, 162, 184, 194, 224, 226)),
    21: bytes((153, 161, 167, 172, 176, 177, 179, 209, 216, 217, 227, 229, 230)),
    22: bytes((
        129, 132, 133, 134, 136, 146, 154, 156, 160, 163, 164, 169, 170,
        173, 178, 181, 185, 186, 187, 189, 190, 196, 198, 228, 232, 233,
    )),
    23: bytes((
        1, 135, 137, 138, 139, 140, 141, 143, 147, 149, 150, 151, 152, 155, 157,
        158, 165, 166, 168, 174, 175, 180, 182, 183, 188, 191, 197, 231, 239,
    )),
    24: bytes((9, 142, 144, 145, 148, 159, 171, 206, 215, 225, 236, 237)),
    25: bytes((199, 207, 234, 235)),
    26: bytes((192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255)),
    27: bytes((
        203, 204, 211, 212, 214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252, 253,
        254,
    )),
    28: bytes((
        2, 3, 4, 5, 6, 7, 8, 11, 12, 14, 15, 16, 17, 18, 19,
        20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 127, 220, 249,
    )),
    30: bytes((10, 13, 22)),
}  # fmt: skip
"""The symbols, by the bits of their codes. The code is canonical: among codes of a length, and from
one length to the next, each code is the previous one plus 1. EOS is the last one of 30 bits."""


class InvalidHuffman(Exception):
    """Bytes that no encoder sends."""


def codes() -> Iterator[tuple[int, int, int]]:
    """Yield each symbol with its code and the number of bits of the code."""
    code, length = 0, 0
    for bits, symbols in _SYMBOLS_BY_LENGTH.items():
        code <<= bits - length
        length = bits
        for symbol in symbols:
            yield symbol, code, bits
            code += 1
    yield EOS, code, length


def _tree() -> list[list[int]]:
    """Return the nodes of the tree, the root first. A node has two children: the number of a node,
    or a symbol as a negative number: -1 is symbol 0."""
    nodes = [[0, 0]]
    for symbol, code, bits in codes():
        node = 0
        for position in range(bits - 1, 0, -1):
            bit = code >> position & 1
            if not nodes[node][bit]:
                nodes[node][bit] = len(nodes)
                nodes.append([0, 0])
            node = nodes[node][bit]
        nodes[node][code & 1] = -1 - symbol
    return nodes


class _Transitions(dict[int, tuple[int, bytes]]):
    """What a byte leads to: the key is the state and the byte, the value the next state and the
    symbols. A state is the number of its node times 256.

    ends    the states in which a text may end: after whole symbols, or in up to 7 bits of padding
    """

    def __init__(self) -> None:
        super().__init__()
        self._nodes = _tree()
        self.ends = {0}
        node = 0
        for _ in range(7):
            node = self._nodes[node][1]
            self.ends.add(node << 8)

    def __missing__(self, key: int) -> tuple[int, bytes]:
        """Return and remember a transition. Raises InvalidHuffman for EOS."""
        node, byte = key >> 8, key & 255
        symbols = bytearray()
        for position in range(7, -1, -1):
            node = self._nodes[node][byte >> position & 1]
            if node < 0:
                symbol, node = -1 - node, 0
                if symbol == EOS:
                    raise InvalidHuffman("a Huffman code contains EOS")
                symbols.append(symbol)
        self[key] = transition = node << 8, bytes(symbols)
        return transition


_transitions = _Transitions()


def decode(data: bytes) -> bytes:
    """Return the text of a Huffman code. Raises InvalidHuffman."""
    transitions = _transitions
    state, pieces = 0, []
    for byte in data:
        state, piece = transitions[state | byte]
        pieces.append(piece)
    if state not in transitions.ends:
        raise InvalidHuffman("a Huffman code ends with invalid padding")
    return b"".join(pieces)


decode_short = functools.lru_cache(maxsize=1024)(decode)
"""Decodes like `decode`, and caches results: a text that came before takes a tenth of the time."""
