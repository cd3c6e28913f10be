"""Objects as bytes and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from holdfast.errors import StoreError

T = TypeVar("T")

encode = msgspec.msgpack.Encoder().encode


def decoder(kind: type[T]) -> Callable[[bytes], T]:
    """
    Read objects of a kind.

    Raises:
        StoreError: From the function that is returned, if the bytes are something else.
    """
    decode: Callable[[bytes], Any] = msgspec.msgpack.Decoder(kind).decode

    def read(body: bytes) -> T:
        try:
            found: T = decode(body)
        except msgspec.MsgspecError as exc:
            raise StoreError(
                f"an object of the store is damaged; it should be a {kind.__name__}: {exc}"
            ) from exc
        return found

    return read
