"""What a profiler of torch sees of operations: "skerry:all_reduce", with shapes, from start to end on whichever thread."""

import contextlib

import torch

from skerry import _ops

_on = torch._C._autograd._profiler_enabled

_NAMES = {
    _ops.ALL_REDUCE: "all_reduce", _ops.REDUCE: "reduce", _ops.BROADCAST: "broadcast", _ops.ALL_GATHER: "all_gather",
    _ops.GATHER: "gather", _ops.SCATTER: "scatter", _ops.REDUCE_SCATTER: "reduce_scatter", _ops.ALL_TO_ALL: "all_to_all",
    _ops.BARRIER: "barrier", _ops.SEND: "send", _ops.RECV: "recv",
}


def begin(kind, tensors, name=""):
    """Begins an event, if a profiler is on in this thread; else None."""
    if not _on():
        return None
    return torch.autograd._record_function_with_args_enter("skerry:" + (name or _NAMES[kind]), *tensors)


class Event:
    """An event that ends with a future, in the thread that tells it: the profiler takes it as asynchronous then."""

    def __init__(self, begun, future):
        self._ended = torch.ops.profiler._call_end_callbacks_on_jit_fut._RecordFunction(begun, future)

    def wait(self):
        with contextlib.suppress(Exception):  # it is the operation's
            self._ended.wait()
