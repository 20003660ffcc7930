"""LZ4 frames as Kafka's clients write and read them."""

from typing_extensions import Buffer

def write_frame(data: Buffer) -> memoryview:
    """A frame of blocks that stand alone, by the fast method."""

def read_frame(data: Buffer, size_max: int) -> memoryview | None:
    """What the frame holds; None when it is damaged, holds more than `size_max`, or is of a kind for the library."""
