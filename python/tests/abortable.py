"""Groups as torch's are, for Devices: Gloo's, and one whose operations end as NCCL's do, when all ranks have begun them or
when it is aborted."""

import threading

import torch
import torch.distributed as dist


def gloo(store, rank, size, timeout):
    return dist.ProcessGroupGloo(store, rank, size, timeout)


class Group:
    """Reduces by the store."""

    def __init__(self, store, rank, size, timeout):
        self._store, self._rank, self._size = dist.PrefixStore("group", store), rank, size  # which is C++'s, as NCCL's
        self._lock, self._pending, self._over, self._ops = threading.Lock(), set(), False, 0
        self._store.set(f"there/{rank}", "")
        self._store.wait([f"there/{r}" for r in range(size)])

    def allreduce(self, tensors, opts):
        future = torch.futures.Future()
        with self._lock:
            if self._over:
                raise RuntimeError("the group is aborted")
            self._pending.add(future)
            self._ops += 1
            op = self._ops
        self._store.set(f"{op}/{self._rank}", tensors[0].numpy().tobytes().hex())
        threading.Thread(target=self._reduce, args=(op, tensors, future), daemon=True).start()
        return _Work(future)

    def _part(self, op, rank, like):
        return torch.frombuffer(bytearray.fromhex(self._store.get(f"{op}/{rank}").decode()), dtype=like.dtype).view(like.shape)

    def _reduce(self, op, tensors, future):
        t = tensors[0]
        try:
            parts = [self._part(op, r, t) for r in range(self._size)]
        except RuntimeError:  # aborted, as the store is closed then
            return
        with self._lock:
            if future not in self._pending:
                return
            self._pending.discard(future)
            t.copy_(sum(parts[1:], parts[0]))
        future.set_result(tensors)

    def abort(self):
        with self._lock:
            self._over, pending, self._pending = True, self._pending, set()
        for future in pending:
            future.set_exception(RuntimeError("aborted"))


class _Work:
    def __init__(self, future):
        self._future = future

    def get_future(self):
        return self._future
