"""For jobs of torchft: its Manager over Skerry's process group, and with Skerry's manager.

    import skerry.torchft
    from torchft import Manager

    skerry.torchft.use_manager()                       # only if `skerry torchft-manager` is wanted
    manager = Manager(pg=skerry.torchft.ProcessGroup(timeout=timedelta(seconds=30)), ...)

Everything else stays as it is with ProcessGroupGloo. Either line works without the other, and the
lighthouse may be torchft's or Skerry's.
"""

import hashlib
import json
import os
import time
import uuid
from datetime import timedelta

try:
    from torchft import process_group
except ModuleNotFoundError as e:
    if e.name != "torchft":
        raise
    raise ImportError("skerry.torchft wants torchft, which is not here: pip install torchft-nightly") from e

from torchft.work import _DummyWork

from skerry import _lib, _torchft_manager
from skerry._errors import Aborted
from skerry._group import Group

_MINUTE = timedelta(seconds=60)
_LINGER = 0.5  # seconds from the last operation to a departure


class ProcessGroup(Group, process_group.ProcessGroup):
    """A reconfigurable process group of torchft, of tensors on the CPU.

    The members meet in the TCPStore that torchft names. As with Gloo, what reaches the group's
    sockets is taken for a member: use it on a network of your own, or with listen="127.0.0.1".
    timeout: of each operation, and of a reconfiguration that names none. params, listen: as Group has them.
    """

    def __init__(self, timeout: timedelta = _MINUTE, *, backend="tcp", params=None, listen=""):
        super().__init__(0, 1, backend=backend, params=params, listen=listen, open=True, timeout=timeout)
        self._name, self._configured, self._moved = uuid.uuid4().hex[:12], False, 0.0

    # What torchft's newer Manager calls.

    supports_reconfigure = getattr(process_group.ProcessGroup, "supports_reconfigure", True)  # not Group's

    def _handle_id(self):
        """This member's name in handles, and in errors of the others."""
        return f"{self._replica_id or ''}/{self._group_rank or 0}:{self._name}"

    def reconfigure(self, opts):
        """Starts an epoch of the members that opts.handles name, in the order of ranks."""
        if not isinstance(opts.handles, list):
            raise ValueError("skerry: handles in no order, want a list of them")
        members = [json.loads(handle) for handle in opts.handles]
        ids = [m["id"] for m in members]
        # A lighthouse that has lost its state gives the numbers of epochs again, but to others.
        who = hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]
        store = f"{members[0]['store']}/skerry/{opts.uuid}/{who}"
        self._meet(store, ids, ids.index(self._handle_id()), opts.timeout)
        return _DummyWork(None)

    # What the Manager of torchft 0.2 and before calls.

    def configure(
        self, store_addr, replica_id, rank, world_size, quorum_id=None, group_rank=None, group_world_size=None, global_ranks=None
    ):
        """Starts an epoch of world_size members, which meet at store_addr, host:port/prefix, used once."""
        self.abort("a reconfiguration begins")
        store = process_group.create_store_client(store_addr, self._timeout)
        store.set(f"skerry/{rank}", f"{replica_id}/{group_rank or 0}:{self._name}")
        ids = [store.get(f"skerry/{r}").decode() for r in range(world_size)]
        self._meet(store_addr, ids, rank, None)

    def _meet(self, store, ids, rank, timeout):
        if not self._handle:
            self._handle = _lib.open_group(*self._kind)
        super().configure(store, ids, rank, cluster=store, timeout=timeout or self._timeout)
        self._configured, self._moved = True, time.monotonic()

    def _do(self, *args, **fields):
        work = super()._do(*args, **fields)
        self._moved = time.monotonic()
        return work

    def _ended(self, work):
        super()._ended(work)
        self._moved = time.monotonic()

    # The rest of torchft's interface.

    def errored(self):
        """Why the group wants a reconfiguration, as an exception; None: it does not."""
        e = super().errored() if self._configured else None
        return e and Aborted(f"the process group is aborted: {e}", e.code, e.rank, e.culprit)

    def shutdown(self, together=None):
        """Leaves the group; it can be configured again. Who leaves breaks the group of those who are not done with
        the last operation, as Gloo does not: so they get half a second for it."""
        if self._configured and self._size > 1 and self.errored() is None:
            time.sleep(max(0.0, self._moved + _LINGER - time.monotonic()))
        self._configured = False
        super().shutdown(together)

    def set_timeout(self, timeout):
        self._timeout = timeout

    def getBackendName(self):
        return "torchft-skerry"


def use_manager(program=None):
    """Has every Manager of torchft that is made from now on start `skerry torchft-manager` in the place of
    torchft's own, as docs/OPERATIONS.md describes it. program: the path of skerry; None: SKERRY's, or
    the one in PATH or beside the interpreter. SKERRY_LIGHTHOUSE may name several servers."""
    if program:
        os.environ["SKERRY"] = program
    _torchft_manager.install()
