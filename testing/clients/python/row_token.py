"""The token of a row; see "The token of a row" of protos/README.md."""

import struct

# What is hashed of a value: the byte of its type, then its bytes.
ENCODERS = {
    "bigint": lambda value: struct.pack(">Bq", 1, value),
    "int": lambda value: struct.pack(">Bi", 2, value),
    "text": lambda value: b"\x03" + value.encode(),
    "blob": lambda value: b"\x04" + value,
    "boolean": lambda value: struct.pack(">B?", 5, value),
    "double": lambda value: struct.pack(">Bd", 6, value),
    "timestamp": lambda value: struct.pack(">Bq", 7, value),
    "uuid": lambda value: b"\x08" + value.bytes,
}

MASK = 2**64 - 1


def token_of(encoded: bytes) -> int:
    """The token of an encoded value: FNV-1a 64, finished with fmix64."""
    token = 0xCBF29CE484222325
    for byte in encoded:
        token = (token ^ byte) * 0x100000001B3 & MASK
    token = (token ^ token >> 33) * 0xFF51AFD7ED558CCD & MASK
    token = (token ^ token >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return token ^ token >> 33
