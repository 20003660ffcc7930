from libc.stdint cimport int64_t, uint8_t

from tidelog._speed.log.batch cimport Header

cdef Header sound_header(const uint8_t* start, Py_ssize_t size, int64_t batch_bytes_max, int64_t timestamp_max)
