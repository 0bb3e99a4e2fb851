"""skerry.torchft with a real torchft: the group by itself, and under torchft's Manager."""

import functools
import os
import signal
import subprocess
import sys
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
import trainers
from torch._C import _distributed_c10d as c10d

import skerry


def test_without_torchft():
    """The package needs none; the module says what it wants."""
    program = "import sys, skerry\nassert 'torchft' not in sys.modules\nsys.modules['torchft'] = None\nimport skerry.torchft"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=trainers.PATIENCE)
    assert "ImportError: skerry.torchft wants torchft" in out.stderr


torchft = pytest.importorskip("torchft")
import skerry.torchft as ours  # noqa: E402
from torchft import process_group as theirs  # noqa: E402

TRAINER = os.path.join(os.path.dirname(__file__), "torchft_trainer.py")
SIZE = 3


@pytest.fixture
def groups():
    """groups(prefix) configures a group for each rank, each in a thread, and returns them. May be called again."""
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    made = [ours.ProcessGroup(timeout=timedelta(seconds=20)) for _ in range(SIZE)]

    def start(prefix, ranks=range(SIZE)):
        members = [made[r] for r in ranks]
        address = f"localhost:{store.port}/{prefix}"
        if hasattr(theirs, "reconfigure_with_store"):
            parallel(members, lambda g, rank: theirs.reconfigure_with_store(g, address, rank, len(members), timedelta(seconds=20)))
        else:
            parallel(members, lambda g, rank: g.configure(address, f"replica_{rank}", rank, len(members)))
        return members

    yield start
    parallel(made, lambda g, _: g.shutdown())


def parallel(groups, body):
    """Runs body(group, rank) of each group in a thread, and returns what they return."""
    return trainers.in_threads(*(functools.partial(body, g, rank) for rank, g in enumerate(groups)))


def every_verb(g, rank):
    n, x = g.size(), torch.tensor([1.0, 2.0]) * (rank + 1)
    total = torch.tensor([1.0, 2.0]) * sum(range(1, n + 1))
    for opts in (dist.ReduceOp.SUM, c10d.AllreduceOptions()):
        y = x.clone()
        g.allreduce([y], opts).wait()
        assert torch.equal(y, total)
    y, z = x.clone(), x + 1
    g.allreduce_coalesced([y, z], c10d.AllreduceCoalescedOptions()).wait()
    assert torch.equal(y, total) and torch.equal(z, total + n)
    rows = [torch.zeros(2) for _ in range(n)]
    g.allgather([rows], [x], c10d.AllgatherOptions()).wait()
    assert torch.equal(rows[n - 1], torch.tensor([1.0, 2.0]) * n)
    flat = torch.zeros(2 * n)
    g.allgather_into_tensor_coalesced([flat], [x], c10d.AllgatherOptions()).wait()
    assert torch.equal(flat, torch.cat(rows))
    mine, parts = torch.zeros(2), [x * r for r in range(n)]
    g.reduce_scatter([mine], [parts], c10d.ReduceScatterOptions()).wait()
    assert torch.equal(mine, total * rank)
    g.reduce_scatter_tensor_coalesced([mine], [torch.cat(parts)], c10d.ReduceScatterOptions()).wait()
    assert torch.equal(mine, total * rank)
    swapped = torch.zeros(n)
    g.alltoall_base(swapped, torch.full((n,), float(rank)), [1] * n, [1] * n, c10d.AllToAllOptions()).wait()
    assert torch.equal(swapped, torch.arange(n, dtype=torch.float32))
    y = x.clone()
    g.broadcast_one(y, 0).wait()
    assert torch.equal(y, torch.tensor([1.0, 2.0]))
    if rank == 0:
        g.send([x], 1, 7).wait()
    elif rank == 1:
        g.recv([y], 0, 7).wait()
        assert torch.equal(y, torch.tensor([1.0, 2.0]))
    g.barrier(c10d.BarrierOptions()).wait()
    work = g.allreduce([x.clone()], dist.ReduceOp.MAX)
    work.wait()
    assert work.get_future().done() and work.get_future().value()[0][0] == n


def test_every_verb(groups):
    parallel(groups("a"), every_verb)


def test_epochs(groups):
    """A group is configured again with fewer members and with all, after a departure and after an abort."""
    members = groups("a")
    assert all(g.errored() is None and g.getBackendName() == "torchft-skerry" for g in members)

    def leaves(g, rank):
        g.allreduce([torch.ones(1)], dist.ReduceOp.SUM).wait()
        if rank == SIZE - 1:
            g.shutdown()
            assert g.errored() is None
            return
        with pytest.raises(skerry.Aborted, match="Connection closed by peer") as caught:
            g.allreduce([torch.ones(1)], dist.ReduceOp.SUM).wait()
        assert caught.value.rank == SIZE - 1
        assert "aborted" in str(g.errored())

    parallel(members, leaves)
    parallel(groups("b", range(SIZE - 1)), every_verb)
    members = groups("c")
    parallel(members, every_verb)

    def aborts(g, rank):
        if rank == 0:
            g.abort()
        with pytest.raises(skerry.Aborted):
            while True:
                g.allreduce([torch.ones(1)], dist.ReduceOp.SUM).wait()

    parallel(members, aborts)
    parallel(groups("d"), every_verb)


def test_a_member_that_does_not_come(groups):
    g = ours.ProcessGroup(timeout=timedelta(seconds=0.2))
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    with pytest.raises((skerry.Aborted, dist.DistStoreError), match="(?i)timed? ?out"):
        if hasattr(theirs, "ReconfigureOptions"):
            handles = [g.get_reconfigure_handle(), '{"id": "missing", "store": "unused", "global_rank": null}']
            opts = theirs.ReconfigureOptions()
            opts.uuid, opts.handles = 1, handles
            g.reconfigure(opts)
        else:
            g.configure(f"localhost:{store.port}/x", "r", 0, 2)
    with pytest.raises(skerry.Aborted):
        g.allreduce([torch.ones(1)], dist.ReduceOp.SUM).wait()
    g.shutdown()


@pytest.mark.parametrize("manager", ["torchft", "skerry"])
def test_a_replica_is_killed_and_comes_back(replica, monkeypatch, skerry_binary, manager):
    """Two replicas train under torchft's Manager. One is killed; the other goes on, and the next
    incarnation heals from it."""
    monkeypatch.setenv("SKERRY", skerry_binary)
    args = ("manager",) if manager == "skerry" else ()
    a, b, again = (replica(name, *args, program=TRAINER) for name in ("a", "b", "b"))
    for r in (a, b, again):
        r.until("ready")
    a.kill(signal.SIGCONT)
    b.kill(signal.SIGCONT)
    at = a.reaches(2)
    b.kill()
    at = a.reaches(1, beyond=at)
    again.kill(signal.SIGCONT)
    again.reaches(2)
    for r in (a, again):
        r.kill(signal.SIGUSR1)  # the rest of the steps as fast as they can be
    for r in (a, again):
        r.end()
    assert trainers.same_after_each_step([a, b, again]) == 120
    assert again.steps()[0].number > at, "it begins where the other is"
    assert again.steps()[-1].participants == 2
    assert f"done {'skerry._torchft_manager' if manager == 'skerry' else ''}" in a.output
