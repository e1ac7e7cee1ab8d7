"""Encodes and decodes the Protobuf messages of declared types.

The functions are generated from the declarations at first use. A message contains neither kind nor
apiVersion, which are in the envelope. Mirrors Marshal and Unmarshal of the structs in k8s.io/api,
byte for byte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Protocol

from kapiserver.api.types import Tree, Type, Value, cached_in_type
from kapiserver.codecs.errors import Malformed, NotEncodable
from kapiserver.codecs.limits import MAX_DEPTH, UNLIMITED
from kapiserver.codecs.protobuf import decoder, encoder
from kapiserver.codecs.protobuf.decoder import ValueBudget
from kapiserver.codecs.struct_decoder import go_struct_name
from kapiserver.codecs.tree_decoder import check_depth, is_recursive

_MANY_BRACKETS = MAX_DEPTH - 50
"""Raw JSON with fewer brackets cannot be too deep, wherever it is in an object."""


class MessageDecoder(Protocol):
    """Decodes one message of at most `max_values` list items, map entries and unknown fields."""

    def __call__(self, data: bytes, max_values: int = UNLIMITED) -> Tree: ...


@cached_in_type
def message_encoder(type_: type[Type]) -> Callable[[Tree], bytes]:
    """Return the function that encodes canonical trees of a type as messages.

    Raises NotEncodable if the type has no Protobuf form. The function raises it if a tree is not of
    that type.
    """
    if not type_.wire:
        raise NotEncodable(
            f"object *{go_struct_name(type_)} does not implement the protobuf marshalling "
            "interface and cannot be encoded to a protobuf message"
        )
    encode_message = encoder.compiled_encoder(type_.message_type())

    def encode(tree: Tree) -> bytes:
        try:
            try:
                return encode_message(tree)
            except TypeError:
                if type_.declares_fields:
                    raise
                # The JSON of a custom object may have 5.0 where its schema has an integer.
                return encode_message(_with_integers(tree))
        except (AttributeError, TypeError, ValueError, OverflowError, struct.error) as error:
            raise NotEncodable(
                f"a {type_.__name__} does not hold what it should: {error}"
            ) from None
        except RecursionError:
            raise NotEncodable("exceeded max depth") from None

    return encode


@cached_in_type
def message_decoder(type_: type[Type]) -> MessageDecoder:
    """Return the function that decodes messages of a type into canonical trees.

    The trees have no `kind` and `apiVersion`. The function raises Malformed, TooLarge.
    """
    decode_message = decoder.compiled_decoder(type_.message_type())
    recursive = is_recursive(type_.message_type())

    def decode(data: bytes, max_values: int = UNLIMITED) -> Tree:
        try:
            tree = decode_message(data, ValueBudget(max_values))
        except (IndexError, struct.error):
            raise Malformed("unexpected EOF") from None
        except (ValueError, OverflowError) as error:
            raise Malformed(str(error)) from None
        except RecursionError:
            raise Malformed("exceeded max depth") from None
        # Only recursive types, or raw JSON with many brackets, can be too deep.
        if recursive or data.count(b"{") + data.count(b"[") > _MANY_BRACKETS:
            check_depth(tree)
        return tree

    return decode


def _with_integers(value: Value) -> Value:
    """Return a copy of a value in which floats without a fraction are integers."""
    if isinstance(value, dict):
        return {name: _with_integers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    is_integer = isinstance(value, float) and value.is_integer() and abs(value) < 1 << 63
    return int(value) if is_integer else value
