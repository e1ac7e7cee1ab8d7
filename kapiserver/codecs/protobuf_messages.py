"""Protobuf messages of declared types: the functions that write and read one type's message.

Functions are compiled from the declarations, at the first call that needs them. A message holds
neither kind nor apiVersion: that is the envelope's part. Mirrors Marshal and Unmarshal of the
structs in k8s.io/api, byte for byte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Protocol

from kapiserver.api.types import Tree, Type
from kapiserver.codecs import protobuf_decoder, protobuf_encoder
from kapiserver.codecs.codegen import cached_per_type
from kapiserver.codecs.errors import Malformed, NotEncodable
from kapiserver.codecs.limits import MAX_DEPTH, UNLIMITED
from kapiserver.codecs.protobuf_decoder import ValueBudget
from kapiserver.codecs.struct_decoder import go_struct_name
from kapiserver.codecs.tree_decoder import check_depth, is_recursive

_MANY_BRACKETS = MAX_DEPTH - 50
"""Raw JSON with fewer is not too deep, wherever it lies in an object."""


class MessageDecoder(Protocol):
    """Reads one message of at most that many list items, map entries and unknown fields."""

    def __call__(self, data: bytes, max_values: int = UNLIMITED) -> Tree: ...


@cached_per_type
def message_encoder(type_: type[Type]) -> Callable[[Tree], bytes]:
    """What writes canonical trees of a type.

    Raises NotEncodable if the type has no form in Protobuf; the function, if the tree is none of
    that type.
    """
    if not type_.wire:
        raise NotEncodable(
            f"object *{go_struct_name(type_)} does not implement the protobuf marshalling "
            "interface and cannot be encoded to a protobuf message"
        )
    write = protobuf_encoder.compiled_encoder(type_)

    def encode(tree: Tree) -> bytes:
        try:
            return bytes(write(tree))
        except (AttributeError, TypeError, ValueError, OverflowError, struct.error) as error:
            raise NotEncodable(
                f"a {type_.__name__} does not hold what it should: {error}"
            ) from None
        except RecursionError:
            raise NotEncodable("exceeded max depth") from None

    return encode


@cached_per_type
def message_decoder(type_: type[Type]) -> MessageDecoder:
    """What reads the messages of a type into canonical trees, in which a kind does not name
    itself.

    The function raises Malformed, TooLarge.
    """
    read = protobuf_decoder.compiled_decoder(type_)
    recursive = is_recursive(type_)

    def decode(data: bytes, max_values: int = UNLIMITED) -> Tree:
        try:
            tree = read(data, ValueBudget(max_values))
        except (IndexError, struct.error):
            raise Malformed("unexpected EOF") from None
        except (ValueError, OverflowError) as error:
            raise Malformed(str(error)) from None
        except RecursionError:
            raise Malformed("exceeded max depth") from None
        # Deep is what holds itself, or has raw JSON with many brackets in it.
        if recursive or data.count(b"{") + data.count(b"[") > _MANY_BRACKETS:
            check_depth(tree)
        return tree

    return decode
