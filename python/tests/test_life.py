"""Deaths, epochs, forks, signals and exits in real processes."""

import json
import multiprocessing.connection
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import skerry
from skerry import _lib

from conftest import PATIENCE

SIZE = 3


def rendezvous(store):
    """A Skerry store that outlives the rank that made it, told to all by torch's store."""
    return json.loads(store.get("test/store"))


def survives(rank, size, kind):
    """Rank 1 dies in the middle; the others say who it was, and go on in the same process."""
    group, store = dist.group.WORLD, dist.distributed_c10d._get_default_store()
    if rank == 0:
        handle, address = _lib.serve_store("127.0.0.1", "")
        store.set("test/store", json.dumps(address))
    address = rendezvous(store)
    x = torch.ones(1000)
    if rank == 1:
        for _ in range(5):
            dist.all_reduce(x.fill_(1))
        if kind == "exit":
            os._exit(3)
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(skerry.Aborted) as caught:
        while True:
            dist.all_reduce(x.fill_(1))
    e = caught.value
    assert isinstance(e, dist.DistBackendError)
    assert e.rank == 1 and e.culprit.startswith("1@") and "1@" in str(e), (e.rank, e.culprit, str(e))
    assert group.errored() is not None
    with pytest.raises(skerry.Aborted):
        dist.all_reduce(x)
    survivors = [0, 2]
    group.configure(address + "/next", [str(r) for r in survivors], survivors.index(rank), cluster="next")
    assert group.errored() is None and group.size() == 2
    y = torch.full((10,), float(rank))
    work = group.allreduce([y])
    work.wait()
    assert y[0] == 2
    assert (dist.ProcessGroup.rank(group), dist.ProcessGroup.size(group)) == (survivors.index(rank), 2)  # C++'s view
    if rank == 0:
        group.barrier().wait()
        group.shutdown()
        _lib.close(handle)
    else:
        group.barrier().wait()
        group.shutdown()
    return True


@pytest.mark.parametrize("kind", ["exit", "kill"])
def test_survivors_go_on(world, kind):
    out = world(SIZE, survives, kind).get(2)
    assert out == {0: True, 2: True}


def cannot_meet(rank, size):
    store = dist.PrefixStore("again", dist.distributed_c10d._get_default_store())
    dist.destroy_process_group()
    os.environ["SKERRY_LISTEN"] = "203.0.113.7"  # of nobody
    with pytest.raises((RuntimeError, ValueError), match="203.0.113.7"):
        dist.init_process_group("skerry", store=store, rank=rank, world_size=size)


def test_a_meeting_that_fails_is_told(world):
    world(2, cannot_meet).get()


def stops(rank, size):
    """A rank is stopped for longer than the beat timeout that is set unless told."""
    store = dist.PrefixStore("again", dist.distributed_c10d._get_default_store())
    dist.destroy_process_group()
    options = {"beat_timeout": f"{PATIENCE}s", "transport": "tcp"}
    dist.init_process_group("skerry", store=store, rank=rank, world_size=size, pg_options=options)
    x = torch.ones(4)
    if rank == 1:
        store.set("pid", str(os.getpid()))
        dist.all_reduce(x)
        return x[0].item()
    pid = int(store.get("pid"))
    os.kill(pid, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(pid, signal.SIGCONT)
    dist.all_reduce(x)
    return x[0].item()


def test_a_member_may_be_silent_for_longer(world):
    assert world(2, stops).get() == {0: 2.0, 1: 2.0}


def abandons(rank, size):
    group = dist.group.WORLD
    x = torch.ones(4)
    if rank == 0:
        with pytest.raises(skerry.Aborted, match="longer"):
            dist.all_reduce(x, async_op=True).wait(timedelta(milliseconds=200))
        assert group.errored() is not None
        return
    end = time.monotonic() + PATIENCE
    while group.errored() is None and time.monotonic() < end:
        time.sleep(0.01)  # a trainer that is late: it finds the group broken
    with pytest.raises(skerry.Aborted):
        dist.all_reduce(x)


def test_a_wait_that_runs_out_breaks_the_group(world):
    world(2, abandons).get()


def sockets():
    """The sockets of this process, by their numbers in the kernel: all are the library's."""
    links = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:  # that of the listing
            pass
    return {link for link in links if link.startswith("socket:")}


def forks(rank, size):
    x = torch.ones(4)
    dist.all_reduce(x)
    r, w = os.pipe()
    mine = sockets()
    if (pid := os.fork()) == 0:
        try:
            dist.group.WORLD.allreduce([x])
        except skerry.Forked:
            os.write(w, f"forked, with {len(mine)} sockets and now {len(mine & sockets())}".encode())
        os._exit(0)
    os.close(w)
    said = os.read(r, 100).decode()
    assert len(mine) > 2 and said == f"forked, with {len(mine)} sockets and now 0"
    os.waitpid(pid, 0)
    dist.all_reduce(x)  # the parent goes on
    assert x[0] == size * size


def epolls_are_told():
    """Whether the system tells what an epoll instance watches: by this a child knows what to close."""
    r, w = os.pipe()
    try:
        with select.epoll() as poller:
            poller.register(r)
            with open(f"/proc/self/fdinfo/{poller.fileno()}") as f:
                return "tfd:" in f.read()
    except OSError:
        return False
    finally:
        os.close(r)
        os.close(w)


def test_a_forked_child_is_told(world):
    if not epolls_are_told():
        pytest.skip("/proc/self/fdinfo of an epoll instance does not tell what it watches, as under gVisor")
    world(2, forks).get()


def loads(rank, size):
    """A loader's workers are forks of this process, as they are by default. In a process that was spawned, as this one
    was, the default is to spawn them: such have nothing of the library's, and import torch anew for seconds."""
    x = torch.ones(4)
    dist.all_reduce(x)
    loader = torch.utils.data.DataLoader(torch.arange(64.0), batch_size=8, num_workers=2, multiprocessing_context="fork")
    for batch in loader:
        dist.all_reduce(batch)
        dist.all_reduce(x)
    assert x[0] == size**9


def test_workers_of_a_loader(world):
    try:
        torch.ones(1).share_memory_()  # its workers give batches so
        multiprocessing.connection.Listener(family="AF_UNIX").close()
    except (OSError, RuntimeError) as e:
        pytest.skip(f"a DataLoader's workers cannot share memory here, want a /dev/shm to write to and a short TMPDIR: {e}")
    world(2, loads).get()


def interrupted(rank, size, after):
    """A handler that raises while a verb blocks: the tensors live on until the operation has ended."""
    group, store = dist.group.WORLD, dist.distributed_c10d._get_default_store()
    if rank == 1:
        store.get("interrupted")  # waits for it
        dist.all_reduce(torch.ones(1 << 20))
        dist.barrier()
        return True
    x = torch.ones(1 << 20)

    def interrupt():
        while not group._works:
            time.sleep(0.001)
        time.sleep(after)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        dist.all_reduce(x)
    kept = len(group._works)
    del x
    other = [torch.zeros(1 << 20) for _ in range(8)]
    store.set("interrupted", "")
    dist.barrier()  # behind it: it has written by now
    return kept, sum(float(t.sum()) for t in other)


@pytest.mark.parametrize("after", [0.03, 0.09])
def test_an_interrupted_verb_keeps_its_tensors(world, after):
    assert world(2, interrupted, after).get()[0] == (1, 0.0)


def drops(rank, size):
    for _ in range(200):
        dist.all_reduce(torch.ones(100), async_op=True)
    for _ in range(6):
        dist.barrier()
    return len(dist.group.WORLD._works)


def test_dropped_works_are_let_go(world):
    assert all(n < 10 for n in world(2, drops).get().values())


def threads(rank, size):
    """Groups are of one thread each: the order of their operations is its own."""
    groups = [dist.new_group(list(range(size))) for _ in range(4)]
    wrong = []

    def work(group):
        for i in range(50):
            x = torch.full((100,), float(i))
            dist.all_reduce(x, group=group)
            if x[0] != size * i:
                wrong.append((i, x[0]))

    all = [threading.Thread(target=work, args=(g,)) for g in groups]
    for t in all:
        t.start()
    for t in all:
        t.join()
    assert not wrong, wrong


def test_threads(world):
    world(2, threads).get()


def script(tmp_path, text, ranks, meet=""):
    """Runs a program in processes of their own, which meet by a file."""
    path = tmp_path / "program.py"
    path.write_text("import os, sys, time, torch, torch.distributed as dist, skerry\n" + meet + textwrap.dedent(text))
    env = dict(os.environ, STORE=str(tmp_path / "store"))
    return [
        subprocess.Popen(
            [sys.executable, "-u", path], env=dict(env, RANK=str(r), WORLD_SIZE=str(ranks)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for r in range(ranks)
    ]


MEET = """
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("skerry", init_method="file://" + os.environ["STORE"], rank=rank, world_size=size)
"""


def test_interrupt_ends_a_wait(tmp_path):
    """Ctrl-C while a verb blocks for a peer that does not come: KeyboardInterrupt, not a timeout later."""
    waiting, late = script(tmp_path, """
    x = torch.ones(4)
    if rank == 0:
        try:
            print("waits")
            dist.all_reduce(x)
        except KeyboardInterrupt:
            print("interrupted")
            sys.exit(0)
    time.sleep(3600)
    """, 2, MEET)
    try:
        assert waiting.stdout.readline() == "waits\n"
        time.sleep(0.3)  # it may wait by then; if not, it is interrupted before, which is as well
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=PATIENCE)
        assert out == "interrupted\n" and waiting.returncode == 0, (out, err)
    finally:
        for p in (waiting, late):
            p.kill()
            p.communicate()


def test_the_interpreter_ends_with_operations_under_way(tmp_path):
    """Neither the end of the program nor an exception in it hangs or crashes."""
    for end in ("pass", "raise SystemExit(0)", "w.get_future(); del w"):
        folder = tmp_path / str(len(end))
        folder.mkdir()
        all = script(folder, f"""
        x = torch.ones(4)
        if rank == 0:
            w = dist.all_reduce(x, async_op=True)
            {end}
        else:
            time.sleep(0.5)
        """, 2, MEET)
        for p in all:
            try:
                out, err = p.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                p.kill()
                pytest.fail(f"{end}: a process has not ended: {p.communicate()}")
            assert p.returncode == 0, (end, p.returncode, out, err)


def test_nothing_is_left(tmp_path):
    """Groups that come and go leave no descriptor and no thread."""
    (one,) = script(tmp_path, """
    import threading
    def now():
        return len(os.listdir("/proc/self/fd")), threading.active_count(), len(os.listdir("/proc/self/task"))
    dist.init_process_group("skerry", init_method="file://" + os.environ["STORE"], rank=0, world_size=1)
    for i in range(30):
        g = dist.new_group([0])
        x = torch.ones(4)
        dist.all_reduce(x, group=g, async_op=True).get_future().wait()
        dist.destroy_process_group(g)
        if i == 9:
            before = now()
    # Go has as many threads at work as there are cores, by and by, and never gives one back.
    limits = before[0], before[1], before[2] + os.cpu_count()
    end = time.monotonic() + 20
    while any(n > limit for n, limit in zip(now(), limits)):
        if time.monotonic() > end:
            sys.exit(f"{limits} descriptors, Python's threads and the system's, now {now()}")
        time.sleep(0.1)
    """, 1)
    out, err = one.communicate(timeout=PATIENCE)
    assert one.returncode == 0, (out, err)
