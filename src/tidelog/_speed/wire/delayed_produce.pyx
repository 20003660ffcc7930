"""Answers to produce requests that wait: for the sync of a group commit, for the in-sync replicas, within their time-out.

Kafka's DelayedProduce, in its purgatory.  An answer waits natively as long as all goes well; `broker.handlers.produce.produce` has
the rules for everything else."""

from asyncio import get_running_loop

cdef enum:
    ACKS_ALL = -1
    TIMEOUTS_KEPT = 16  # that nothing waits for now: most clients have the same one

cdef double CLOCK_RESOLUTION = 1e-6  # a timer may be called this much too early


cdef class DelayedProduce(CommitWait):
    """A future of an answer, as far as a connection needs it.  It is done before its callback returns."""

    def done(self):
        return self.is_cancelled or self.outcome is not None

    def result(self):
        assert self.outcome is not None
        return self.outcome

    def cancel(self):
        self.is_cancelled = True
        self.callback = None
        self.delayed.drop(self)

    def add_done_callback(self, callback):
        assert self.callback is None and self.outcome is None
        self.callback = callback

    def acknowledge(self):
        self.finish(self.acknowledgement)

    def finish(self, bytes outcome not None):
        if not self.is_settled():
            self.settle(outcome)
            self.call_back()

    def wait_for_all(self):
        """For the in-sync set: nobody else can vouch for the records any more."""
        self.acks = ACKS_ALL
        self.partition.commit_waits.add(self)

    @property
    def client_id(self):
        return None if self.client is None else self.client.decode("utf-8", "replace")

    def call_back(self):
        callback, self.callback = self.callback, None
        if callback is not None:
            callback(self)

    cdef int settle(self, bytes outcome) except -1:
        self.outcome = outcome
        return self.delayed.drop(self)

    cdef bint is_settled(self) except -1:
        return self.is_cancelled or self.outcome is not None

    cdef int committed(self) except -1:
        return self.delayed.put_ready(self)

    cdef int failed(self, problem) except -1:
        self.is_given_up = True
        return self.delayed.put_ready(self)

    cdef bint is_committed(self) except -1:
        """These records, and not others that another leader has put at their offsets."""
        return (
            self.partition.state.committed >= self.end
            and self.partition.state.epoch == self.epoch
            and self.partition.leader == self.partition.state.node
        )


cdef class GroupAnswers:
    """All answers that wait for one job of a group commit."""

    def on_synced(self, future):
        cdef DelayedProduce answer
        cdef bint failed = future.cancelled() or future.exception() is not None
        cdef bint leads = False
        cdef list done = []
        if not failed:
            (<object>self.partition).wrote(self.size)
            leads = self.leads_for_certain()
        for answer in self.answers:
            if answer.is_settled():
                continue
            if failed or answer.epoch != self.partition.state.epoch:
                self.delayed.end_badly(answer, False)
            elif answer.is_committed() or (answer.acks != ACKS_ALL and leads):
                done.append(answer)
            elif self.partition.leader == self.partition.state.node:
                answer.wait_for_all()
            else:
                self.delayed.end_badly(answer, False)
        self.answers = []
        self.delayed.finish(done)

    cdef bint leads_for_certain(self) except -1:
        """A sync may take longer than the lease of this broker: what it alone has would be cut by the next leader."""
        return self.partition.leader == self.partition.state.node and (
            self.partition.state.is_alone or self.delayed.lease_proven()
        )


cdef class DelayedProduces:
    """Of one broker."""

    def __init__(self, refuse, lease_proven):
        self.refuse = refuse
        self.lease_proven = lease_proven
        self.by_timeout = {}
        self.ready = []

    @property
    def waiting_count(self):
        return sum([len(answers) for answers in self.by_timeout.values()])

    cdef int wait_for_sync(self, DelayedProduce answer, NativeGroupAppend group, Py_ssize_t size) except -1:
        cdef GroupAnswers answers
        if group.answers is None:
            answers = GroupAnswers.__new__(GroupAnswers)
            answers.partition = answer.partition
            answers.group = group
            answers.delayed = self
            answers.answers = []
            group.answers = answers
            group.future.add_done_callback(answers.on_synced)
        answers = group.answers
        answers.answers.append(answer)
        answers.size += size
        return self.add(answer)

    cdef int wait_for_replicas(self, DelayedProduce answer) except -1:
        answer.partition.commit_waits.add(answer)
        return self.add(answer)

    cdef int add(self, DelayedProduce answer) except -1:
        cdef dict answers
        if self.loop is None:
            self.loop = get_running_loop()
        answer.delayed = self
        answer.deadline = <double>self.loop.time() + max(answer.timeout_ms, 0) / 1000.0
        answers = self.by_timeout.get(answer.timeout_ms)
        if answers is None:
            answers = self.by_timeout[answer.timeout_ms] = {}
        answers[answer] = None
        if self.timer is None or answer.deadline < self.timer_at:
            self.arm(answer.deadline)
        return 0

    cdef int drop(self, DelayedProduce answer) except -1:
        cdef dict answers = self.by_timeout.get(answer.timeout_ms)
        if answers is not None:
            answers.pop(answer, None)
            if not answers and len(self.by_timeout) > TIMEOUTS_KEPT:
                del self.by_timeout[answer.timeout_ms]
        return 0

    cdef int put_ready(self, DelayedProduce answer) except -1:
        """It is answered in a moment, not in the middle of another connection's request."""
        self.ready.append(answer)
        if len(self.ready) == 1:
            self.loop.call_soon(self.on_ready)
        return 0

    def on_ready(self):
        cdef DelayedProduce answer
        cdef list done = []
        cdef list ready = self.ready
        self.ready = []
        for answer in ready:
            if answer.is_settled():
                continue
            if answer.is_committed():
                done.append(answer)
            else:
                self.end_badly(answer, answer.is_given_up)
        self.finish(done)

    def on_time(self):
        """The time-out of some answer has passed."""
        cdef DelayedProduce answer
        cdef double now = self.loop.time() + CLOCK_RESOLUTION
        cdef double first = 0
        cdef list due = []
        self.timer = None
        # Answers of one time-out are in the order of their deadlines.
        for timeout_ms in list(self.by_timeout):
            answers = self.by_timeout[timeout_ms]
            for answer in answers:
                if answer.deadline > now:
                    first = answer.deadline if not first else min(first, answer.deadline)
                    break
                due.append(answer)
            if not answers:
                del self.by_timeout[timeout_ms]
        for answer in due:
            if not answer.is_settled():
                self.end_badly(answer, True)
        if first and (self.timer is None or first < self.timer_at):
            self.arm(first)

    cdef int arm(self, double deadline) except -1:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = self.loop.call_at(deadline, self.on_time)
        self.timer_at = deadline
        return 0

    cdef int finish(self, list answers) except -1:
        """All are done before the first is sent: those of one connection leave together."""
        cdef DelayedProduce answer
        for answer in answers:
            answer.settle(answer.acknowledgement)
        for answer in answers:
            try:
                answer.call_back()
            except Exception as problem:
                self.loop.call_exception_handler({"message": "an answer failed", "exception": problem})
        return 0

    cdef int end_badly(self, DelayedProduce answer, bint is_over) except -1:
        try:
            self.refuse(answer, is_over)
        except Exception as problem:
            self.loop.call_exception_handler({"message": "an answer failed", "exception": problem})
        return 0
