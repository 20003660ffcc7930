from typing_extensions import Buffer

from tidelog._speed.log.batch import Header

def sound(data: Buffer, batch_bytes_max: int, timestamp_max: int) -> Header | None:
    """The header of the one batch in `data` when nothing is wrong with it; None when a closer look is needed."""
