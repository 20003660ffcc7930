"""Request and reply over queues: `Caller` and `Responder` for threads, `AsyncCaller` and `AsyncResponder` for asyncio.

A request is a message of a queue that workers share.  It says where its answer goes: a partition of a topic of replies,
which the caller reads from the moment it began.  Nothing of a caller is left when it ends."""

from tidelog.rpc.blocking import Caller, Responder
from tidelog.rpc.caller import AsyncCaller
from tidelog.rpc.envelope import CallFailed
from tidelog.rpc.responder import AsyncResponder

__all__ = ["AsyncCaller", "AsyncResponder", "CallFailed", "Caller", "Responder"]
