"""Tensors on devices: a group of torch's beside the Manager's. Gloo's stands for NCCL's, and memory of the host for that of a
device, where there is none."""

import os
import signal
import textwrap
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import abortable
import trainers

import skerry
from skerry import _parts


def devices(make=abortable.Group):
    return skerry.Devices("fake", types=("cpu",), make=make)


def both(lighthouse, body, make=devices, **settings):
    made = iter([make(), make()])
    lock = threading.Lock()

    def run(name):
        with lock:
            own = next(made)
        with skerry.Manager(replica_id=name, lighthouse=lighthouse.address, min_replica_size=2, devices=own, **settings) as m:
            return body(name, m)

    return dict(zip("ab", trainers.in_threads(lambda: run("a"), lambda: run("b"))))


def until(m, steps, body):
    while m.current_step() < steps:
        m.start_quorum()
        body()
        m.should_commit()


def test_reduces_what_is_on_devices(lighthouse):
    def body(name, m):
        seen = []

        def step():
            x, n, z = torch.full((1000,), 1.0 if name == "a" else 3.0), torch.ones(4, dtype=torch.int64), torch.tensor([2 + 2j])
            works = [m.allreduce(x), m.allreduce(n, dist.ReduceOp.SUM), m.allreduce(z)]
            future = works[2].get_future().then(lambda f: f.value() + 1)
            for w in works[:2]:
                assert w.wait()
            seen.append((x[0].item(), x[-1].item(), n.tolist(), future.wait().tolist()))

        until(m, 3, step)
        return seen

    out = both(lighthouse, body, make=lambda: devices(abortable.gloo), state={"model": torch.nn.Linear(1, 1)})
    assert out["a"][-1] == out["b"][-1] == (2.0, 2.0, [2, 2, 2, 2], [3 + 2j])


def test_ddp(lighthouse):
    def body(name, m):
        torch.manual_seed(ord(name))
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        adam = torch.optim.Adam(model.parameters())
        m.register("model", model)
        m.register("adam", adam)
        opt, ddp = skerry.Optimizer(m, adam), skerry.DDP(m, model)
        while m.current_step() < 10:
            opt.zero_grad()
            ddp(torch.randn(4, 4)).square().sum().backward()
            opt.step()
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    out = both(lighthouse, body)
    assert torch.equal(out["a"], out["b"])


_trains = textwrap.dedent("""
    import sys, time
    import torch
    import torch._dynamo  # which optimizers import, for seconds
    import skerry
    sys.path.insert(0, TESTS)
    import abortable

    model = torch.nn.Linear(64, 64)
    adam = torch.optim.Adam(model.parameters())
    devices = skerry.Devices("fake", types=("cpu",), make=abortable.Group if "abortable" in sys.argv else abortable.gloo)
    manager = skerry.Manager(state={"model": model, "adam": adam}, devices=devices, timeout=60)
    opt, ddp = skerry.Optimizer(manager, adam), skerry.DDP(manager, model)
    try:
        while True:
            opt.zero_grad()
            ddp(torch.randn(8, 64)).square().mean().backward()
            time.sleep(0.02)
            if opt.step():
                said = sum(p.double().sum().item() for p in model.parameters()).hex()
                print(f"step {manager.current_step()} loss 0 with {manager.num_participants()} at 0 sha {abs(hash(said)):x}", flush=True)
    except skerry.Drained:
        print("drained", flush=True)
    manager.shutdown()
""")


@pytest.fixture
def trainer(replica, tmp_path, monkeypatch):
    """Replicas that train until they are told to leave."""
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    program = tmp_path / "trains.py"
    program.write_text(_trains.replace("TESTS", repr(os.path.dirname(__file__))))
    return lambda name, *args: replica(name, *args, program=str(program))


def test_a_killed_replica(trainer):
    """Those who are left have a group without it, and a new one heals into it."""
    a, b, c = (trainer(name) for name in "abc")
    at = a.reaches(3)
    c.kill()
    a.reaches(2, beyond=at)
    again = trainer("c")
    again.reaches(3)
    for r in (again, b, a):
        r.kill(signal.SIGTERM)
        r.end()
    trainers.same_after_each_step([a, b, c, again])
    assert again.steps()[0].number > at, "it heals into what the others have"


def test_a_stopped_replica(trainer):
    """A peer that hangs holds up no group of torch's: it is aborted when the Manager knows."""
    a, b, c = (trainer(name, "abortable") for name in "abc")
    at = a.reaches(3)
    c.kill(signal.SIGSTOP)
    began = time.monotonic()
    a.reaches(2, beyond=at)
    assert time.monotonic() - began < 45, "below the operation's own timeout of a minute"
    for r in (a, b, c):
        r.kill()
    trainers.same_after_each_step([a, b, c])


class Failing:
    """A group whose third all-reduce fails, once."""

    def __init__(self, group, counts):
        self._group, self._counts = group, counts

    def allreduce(self, tensors, opts):
        self._counts["ops"] += 1
        if self._counts["ops"] == 3:
            raise RuntimeError("an error of CUDA")
        return self._group.allreduce(tensors, opts)

    def abort(self):
        self._counts["aborts"] += 1
        self._group.abort()


def test_an_error_discards_the_step_and_ends_the_group(lighthouse):
    counts = {"ops": 0, "aborts": 0, "made": 0}

    def make(store, rank, size, timeout):
        counts["made"] += 1
        group = abortable.Group(store, rank, size, timeout)
        return Failing(group, counts) if rank == 0 else group

    def body(name, m):
        committed, errors = [], []

        def step():
            x = torch.ones(3)
            m.allreduce(x).wait()
            errors.append(m.errored())
            committed.append(m.current_step())

        until(m, 5, step)
        return committed, errors

    out = both(lighthouse, body, make=lambda: devices(make))
    assert any(e and "an error of CUDA" in e for _, errors in out.values() for e in errors)
    assert counts["made"] > 2 and counts["aborts"] > 0
    # By whoever was in it: one that had not begun it yet began it in the next quorum, at once.
    assert all(len(steps) > 5 for steps, errors in out.values() if any(errors)), "the step was made again"


def test_one_that_does_not_reduce(lighthouse):
    """An operation that another rank never begins ends with the step's time, and the step is discarded."""
    went = {"a": 0, "b": 0}

    def body(name, m):
        def step():
            went[name] += 1
            if name == "a" or went[name] != 2:
                m.allreduce(torch.ones(3))

        until(m, 3, step)
        return went[name]

    out = both(lighthouse, body, timeout=timedelta(seconds=2))
    assert min(out.values()) > 3


def test_states_on_devices(lighthouse, monkeypatch):
    """They are copied to the host when a replica heals from them, and only then."""
    fetched = []
    fetch = _parts.Part.fetch
    monkeypatch.setattr(_parts, "far", lambda t: t.dim() > 0)
    monkeypatch.setattr(_parts.Part, "fetch", lambda self: (fetched.append(self.name), fetch(self)))
    first, end = threading.Event(), threading.Event()

    def train(name, steps, each=lambda m: None):
        torch.manual_seed(ord(name))
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8))
        adam = torch.optim.Adam(model.parameters())
        with skerry.Manager(replica_id=name, lighthouse=lighthouse.address, state={"model": model, "adam": adam}, devices=devices()) as m:
            opt = skerry.Optimizer(m, adam)
            ddp = skerry.DDP(m, model)
            while steps(m):
                opt.zero_grad()
                ddp(torch.randn(4, 8)).square().sum().backward()
                if opt.step():
                    each(m)
            return m.current_step(), [p.detach().clone() for p in model.parameters()], [s["exp_avg"].clone() for s in adam.state.values()]

    states = {}

    def a():
        def each(m):
            if m.current_step() == 5:
                states["early"] = list(fetched)
                first.set()

        return train("a", lambda m: not end.is_set() or m.current_step() < 5, each)

    def b():
        first.wait(trainers.PATIENCE)
        try:
            return train("b", lambda m: m.current_step() < 5 or m.num_participants() < 2)
        finally:
            end.set()

    (na, pa, ma), (nb, pb, mb) = trainers.in_threads(a, b)
    assert states["early"] == [] and {"model", "adam"} <= set(fetched)
    assert nb >= 5 and na >= nb
    assert len(mb) == len(ma) == 4


def test_outside_of_a_step(lighthouse):
    with skerry.Manager(replica_id="a", lighthouse=lighthouse.address, state={"model": torch.nn.Linear(1, 1)}, devices=devices()) as m:
        x = torch.ones(3)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="outside of a step"):
                m.allreduce(x)
            m.start_quorum()
            with pytest.raises(NotImplementedError, match="want SUM or AVG"):
                m.allreduce(x, dist.ReduceOp.MAX)
            m.allreduce(x).wait()
            assert m.should_commit()


def test_refusals():
    with pytest.raises(ValueError, match="'mpi', want"):
        skerry.Devices("mpi")
    with pytest.raises(ValueError, match="heal_in_place"):
        skerry.Manager(devices="nccl", heal_in_place=True)
