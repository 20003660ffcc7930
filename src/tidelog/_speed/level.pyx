"""Of the partitions in a follower's fetch session, those that have no news for it."""

from cpython.dict cimport PyDict_GetItem, PyDict_Next, PyDict_SetItem
from cpython.ref cimport PyObject

from tidelog._speed.tail cimport LogTail, PartitionTail, ReplicaTail


def sort_level(dict held, dict wanted, dict told, object node, object here, object now_ms, list level not None):
    cdef list others = []
    cdef PyObject *key_at
    cdef PyObject *wanted_at
    cdef PyObject *found
    cdef PyObject *seen
    cdef Py_ssize_t position = 0
    cdef PartitionTail partition
    cdef ReplicaTail state
    cdef LogTail log
    cdef tuple ask
    while PyDict_Next(wanted, &position, &key_at, &wanted_at):
        ask = <tuple>wanted_at
        found = PyDict_GetItem(held, <object>key_at)
        seen = PyDict_GetItem(told, <object>key_at)
        if found != NULL and seen != NULL:
            partition = <PartitionTail?><object>found
            state, log = partition.state, partition.log
            if (
                ask[1] == log.end
                and ask[0] == state.epoch
                and partition.leader == here
                and (<tuple>seen)[0] == state.committed
                and (<tuple>seen)[1] == log.start
                and node in state.in_sync
                and state._ends.get(node) == log.end
            ):
                PyDict_SetItem(state._caught_up_ms, node, now_ms)
                level.append(partition)
                continue
        others.append((<object>key_at, ask))
    return others


def wait_all(list partitions not None, object wait):
    cdef PartitionTail partition
    for partition in partitions:
        PyDict_SetItem(partition.follower_waits, wait, None)


def wait_no_more(list partitions not None, object wait):
    cdef PartitionTail partition
    for partition in partitions:
        partition.follower_waits.pop(wait, None)
        partition.fetch_waits.pop(wait, None)
