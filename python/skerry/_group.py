"""The process group."""

import atexit
import itertools
import json
import threading
import time
import weakref
from datetime import timedelta

import torch
import torch.distributed as dist

from skerry import _lib, _ops, _profile, _sparse
from skerry._work import Futures, Work, microseconds

MINUTE = timedelta(seconds=60)
TOGETHER = timedelta(seconds=5)  # how long who leaves waits for the others


_groups = weakref.WeakSet()
_late = False  # the others did not come when a group of this process waited for them to leave


@atexit.register
def _close_all():
    """Ends operations that are under way when the interpreter ends: their memory goes then."""
    for group in list(_groups):
        group.shutdown(together=None)


def barrier(handle, timeout):
    """Waits for all ranks of a group of the library; returns why they did not come, or None."""
    work = _lib.submit(handle, _ops.encode(_ops.BARRIER, timeout_us=microseconds(timeout)))
    _lib.wait(work)
    error = _lib.error(work)
    _lib.close(work)
    return error


class Group(dist.ProcessGroup):
    """A process group of torch.distributed over Skerry.

    backend: "tcp". params: its own settings, such as {"transport": "tcp", "streams": "4"}. open: other hosts
    reach the group although it has no token.
    """

    def __init__(self, rank: int, size: int, *, backend="tcp", params=None, listen="", open=False, timeout=None):
        self._kind = backend, json.dumps({"params": params or {}, "listen": listen, "open": open})
        self._begin(rank, size, _lib.open_group(*self._kind), timeout)

    def _begin(self, rank, size, handle, timeout=None):
        super().__init__(rank, size)
        self._handle = handle
        self._rank, self._size, self._timeout, self._store = rank, size, timeout, 0
        self._works, self._lock, self._futures = {}, threading.RLock(), Futures()
        self._group_name = self._group_desc = ""
        _groups.add(self)

    # What it is.

    def configure(self, store: str, ids, rank: int, *, cluster="", quorum=1, token="", timeout=MINUTE):
        """Starts an epoch: the members are ids, in the order of ranks, and meet in a Skerry store at
        "host:port/prefix", which is used once. Blocks until all are there; pending operations fail first.
        A group that is broken is whole again then."""
        _lib.configure(self._handle, json.dumps({
            "store": store, "ids": list(ids), "rank": rank, "cluster": cluster, "quorum": quorum, "token": token,
            "timeout_us": microseconds(self._timeout) or 0,
        }), microseconds(timeout) or 0)
        self._rank, self._size = rank, len(ids)

    def errored(self):
        """Why the group is broken, as an exception; None: it is not."""
        return _lib.group_error(self._handle)

    def abort(self, why="aborted by the program"):
        """Makes all pending operations fail now, on all ranks."""
        _lib.abort(self._handle, why)

    def shutdown(self, together=TOGETHER):
        """Closes the group; blocks until nothing touches any tensor. Before, it waits for the others to
        come here too, for together at most: who leaves breaks the group of those who have yet to
        receive what was sent. It does not wait where the group is broken, or operations are under way."""
        global _late
        handle, self._handle = self._handle, 0
        store, self._store = self._store, 0
        try:
            if handle and together and not _late and self._size > 1 and not self._busy() and _lib.group_error(handle) is None:
                _late = barrier(handle, together) is not None  # the next groups of this process do not wait once more
        finally:
            if handle:
                _lib.close(handle)
            self._futures.stop()
            if store:
                _lib.close(store)

    supports_reconfigure = False  # torch >= 2.14; of which skerry._reconfigure

    def getBackendName(self):
        return "skerry"

    def name(self):
        return "skerry"

    # C++'s own ask the backend of a device, which a group that is one itself has not.

    @property
    def group_name(self):
        return self._group_name

    def _set_group_name(self, name):
        self._group_name = name

    def _get_backend(self, device):
        if torch.device(device).type != "cpu":
            raise RuntimeError(f"skerry: no backend for {device}, only for cpu")
        return self

    @property
    def group_desc(self):
        return self._group_desc

    def _set_group_desc(self, desc):
        self._group_desc = desc

    def rank(self):
        return self._rank

    def size(self):
        return self._size

    def getRank(self):  # what torch's C++ asks, as DDP does for what it divides by; its own stay as they were at first
        return self.rank()

    def getSize(self):
        return self.size()

    def _set_sequence_number_for_group(self):
        pass

    def _get_sequence_number_for_group(self):
        return 0

    # How operations run.

    def _started(self, work):
        with self._lock:
            oldest = list(itertools.islice(self._works.values(), 64))
            self._works[id(work)] = work
        for w in oldest:  # those that were dropped without a wait would stay, and their tensors
            if not w.is_completed() and w._handle is not None:  # None: a signal's handler broke its start off
                break

    def _busy(self):
        """Whether operations are under way."""
        return not all([w.is_completed() for w in list(self._works.values())])

    def _ended(self, work):
        with self._lock:
            self._works.pop(id(work), None)

    def _do(self, kind, ins, outs, result, opts=None, seen=(), name="", **fields):
        """Starts an operation. seen and name: what a profiler is told of it, if that is not what goes in, and the
        name of its kind; seen is None: nothing."""
        timeout = microseconds(getattr(opts, "timeout", None)) or microseconds(self._timeout) or 0
        ins, outs = tuple(ins), tuple(outs)
        op = _ops.encode(kind, ins, outs, timeout_us=timeout, **fields)
        blocking = opts is not None and not getattr(opts, "asyncOp", True)
        if seen is not None and (begun := _profile.begin(kind, seen or ins or outs, name)) is not None:
            return Work(self, (ins, outs), result)._run(_lib.submit, op)._seen(begun)
        return Work(self, (ins, outs), result)._run(_lib.run if blocking else _lib.submit, op)

    def _all(self, works, result):
        return _Several(self, works, result)

    _sums_sparse = True  # by several operations

    def _known_size(self):
        """How many ranks there are; None: nobody knows yet."""
        return self.size()

    def _root(self, opts, root):
        """The rank that options or a caller name; 0 if neither does."""
        if root is None:
            root = opts if isinstance(opts, int) else getattr(opts, "rootRank", 0)
        size = self._known_size()
        if root < 0 or size is not None and root >= size:
            raise ValueError(f"skerry: invalid root rank {root} of {size}")
        return root

    # The verbs, as torch.distributed calls them; who calls them by hand may name a tensor, and the root or the operation
    # in the place of options.

    def allreduce(self, tensors, opts=None, *, op=None):
        tensors, opts = _list(tensors), opts or op
        if self._sums_sparse and tensors[0].layout is torch.sparse_coo and len(tensors) == 1 and _reduce(opts) == _ops.reduce_code(dist.ReduceOp.SUM):
            return _sparse.all_reduce(self, tensors[0], opts, _Several)
        return self._do(_ops.ALL_REDUCE, tensors, tensors, tensors, opts, reduce=_reduce(opts))

    def allreduce_coalesced(self, tensors, opts=None):
        once = list({(t.data_ptr(), t.numel()): t for t in tensors}.values())  # a tensor may be in it twice
        return self._do(_ops.ALL_REDUCE, once, once, tensors, opts, reduce=_reduce(opts))

    def broadcast(self, tensors, opts=None, *, root=None):
        tensors = _list(tensors)
        return self._do(_ops.BROADCAST, tensors, tensors, tensors, opts, root=self._root(opts, root))

    def reduce(self, tensors, opts=None, *, root=None, op=None):
        tensors, root, opts = _list(tensors), self._root(opts, root), op or (None if isinstance(opts, int) else opts)
        outs = tensors if root == self.rank() else ()
        return self._do(_ops.REDUCE, tensors, outs, tensors, opts, reduce=_reduce(opts), root=root)

    def allgather(self, outputs, inputs, opts=None):
        return self._gathered(_ops.ALL_GATHER, _list(inputs), _rows(_list(outputs))[0], opts)

    def _allgather_base(self, output, input, opts=None):
        return self._do(_ops.ALL_GATHER, [input], [output], output, opts, flat=True)

    def allgather_coalesced(self, outputs, inputs, opts=None):
        seen = [None] * (len(inputs) - 1) + [inputs]  # the last is all to a profiler
        works = [
            self._do(_ops.ALL_GATHER, [i], [row[at] for row in outputs], outputs, seen=seen[at]) for at, i in enumerate(inputs)
        ]
        return self._all(works, outputs)

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        return self._all([self._allgather_base(o, i) for o, i in zip(outputs, inputs)], outputs)

    def gather(self, outputs, inputs, opts=None, *, root=None):
        return self._gathered(_ops.GATHER, _list(inputs), (_rows(outputs) or [[]])[0], opts, root=self._root(opts, root))

    def _gathered(self, kind, ins, outs, opts, **fields):
        """Gathers, by way of copies of those tensors that the library cannot take as they are."""
        ways = _dense(outs)
        work = self._do(kind, _dense(ins), ways, outs, opts, **fields)
        if all(w is o for w, o in zip(ways, outs)):
            return work
        return _Several(self, [work], outs, lambda: [o.copy_(w) for w, o in zip(ways, outs) if w is not o])

    def scatter(self, outputs, inputs, opts=None, *, root=None):
        outputs, inputs = _list(outputs), (_rows(inputs) or [[]])[0]
        return self._do(_ops.SCATTER, inputs, outputs, outputs, opts, root=self._root(opts, root))

    def reduce_scatter(self, outputs, inputs, opts=None, *, op=None):
        outputs, inputs, opts = _list(outputs), _rows(_list(inputs)), opts or op
        return self._do(_ops.REDUCE_SCATTER, inputs[0], outputs, outputs, opts, reduce=_reduce(opts))

    def _reduce_scatter_base(self, output, input, opts=None):
        return self._do(_ops.REDUCE_SCATTER, [input], [output], output, opts, reduce=_reduce(opts), flat=True)

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        works = [
            self._do(_ops.REDUCE_SCATTER, [i], [o], o, None, reduce=_reduce(opts), flat=True) for o, i in zip(outputs, inputs)
        ]
        return self._all(works, outputs)

    def alltoall_base(self, output, input, output_splits, input_splits, opts=None):
        return self._do(
            _ops.ALL_TO_ALL, [input], [output], output, opts, flat=True,
            in_splits=_elements(input, input_splits, self.size()), out_splits=_elements(output, output_splits, self.size()),
        )

    def alltoall(self, outputs, inputs, opts=None):
        if {t.data_ptr() for t in inputs} & {t.data_ptr() for t in outputs}:
            inputs = [t.clone() for t in inputs]
        return self._do(_ops.ALL_TO_ALL, inputs, outputs, outputs, opts)

    def barrier(self, opts=None):
        return self._do(_ops.BARRIER, (), (), None, opts)

    def send(self, tensors, dst, tag=0):
        return self._do(_ops.SEND, tensors, (), tensors, peer=dst, tag=tag)

    def recv(self, tensors, src, tag=0):
        return self._do(_ops.RECV, (), tensors, tensors, peer=src, tag=tag)

    def recv_anysource(self, tensors, tag=0):
        return self._do(_ops.RECV, (), tensors, tensors, name="recvAnySource", peer=-1, tag=tag)


    # torch 2.14's names of some of them.

    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base

    def gather_single(self, output, input, opts=None):
        root = getattr(opts, "rootRank", 0)
        outs = [output] if root == self.rank() else ()
        return self._do(_ops.GATHER, [input], outs, output, opts, root=root, flat=bool(outs))


class _Several(dist._Work):
    """Operations that are one to the caller. last: what is still to be done with what they brought."""

    def __init__(self, group, works, result, last=None):
        super().__init__()
        self._group, self._works, self._out, self._last, self._lock = group, works, result, last, threading.Lock()

    def _finish(self):
        with self._lock:
            last, self._last = self._last, None
            if last is not None:
                last()

    def wait(self, timeout=timedelta(0)) -> bool:
        for w in self._works:
            w.wait(timeout)
        self._finish()
        return True

    def is_completed(self) -> bool:
        if not all([w.is_completed() for w in self._works]):
            return False
        if all(w.is_success() for w in self._works):
            self._finish()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and all(w.is_success() for w in self._works)

    def result(self):
        return self._out

    def get_future(self):
        def told(all):
            for future in all.value():
                future.value()
            self._finish()
            return self._out

        return torch.futures.collect_all([w.get_future() for w in self._works]).then(told)


def _list(tensors):
    if isinstance(tensors, torch.Tensor):
        return [tensors]
    if not tensors:
        raise ValueError("skerry: an operation requires non-empty tensor list")
    return tensors


def _rows(tensors):
    """One list of tensors for each of this rank's, of which there is one."""
    return [tensors] if tensors and isinstance(tensors[0], torch.Tensor) else tensors


def _dense(tensors):
    """Copies of those that the library could not read as they are."""
    return [t if t.is_contiguous() else t.contiguous() for t in tensors]


def _reduce(opts):
    if opts is None:
        return _ops.reduce_code(dist.ReduceOp.SUM)
    return _ops.reduce_code(getattr(opts, "reduceOp", opts))  # torch takes the operation itself, too


def _elements(t, splits, size):
    """Splits are rows of the first dimension for torch, and elements for the library."""
    if not splits:
        return ()
    if len(splits) != size or sum(splits) != t.shape[0]:
        raise ValueError(f"skerry: splits {list(splits)} of {t.shape[0]} rows, want {size} that add up to them")
    row = t.numel() // t.shape[0] if t.shape[0] else 0
    return [s * row for s in splits]


def monitored_barrier(group=None, timeout=MINUTE):
    """A barrier that names the ranks that did not come: torch's own takes no group but Gloo's."""
    group = group or dist.group.WORLD
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        return  # not a member
    word = torch.zeros(1, dtype=torch.uint8)
    ranks = [dist.get_global_rank(group, r) for r in range(size)]
    if rank != 0:
        dist.send(word, ranks[0], group=group, tag=_MONITOR)
        dist.recv(word, ranks[0], group=group, tag=_MONITOR)
        return
    waits = {r: dist.irecv(torch.zeros(1, dtype=torch.uint8), ranks[r], group=group, tag=_MONITOR) for r in range(1, size)}
    deadline = time.monotonic() + timeout.total_seconds()
    missing = [r for r, w in waits.items() if not _came(w, deadline)]
    if missing:
        why = f"monitored barrier: ranks {missing} did not come within {timeout}"
        group.abort(why)
        raise RuntimeError(why)
    for r in range(1, size):
        dist.send(word, ranks[r], group=group, tag=_MONITOR)


_MONITOR = 0x5EB


def _came(work, deadline):
    if not work.is_completed():
        _lib.wait(work._handle, max(0, int((deadline - time.monotonic()) * 1e6)))
    return work.is_completed() and work.wait()
