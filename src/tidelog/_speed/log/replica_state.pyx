"""How far the followers of a partition are in the leader's epoch, and how far records are committed by that.

`replication.replica_state` has the rest of a leader's rules, and is the one caller besides the append and the fetch path.
`tests/reference/replica_state.py` is the same in plain Python."""

from libc.stdlib cimport free, realloc
from libc.string cimport memset

cdef enum:
    ROOM_FIRST = 2
    FOLLOWERS_MAX = 64  # any client can say that it is a broker: beyond this, news of one replace those of another


cdef class NativeReplicaState:
    def __dealloc__(self):
        free(self.followers)

    def appended(self, int64_t end):
        """The leader's own log reaches to `end`; true if `committed` moved."""
        return self.grew(end)

    def follower_fetched(self, int32_t node, int64_t end, int64_t now_ms):
        """`node` asked for `end`, so it holds every record below it; true if `committed` moved."""
        self.note_fetch(node, end, now_ms)
        return self.advance()

    def follower_end(self, int32_t node):
        """None when the follower has not fetched in this epoch."""
        cdef Follower* follower = self.find(node)
        return follower.end if follower is not NULL and follower.has_fetched else None

    def behind_ms(self, int32_t node, int64_t now_ms):
        """For how long a follower has not held the whole log; 0 when it does, or has not fetched in this epoch."""
        cdef Follower* follower = self.find(node)
        if follower is NULL:
            return 0
        if (follower.end if follower.has_fetched else 0) >= self.end or not follower.has_caught_up:
            return 0
        return max(now_ms - follower.caught_up_ms, 0)

    def is_lagging(self, int32_t node, int64_t now_ms, int64_t lag_ms_max):
        """Whether a follower has not held the whole log for longer than allowed.  The time of a follower that was never
        seen at the end begins when somebody asks first."""
        cdef Follower* follower = self.find_or_add(node)
        if (follower.end if follower.has_fetched else 0) >= self.end:
            return False
        if not follower.has_caught_up:
            follower.has_caught_up = True
            follower.caught_up_ms = now_ms
        return now_ms - follower.caught_up_ms > lag_ms_max

    def forget_followers(self):
        """A new epoch: positions from an older one may lie past the point where the logs part ways."""
        cdef int at
        for at in range(self.follower_count):
            self.followers[at].has_fetched = self.followers[at].has_caught_up = False

    def count(self, counted, bint enough_members):
        """From now on a record is committed when every member of `counted` holds it, and not at all unless there are
        enough members; true if `committed` moved."""
        cdef int at
        cdef int32_t node
        self.counts_itself = False
        for at in range(self.follower_count):
            self.followers[at].counts = False
        for node in counted:
            if node == self.node:
                self.counts_itself = True
            else:
                self.find_or_add(node).counts = True
        self.enough_members = enough_members
        self.is_alone = enough_members and self.counts_itself and len(counted) == 1
        return self.advance()

    def stop_leading(self):
        """Nothing is committed by this node's own appends."""
        self.forget_followers()
        self.is_alone = self.enough_members = False

    cdef Follower* find(self, int32_t node) noexcept:
        cdef int at
        for at in range(self.follower_count):
            if self.followers[at].node == node:
                return &self.followers[at]
        return NULL

    cdef Follower* find_or_add(self, int32_t node) except NULL:
        cdef Follower* follower = self.find(node)
        cdef Follower* grown
        cdef int capacity
        if follower is not NULL:
            return follower
        if self.follower_count >= FOLLOWERS_MAX:
            follower = self.find_replaceable()
            if follower is not NULL:
                memset(follower, 0, sizeof(Follower))
                follower.node = node
                return follower
        if self.follower_count == self.follower_capacity:
            capacity = self.follower_capacity * 2 if self.follower_capacity else ROOM_FIRST
            grown = <Follower*>realloc(self.followers, capacity * sizeof(Follower))
            if grown is NULL:
                raise MemoryError
            self.followers, self.follower_capacity = grown, capacity
        follower = &self.followers[self.follower_count]
        memset(follower, 0, sizeof(Follower))
        follower.node = node
        self.follower_count += 1
        return follower

    cdef Follower* find_replaceable(self) noexcept:
        """Of those that bound nothing, the one that was silent for longest."""
        cdef Follower* oldest = NULL
        cdef int at
        for at in range(self.follower_count):
            if not self.followers[at].counts:
                if oldest is NULL or self.followers[at].fetched_ms < oldest.fetched_ms:
                    oldest = &self.followers[at]
        return oldest

    cdef int note_fetch(self, int32_t node, int64_t end, int64_t now_ms) except -1:
        cdef Follower* follower = self.find_or_add(node)
        cdef int64_t caught_up_ms = -1
        cdef bint caught_up = end >= self.end
        if caught_up:
            caught_up_ms = now_ms
        elif follower.has_fetched and end >= follower.leader_end_then:
            # On a busy partition a follower is never quite at the end: what counts is that it has what was there at its
            # fetch before.
            caught_up = True
            caught_up_ms = follower.fetched_ms
            if follower.has_caught_up:
                caught_up_ms = max(caught_up_ms, follower.caught_up_ms)
        if caught_up:
            follower.caught_up_ms = caught_up_ms
            follower.has_caught_up = True
        follower.end = end
        follower.fetched_ms = now_ms
        follower.leader_end_then = self.end
        follower.has_fetched = True
        return 0

    cdef bint is_at(self, int32_t node, int64_t end) noexcept:
        """Whether the follower's last fetch in this epoch asked for `end`."""
        cdef Follower* follower = self.find(node)
        return follower is not NULL and follower.has_fetched and follower.end == end

    cdef bint grew(self, int64_t end) noexcept:
        self.end = end
        if self.is_alone:
            self.committed = end
            return True
        return self.advance()

    cdef bint advance(self) noexcept:
        """The high watermark: what all counted members hold, if there are enough of them."""
        cdef int64_t held_by_all = self.end
        cdef bint anybody = self.counts_itself
        cdef int at
        if not self.enough_members:
            return False
        for at in range(self.follower_count):
            if self.followers[at].counts:
                # A follower that has not fetched in this epoch counts as holding nothing.
                anybody = True
                held_by_all = min(held_by_all, self.followers[at].end if self.followers[at].has_fetched else 0)
        if not anybody or held_by_all <= self.committed:
            return False
        self.committed = held_by_all
        return True
