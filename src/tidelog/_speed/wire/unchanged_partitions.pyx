"""The partitions of a follower's fetch session that have no news for the follower: most of them, most of the time.

`tests/reference/unchanged_partitions.py` is the same in plain Python."""

from cpython.dict cimport PyDict_GetItem, PyDict_Next, PyDict_SetItem
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t

from tidelog._speed.log.append cimport NativeLogState, NativePartition
from tidelog._speed.log.replica_state cimport NativeReplicaState


def split_unchanged(
    dict held, dict wanted, dict sent, int32_t follower, object here, int64_t now_ms, list unchanged not None
):
    cdef list changed = []
    cdef PyObject *key_at
    cdef PyObject *wanted_at
    cdef PyObject *held_at
    cdef PyObject *sent_at
    cdef Py_ssize_t position = 0
    cdef NativePartition partition
    cdef NativeReplicaState state
    cdef NativeLogState log
    cdef tuple wish
    cdef int64_t offset
    while PyDict_Next(wanted, &position, &key_at, &wanted_at):
        wish = <tuple>wanted_at
        held_at = PyDict_GetItem(held, <object>key_at)
        sent_at = PyDict_GetItem(sent, <object>key_at)
        if held_at != NULL and sent_at != NULL:
            partition = <NativePartition?><object>held_at
            state, log = partition.state, partition.log.state
            offset = wish[1]
            if (
                offset == log.end
                and wish[0] == state.epoch
                and partition.leader == here
                and (<tuple>sent_at)[0] == state.committed
                and (<tuple>sent_at)[1] == log.start
                and state.is_at(follower, offset)
                and follower in (<object>state).in_sync
            ):
                state.note_fetch(follower, offset, now_ms)
                unchanged.append(partition)
                continue
        changed.append((<object>key_at, wish))
    return changed


def wait_all(list partitions not None, object wait):
    cdef NativePartition partition
    for partition in partitions:
        PyDict_SetItem(partition.follower_waits, wait, None)


def wait_no_more(list partitions not None, object wait):
    cdef NativePartition partition
    for partition in partitions:
        partition.follower_waits.pop(wait, None)
        partition.fetch_waits.pop(wait, None)
