"""CRC-32C over any buffer, without copying it."""

from libc.stdint cimport uint8_t, uint32_t


crc_prepare()


def crc32c(const uint8_t[::1] data, uint32_t value=0):
    if data.shape[0] == 0:
        return value
    return crc32c_update(value, &data[0], data.shape[0])


def crc32c_portable(const uint8_t[::1] data, uint32_t value=0):
    """The loop for processors without the instruction, here so that a test can hold it against the other."""
    if data.shape[0] == 0:
        return value
    return ~crc_by_table(~value, &data[0], data.shape[0])
