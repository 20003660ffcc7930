"""The two passes of compaction over batches: keys noted with their last offset, then superseded records left out.

Each goes through `data`, whole batches, and says where and why it stopped:

- END: at the end of `data`
- DAMAGED: the batch there is cut, fails its CRC, or is not what its header says
- OTHER: the batch there is compressed, a control batch, or transactional unless `transactional_too`
- FULL: no room left for another key, or for another batch in `out`
- EMPTY: (`sift_batches`) nothing is left of the batch there, but it belongs to a producer or ends at `bound`
"""

from typing_extensions import Buffer

from tidelog._speed.log.keymap import KeyMap

END: int
DAMAGED: int
FULL: int
OTHER: int
EMPTY: int

def whole_batches(data: Buffer) -> int:
    """How many bytes from the start of `data` are whole batches, by their length fields."""

def note_batches(keys: KeyMap, data: Buffer, start: int, transactional_too: bool) -> tuple[int, int, int]:
    """Keys from offset `start` on; (position, why, the first offset that was not gone through)."""

def sift_batches(
    keys: KeyMap,
    data: Buffer,
    out: Buffer,
    end: int,
    bound: int,
    now_ms: int,
    retention_ms: int,
    transactional_too: bool,
) -> tuple[int, int, int, int, int, int]:
    """Batches without the records that `keys` knows a later offset of; records from `end` on always stay.

    Tombstones stay too, until their batch's delete horizon has passed; a batch that keeps some and has none yet
    gets `now_ms + retention_ms`.  (position, bytes in `out`, why, records seen, kept, dropped for want of a key).
    For EMPTY the batch is counted, and the caller goes on behind it."""

def empty_batch(data: Buffer) -> bytes:
    """The header of the batch at the start of `data` as a batch of its own, without records."""
