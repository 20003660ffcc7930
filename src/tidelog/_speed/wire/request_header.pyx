"""The header of a request: its client id, and where the body starts."""

from libc.stdint cimport uint8_t

from tidelog._speed.wire.request_cursor cimport Cursor, open_cursor, skip_tags, take_text


def request_header(const uint8_t[::1] frame, bint flexible):
    cdef Cursor cursor = open_cursor(&frame[0], frame.shape[0], 8)
    client_id = take_text(&cursor, False)
    if flexible:
        skip_tags(&cursor)
    return client_id, cursor.at
