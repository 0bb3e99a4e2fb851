"""The handles that verbs return."""

import collections
import contextlib
import threading
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.futures

from skerry import _lib, _profile


def microseconds(t):
    """None for no limit; a timedelta of 0 is torch's word for that too."""
    if t is None:
        return None
    us = int((t if isinstance(t, timedelta) else timedelta(seconds=t)).total_seconds() * 1e6)
    return us if us > 0 else None


class Work(dist._Work):
    """An operation under way. It keeps its tensors until it is done, whoever drops it."""

    def __init__(self, group, keep, result):
        super().__init__()
        self._group, self._handle, self._keep, self._out = group, None, keep, result
        self._lock = threading.RLock()  # a signal's handler may look at the work that it interrupts
        self._error, self._done, self._source, self._future, self._event = None, False, -1, None, None
        group._started(self)

    def _run(self, start, op):
        """Starts the operation. The group has this work, and with it the tensors, before the library has them: an
        exception of a signal's handler may come out of start, and the operation goes on."""
        self._handle = start(self._group._handle, op)
        if self._handle == 0:
            self._done, self._keep = True, None
            self._group._ended(self)
        return self

    def _seen(self, begun):
        """Lets a profiler's event end with the operation, in a thread of the futures."""
        with self._lock:
            self._resolving, self._future = threading.RLock(), torch.futures.Future()
        self._event = _profile.Event(begun, self._future)
        self._group._futures.put(self)
        return self

    def _settle(self):
        """Takes what the library says of an operation that is done."""
        with self._lock:
            if self._done:  # another thread was quicker
                return
            error, source = _lib.error(self._handle), _lib.source(self._handle)
            if self._done:  # a signal's handler was; what was asked is of no handle
                return
            self._error, self._source, self._done, self._keep = self._taken(error), source, True, None
        _lib.close(self._handle)
        self._group._ended(self)

    def _taken(self, error):
        """What the operation ended with is told as; it is asked once."""
        return error

    def wait(self, timeout=timedelta(0)) -> bool:
        """Blocks until the operation is done, and raises why it failed. When the timeout is over first
        the group is aborted: the tensors would be in use for ever otherwise."""
        self._end(timeout)
        if self._event is not None:
            self._event.wait()
        if self._future is not None:
            self._resolve()  # as Gloo's: who has waited finds the future done, and its callbacks
        if self._error is not None:
            raise self._error
        return True

    def _end(self, timeout=timedelta(0)):
        if not self._done:
            if _lib.wait(self._handle, microseconds(timeout)) == _lib.PENDING:
                self._group.abort(f"timed out: an operation took longer than {timeout}")
                _lib.wait(self._handle)
            self._settle()

    def is_completed(self) -> bool:
        """Whether the operation is done. Then its tensors are let go; its error stays, for who waits."""
        if not self._done and self._handle is not None and _lib.wait(self._handle, 0) != _lib.PENDING:
            self._settle()
        return self._done

    def done_within(self, microseconds):
        """Waits so long at most for the operation to be done, and says whether it is."""
        if not self._done:
            _lib.wait(self._handle, microseconds)
        return self.is_completed()

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self):
        return self._error

    def source_rank(self) -> int:
        return self._source

    _source_rank = source_rank

    def result(self):
        return self._out

    def synchronize(self):
        self.wait()

    def get_future(self) -> torch.futures.Future:
        with self._lock:
            if self._future is not None:
                return self._future
            self._resolving, self._future = threading.RLock(), torch.futures.Future()
        if self._done:
            self._resolve()
        else:
            self._group._futures.put(self)
        return self._future

    def _resolve(self):
        with self._resolving:
            if self._future.done():
                return
            if self._error is None:
                self._future.set_result(self._out)
            else:
                self._future.set_exception(self._error)


class Futures:
    """Threads that wait for the operations whose futures are wanted. One takes them in their order. Another takes
    its place while it tells of one, for callbacks may wait for futures, too; and where one takes long, as a
    receive does that nobody has sent for: it holds up no others."""

    def __init__(self):
        self._works, self._lock = collections.deque(), threading.Condition()
        self._threads, self._idle, self._calls = [], 0, 0
        self._taken, self._stopped = False, False  # whether a thread is on its way to the next, or waits for it

    def put(self, work):
        with self._lock:
            self._works.append(work)
            self._call()

    def stop(self):
        """Ends the threads. All operations are done."""
        with self._lock:
            self._stopped = True
            self._lock.notify_all()
            threads, self._threads = self._threads, []
        for t in threads:
            if t is not threading.current_thread():
                t.join()
        self._stopped = False

    def _call(self):
        """Calls a thread to the next operation, unless one is there. The caller holds the lock."""
        if self._taken or not self._works:
            return
        if self._idle > self._calls:
            self._taken, self._calls = True, self._calls + 1
            self._lock.notify()
            return
        thread = threading.Thread(target=self._run, name="skerry-futures", daemon=True)
        try:
            self._taken = True
            thread.start()
        except BaseException:
            self._taken = thread.is_alive()
            raise
        finally:
            if thread.is_alive():
                self._threads.append(thread)

    def _run(self):
        called = True
        while called:
            with self._lock:
                work = self._works.popleft()
            done = work.done_within(_SOON)
            with self._lock:
                self._taken = False
                self._call()
            if not done:
                with contextlib.suppress(Exception):  # it is in the work
                    work._end()
            work._resolve()
            with self._lock:
                self._idle += 1
                self._lock.wait_for(lambda: self._calls or self._stopped)
                self._idle -= 1
                if called := self._calls > 0:
                    self._calls -= 1


_SOON = 20_000  # microseconds
