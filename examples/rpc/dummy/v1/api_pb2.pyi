from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ComputeDoubleRequest(_message.Message):
    __slots__ = ("input",)
    INPUT_FIELD_NUMBER: _ClassVar[int]
    input: int
    def __init__(self, input: _Optional[int] = ...) -> None: ...

class ComputeDoubleResponse(_message.Message):
    __slots__ = ("response", "overflow")
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    OVERFLOW_FIELD_NUMBER: _ClassVar[int]
    response: int
    overflow: bool
    def __init__(self, response: _Optional[int] = ..., overflow: _Optional[bool] = ...) -> None: ...
