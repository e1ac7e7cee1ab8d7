from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ComputeDoubleRequest(_message.Message):
    __slots__ = ("input32",)
    INPUT32_FIELD_NUMBER: _ClassVar[int]
    input32: int
    def __init__(self, input32: _Optional[int] = ...) -> None: ...

class ComputeDoubleResponse(_message.Message):
    __slots__ = ("response32",)
    RESPONSE32_FIELD_NUMBER: _ClassVar[int]
    response32: int
    def __init__(self, response32: _Optional[int] = ...) -> None: ...
