from typing_extensions import Buffer

def crc32c(data: Buffer, value: int = 0) -> int:
    """CRC-32C (Castagnoli) of `data`, going on from `value`."""

def crc32c_portable(data: Buffer, value: int = 0) -> int:
    """The loop for processors without the instruction, here so that a test can hold it against the other."""
