"""Groups whose members change while their processes go on."""

import os
import signal
import socket
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from skerry import Aborted
from skerry._reconfigure import Reconfigurable, own_address

SOON = timedelta(seconds=20)


class Member:
    """One rank of a world that tells its handles by the world's store."""

    def __init__(self, rank, size):
        self.me, self.size, self.store = rank, size, dist.distributed_c10d._get_default_store()
        self.group = Reconfigurable(rank, size, timeout=SOON)

    def handles(self):
        self.store.set(f"handle/{self.me}", self.group.get_reconfigure_handle())
        return [self.store.get(f"handle/{r}").decode() for r in range(self.size)]

    def reconfigure(self, uuid, handles, timeout=SOON):
        return self.group.reconfigure(SimpleNamespace(uuid=uuid, handles=handles, timeout=timeout, hints={}))

    def sum(self):
        x = torch.full((1000,), self.group.rank() + 1.0)
        self.group.allreduce([x]).wait()
        return x[7].item()

    def meet(self, name):
        """All of the world are here."""
        self.store.set(f"{name}/{self.me}", "")
        for r in range(self.size):
            self.store.get(f"{name}/{r}")


def changes(rank, size):
    m = Member(rank, size)
    handles = m.handles()
    m.reconfigure(100, handles).wait()
    assert (m.group.rank(), m.group.size(), m.sum()) == (rank, 3, 6)
    assert (dist.ProcessGroup.rank(m.group), dist.ProcessGroup.size(m.group)) == (rank, 3)  # as C++ sees it
    if rank != 1:
        m.reconfigure(101, [handles[2], handles[0]]).wait()  # the order is theirs who call
        assert (m.group.rank(), m.group.size(), m.sum()) == ({2: 0, 0: 1}[rank], 2, 3)
    m.meet("without 1")
    if rank == 1:
        with pytest.raises(Aborted):
            m.sum()
    m.reconfigure(102 + rank, {handles[rank]}).wait()
    assert (m.group.rank(), m.group.size(), m.sum()) == (0, 1, 1)
    m.reconfigure(110, set(handles)).wait()
    assert m.sum() == 6
    m.reconfigure(111, handles).wait()  # the same members
    assert m.sum() == 6
    for uuid in range(120, 150, 3):  # who is there leaves at once, while others find that all are there
        m.reconfigure(uuid, handles).wait()
        m.reconfigure((uuid + 1) * 10 + rank, handles[rank:][:1]).wait()
    m.group.shutdown()


def test_members_leave_and_come(world):
    world(3, changes).get()


def fails(rank, size):
    m = Member(rank, size)
    handles = m.handles()
    m.reconfigure(1, handles).wait()
    with pytest.raises(RuntimeError, match="uuid 1 was already used"):
        m.reconfigure(1, handles)
    for bad, want in (
        ([h for r, h in enumerate(handles) if r != rank], "own handle"), (handles + handles[:1], "twice"),
        (handles + ["gloo://127.0.0.1:1"], "'gloo://127.0.0.1:1' is no handle"), (handles + ['{"id": 3}'], "is no handle"),
    ):
        with pytest.raises(ValueError, match=want):
            m.reconfigure(2, bad)
    assert m.sum() == 3, "refused calls have changed the group"
    gone = handles[0].replace(handles[0][8:16], "nobody..")  # it never comes
    began = time.monotonic()
    attempt = m.reconfigure(2, handles + [gone], timeout=timedelta(seconds=1))
    with pytest.raises(RuntimeError, match="another reconfiguration is under way"):
        m.reconfigure(3, handles)
    with pytest.raises(RuntimeError):
        attempt.wait()
    assert 0.5 < time.monotonic() - began < 10 and attempt.is_completed()
    assert m.sum() == 3, "an attempt that failed has changed the group"
    m.meet("failed")
    m.reconfigure(4, handles).wait()
    assert m.sum() == 3
    attempt = m.reconfigure(5, handles + [gone])
    began = time.monotonic()
    m.group.shutdown()
    assert attempt.is_completed() and time.monotonic() - began < 8
    with pytest.raises(RuntimeError):
        attempt.wait()
    with pytest.raises(RuntimeError, match="closed"):
        m.reconfigure(6, handles)


def test_attempts_that_fail_change_nothing(world):
    world(2, fails).get()


def dies(rank, size):
    m = Member(rank, size)
    handles = m.handles()
    m.reconfigure(1, handles).wait()
    if rank == 0:  # who has served the store that all met in
        m.sum()
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(Aborted) as caught:
        while True:
            m.sum()
    assert caught.value.rank == 0
    m.reconfigure(2, handles[1:]).wait()
    assert m.sum() == 3
    m.group.shutdown()
    return True


def test_survivors_reconfigure(world):
    assert world(3, dies).get(2) == {1: True, 2: True}


def interrupted(rank, size):
    def on_signal(*_):
        raise KeyboardInterrupt

    m = Member(rank, size)
    handles = m.handles()
    if rank == 0:
        m.meet("interrupted")
        return
    signal.signal(signal.SIGALRM, on_signal)
    attempt = m.reconfigure(1, handles)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        attempt.wait()
    took = time.monotonic() - began
    m.meet("interrupted")
    m.group.shutdown()
    return took


def test_a_wait_is_interrupted(world):
    assert world(2, interrupted).get()[1] < SOON.total_seconds() / 2


def test_a_host_whose_name_has_no_address(monkeypatch):
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    monkeypatch.setattr(socket, "gethostname", lambda: "no host")
    with socket.socket() as s:
        s.bind((own_address(), 0))  # it is one of this host's
    monkeypatch.setenv("MASTER_ADDR", "no host")
    with pytest.raises(OSError):
        own_address()


def by_torch(rank, size):
    store = dist.distributed_c10d._get_default_store()
    store = dist.PrefixStore("again", store)
    dist.destroy_process_group()
    dist.init_process_group("skerry", store=store, rank=rank, world_size=size, enable_reconfigure=True)
    assert dist._supports_reconfigure()
    store.set(f"handle/{rank}", dist._get_reconfigure_handle())
    handles = [store.get(f"handle/{r}").decode() for r in range(size)]
    dist._reconfigure(7, handles, timeout=SOON).wait()
    assert (dist.get_rank(), dist.get_world_size()) == (rank, size)
    x = torch.ones(3)
    dist.all_reduce(x)
    assert x.tolist() == [size] * 3
    dist.barrier()


@pytest.mark.skipif(not hasattr(dist, "_reconfigure"), reason="torch before 2.14")
def test_torchs_own_functions(world):
    world(3, by_torch).get()


def plain(rank, size):
    return dist._supports_reconfigure()


@pytest.mark.skipif(not hasattr(dist, "_reconfigure"), reason="torch before 2.14")
def test_a_plain_group_has_none(world):
    assert world(1, plain).get() == {0: False}
