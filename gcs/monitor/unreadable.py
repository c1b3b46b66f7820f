"""What goes wrong when bytes are read that are damaged, or come from another version of us."""

from __future__ import annotations

import struct
import zlib
from typing import Final

import msgpack

UNREADABLE: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    msgpack.exceptions.UnpackException,
    struct.error,
    zlib.error,
)
"""Whatever decoding them, or using what came of it, may raise."""
