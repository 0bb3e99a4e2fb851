"""Tensors on devices: a process group of torch's beside the Manager's own, made anew for each quorum.

What is decided, and who is dead, the Manager knows by its own group, on the host. That of torch reduces what
is on devices, and ends as soon as the Manager's does: NCCL itself would wait for a dead rank for minutes.
"""

import contextlib
import os
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from skerry import _errors, _lib, _ops
from skerry._store import Store

_LONG = 1_000_000  # microseconds; how long a thread waits at a time for a wish
_SLICE = 0.05  # seconds; how long the trainer's thread waits at a time: then signals are looked at


class Devices:
    """Which group of torch reduces tensors that are not on the host.

    backend: "nccl", or another's name, which make(store, rank, size, timeout) makes: it has allreduce, and an abort that
    ends what is pending. types: of the devices whose tensors it takes.
    """

    def __init__(self, backend="nccl", types=("cuda",), make=None):
        if make is None and backend != "nccl":
            raise ValueError(f"skerry: devices {backend!r}, want \"nccl\", or a make")
        self.backend, self.types = backend, frozenset(types)
        self._make = make or _nccl
        self._lock, self._threads = threading.Lock(), []
        self._manager, self._timeout = None, None
        self._epoch, self._over = None, set()  # those that were over before they were made
        self._step = None

    # What the Manager's own side wants.

    def open(self, manager, handle, timeout):
        """Listens to what a manager wishes, until it is closed."""
        if self._manager is not None:
            raise ValueError("skerry: these devices are another Manager's")
        self._manager, self._timeout = manager, timeout
        for kind, grant in ((_lib.WISH_GROUP, self._group), (_lib.WISH_END, self._end)):
            listen(handle, kind, grant, self._threads)

    def close(self):
        """Ends the group. The manager is closed."""
        for t in self._threads:
            if t is not threading.current_thread():
                t.join()
        if self._epoch is not None:
            self._epoch.end("the manager is closed")

    def _group(self, wish):
        """Makes the group of an epoch. That of the one before is over."""
        g = wish["group"]
        key = g["cluster"], g["quorum_id"]
        if (old := self._epoch) is not None:
            old.end("another quorum")
        self._epoch = None
        store = Store(g["store"], self._timeout)
        made = _Epoch(key, self._make(store, g["rank"], g["size"], self._timeout), store)
        with self._lock:
            late = key in self._over
            self._over.clear()
            if not late:
                self._epoch = made
        if late:
            made.end("the quorum has fallen")
            raise RuntimeError("the quorum has fallen")

    def _end(self, wish):
        g = wish["group"]
        key = g["cluster"], g["quorum_id"]
        with self._lock:
            epoch = self._epoch
            if epoch is None or epoch.key != key:
                self._over.add(key)
                return
        epoch.end("the quorum has fallen")

    # What a training loop calls.

    def begin(self):
        """Begins a step, or ends it: what it reduces goes to the group of one quorum."""
        self._step = None

    def allreduce(self, tensor, op):
        average = op == dist.ReduceOp.AVG
        if not average and op != dist.ReduceOp.SUM:
            raise NotImplementedError(f"skerry: reduce operation {op} of a tensor on {tensor.device}, want SUM or AVG")
        if self._manager is None or not self._manager._in_step:
            raise RuntimeError(f"skerry: an all-reduce of a tensor on {tensor.device} outside of a step, want one from start_quorum to should_commit")
        if self._step is None:
            self._step = self._join()
        step = self._step
        if step.epoch is None:
            return _Reduced(tensor, None)
        if step.epoch.over:  # what is on the host may be in the next quorum by now: the others there would wait for this one
            self._end_quorum(f"no group of {self.backend} in this step: its quorum has fallen")
            return _Reduced(tensor, None)
        if step.rank < 0:
            tensor.zero_()
        opts = dist.AllreduceOptions()
        opts.reduceOp, opts.timeout = dist.ReduceOp.SUM if average else op, self._timeout
        try:
            future = step.epoch.group.allreduce([tensor], opts).get_future()
        except Exception as e:
            self._failed(step.epoch, e)
            return _Reduced(tensor, None)
        work = _Reduced(tensor, future.then(lambda f: self._reduced(step, f, tensor, average)))
        step.works.append(work)
        return work

    def _join(self):
        """Waits for the step's quorum, and ties the step to it: what is on the host goes with it. What the loop was told
        of an earlier one counts no more."""
        step, epoch, said = _Step(), None, None
        while epoch is None or epoch.over or epoch.key[1] != said["quorum_id"]:
            if said is not None:
                time.sleep(1e-3)  # the Manager is about to know that it has fallen
            if (said := self._manager._shares(anew=True)) is None:
                return step  # it is lost, and this replica does not speak of it either
            epoch = self._epoch
        step.rank, step.count = said["rank"], said["count"]
        word = torch.zeros(1, dtype=torch.uint8)
        self._manager.group._do(_ops.ALL_REDUCE, [word], [word], None)
        step.epoch = epoch
        return step

    def _reduced(self, step, future, tensor, average):
        try:
            future.value()
            if average and step.count > 1:
                tensor.div_(step.count)
        except Exception as e:
            self._failed(step.epoch, e)
        return tensor

    def _failed(self, epoch, error):
        """Discards the step, and ends the epoch: a group of torch's that has failed is of no more use."""
        why = f"{self.backend}: {type(error).__name__}: {error}"
        if epoch.over or self._epoch is not epoch:
            self._manager.report_error(why)
        else:
            self._end_quorum(why)

    def _end_quorum(self, why):
        self._manager.report_error(why)
        _lib.abort(self._manager.group._handle, why)

    def settle(self, timeout):
        """Waits until the step's operations have ended, on the devices too; whether they did well is reported. An
        exception of a signal's handler ends the wait alone."""
        step = self._step
        if step is None:
            return
        deadline = time.monotonic() + timeout
        for work in step.works:
            if work.ended(deadline):
                continue
            self._failed(step.epoch, TimeoutError(f"an all-reduce of {tuple(work.tensor.shape)} on {work.tensor.device} has not ended within {timeout} s"))
            step.epoch.wait()
            if not work.ended(time.monotonic() + timeout):
                raise RuntimeError(f"skerry: {self.backend} goes on with a tensor whose operation was aborted: end this process")
        step.works.clear()
        if step.epoch is not None and step.epoch.over:  # of an aborted kernel NCCL says that it has ended, and no more
            self._manager.report_error(f"the group of {self.backend} was aborted in this step")


class _Step:
    """What a step reduces, and in which epoch."""

    def __init__(self):
        self.epoch, self.rank, self.count, self.works = None, -1, 0, []


class _Epoch:
    """A group of torch's, until its quorum falls."""

    def __init__(self, key, group, store):
        self.key, self.group, self.over = key, group, False
        self._store = store  # NCCL asks it with the first operation, and keeps none of it that is Python's
        self._lock, self._ended = threading.Lock(), threading.Event()

    def end(self, why):
        with self._lock:
            first, self.over = not self.over, True
        if first:
            with contextlib.suppress(Exception):  # one that has failed already may say so
                self.group.abort()
            self._ended.set()

    def wait(self):
        """Until the group is aborted, or nobody does that."""
        self._ended.wait(5)


class _Reduced(dist._Work):
    """An all-reduce on a device. Its errors discard the step, and are not raised."""

    def __init__(self, tensor, future):
        super().__init__()
        if future is None:  # it was not begun
            future = torch.futures.Future(devices=[tensor.device] if tensor.device.type != "cpu" else None)
            future.set_result(tensor)
        self.tensor, self._future, self._done, self._event = tensor, future, threading.Event(), None
        future.add_done_callback(lambda _: self._done.set())

    def wait(self, timeout=timedelta(0)) -> bool:
        """As NCCL's: what is behind it on the current stream waits. On the host it blocks."""
        while not self._done.wait(_SLICE):
            pass
        self._future.wait()
        return True

    def ended(self, deadline):
        """Whether nothing is left of it on the device, at a deadline at last."""
        while not self._done.wait(_SLICE):
            if time.monotonic() > deadline:
                return False
        if self.tensor.device.type == "cpu":
            return True
        if self._event is None:
            self._future.wait()
            self._event = torch.get_device_module(self.tensor.device).current_stream(self.tensor.device).record_event()
        pause = 2e-5
        while not self._event.query():
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 1e-3)
        return True

    def is_completed(self) -> bool:
        return self._done.is_set()

    def result(self):
        return self.tensor

    def synchronize(self):
        self.wait()

    def get_future(self):
        return self._future


def listen(manager, kind, grant, threads):
    """Starts a thread that grants a manager's wishes of a kind, until it is closed."""

    def run():
        while True:
            try:
                wish = _lib.manager_wish(manager, kind, _LONG)
            except (_errors.Closed, _errors.Forked):
                return
            except Exception:  # as memory that ran out: the next wish is to be heard
                time.sleep(_SLICE)
                continue
            if wish is None:
                continue
            why = ""
            try:
                grant(wish)
            except Exception as e:
                why = f"{type(e).__name__}: {e}"
            with contextlib.suppress(Exception):  # it is closed
                _lib.manager_grant(manager, wish["id"], why)

    threads.append(thread := threading.Thread(target=run, name="skerry-wishes", daemon=True))
    thread.start()


def _nccl(store, rank, size, timeout):
    opts = dist.ProcessGroupNCCL.Options()
    opts._timeout = timeout
    opts.config.blocking = False  # else an abort waits for a communicator that is under way
    handling, before = "TORCH_NCCL_ASYNC_ERROR_HANDLING", os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING")
    os.environ[handling] = "0"  # else its watchdog ends the process, where a peer is dead; other groups keep theirs
    try:
        group = dist.ProcessGroupNCCL(store, rank, size, opts)
    finally:
        if before is None:
            del os.environ[handling]
        else:
            os.environ[handling] = before
    group._set_sequence_number_for_group()
    return group

