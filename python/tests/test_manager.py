"""Training under a Manager: what replicas hold, and how it ends."""

import os
import re
import signal
import textwrap
import threading
import time

import pytest
import torch
import trainers

import skerry


HURRY = signal.SIGUSR1  # what has the trainer make the rest of its steps as fast as it can


def ready(replica, names, *args):
    """Replicas of the digits trainer that have imported everything, and begin together."""
    made = [replica(name, *args, program=trainers.LATE) for name in names]
    for r in made:
        r.until("ready")
    return made


def test_a_replica_is_killed_and_comes_back(replica):
    *first, again = ready(replica, ("a", "b", "c", "c"), "--steps", 120, "--step-time", 0.5)
    for r in first:
        r.kill(signal.SIGCONT)
    at = first[0].reaches(3)
    first[2].kill()
    at = first[0].reaches(2, beyond=at)
    again.kill(signal.SIGCONT)
    again.reaches(3)
    for r in (first[0], first[1], again):
        r.kill(HURRY)
    for r in (first[0], first[1], again):
        r.end()
    assert trainers.same_after_each_step([*first, again]) == 120
    assert again.steps()[0].number > at, "it begins where the others are"
    assert again.steps()[-1].participants == 3
    right = [float(r.output.split("right ")[1].split()[0]) for r in (first[0], first[1], again)]
    assert min(right) > 0.8, right


def test_sigterm_drains(replica):
    a, b = ready(replica, "ab", "--steps", 100, "--step-time", 0.5)
    for r in (a, b):
        r.kill(signal.SIGCONT)
    b.reaches(2)
    b.kill(signal.SIGTERM)
    b.end()
    assert "drained" in b.output
    a.kill(HURRY)
    a.end()
    assert trainers.same_after_each_step([a, b]) == 100


def test_ctrl_c_while_it_waits(lighthouse, tmp_path):
    program = tmp_path / "waits.py"
    program.write_text(textwrap.dedent("""
        import torch, skerry
        m = skerry.Manager(state={"model": torch.nn.Linear(1, 1)}, min_replica_size=2)
        m._open()
        try:
            print("waits", flush=True)
            m.start_quorum()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        m.shutdown()
    """))
    r = trainers.Replica(lighthouse, "alone", program=str(program))
    try:
        r.until("waits")
        time.sleep(0.5)
        began = time.monotonic()
        r.kill(signal.SIGINT)
        r.until("interrupted")
        assert time.monotonic() - began < 10
        r.end()
    finally:
        r.close()


@pytest.fixture
def alone(lighthouse):
    """alone(...) is a Manager that trains by itself."""
    made = []

    def start(**settings):
        made.append(skerry.Manager(replica_id="alone", lighthouse=lighthouse.address, drain_on_sigterm=False, **settings))
        return made[-1]

    yield start
    for m in made:
        m.shutdown()


def test_numbers_and_reported_errors(alone):
    m = alone(state={"model": torch.nn.Linear(2, 2)})
    assert m.current_step() == 0 and m.replica_id() == "alone"
    with pytest.raises(RuntimeError, match="before the first start_quorum"):
        m.group.size()
    m.start_quorum()
    assert (m.num_participants(), m.participating_rank(), m.is_participating()) == (1, 0, True)
    x = torch.tensor([1.0, 3.0])
    work = m.allreduce(x)
    assert work.wait() and work.get_future().value() is x and x.tolist() == [1, 3]
    assert m.should_commit() and m.current_step() == 1 and m.batches_committed() == 1
    m.start_quorum()
    m.report_error(ValueError("a bad batch"))
    assert "ValueError: a bad batch" in m.errored()
    assert not m.should_commit() and m.current_step() == 1
    assert m.num_participants() == 1, "between two steps it is the last one's"
    m.start_quorum()
    assert m.errored() is None and m.group.size() == 1
    assert m.should_commit() and m.state_dict()["step"] == 2
    assert m.holds_state() and not m.is_healing()


def test_a_step_left_open(alone):
    m = alone()
    m.start_quorum()
    m.allreduce(torch.ones(1)).wait()
    with pytest.raises(skerry.StepOpen):
        m.start_quorum()
    m.start_quorum()
    assert m.should_commit()


def test_starts_from_a_checkpoint(alone):
    m = alone()
    m.load_state_dict({"step": 70, "batches_committed": 210})
    m.start_quorum()
    assert m.current_step() == 70 and m.should_commit()
    assert m.state_dict()["batches_committed"] == 211


@pytest.mark.parametrize("settings, words", [
    ({"min_replica_size": -1}, "MinReplicas = -1"),
    ({"timeout": 0.000001}, "StepTimeout"),
    ({"log": "loud"}, 'Log = "loud"'),
    ({"backend": "carrier pigeon"}, "carrier pigeon"),
])
def test_bad_settings_are_refused(alone, settings, words):
    with pytest.raises(ValueError, match=words):
        alone(**settings).start_quorum()


def test_bad_states_are_refused(alone):
    with pytest.raises(TypeError, match="without state_dict and load_state_dict"):
        alone(state={"x": object()})
    with pytest.raises(ValueError, match="registered already"):
        m = alone(state={"x": torch.nn.Linear(1, 1)})
        m.register("x", torch.nn.Linear(1, 1))
    with pytest.raises(ValueError, match="a name without slashes"):
        alone(state={"x/y": torch.nn.Linear(1, 1)})
    m = alone()
    m.start_quorum()
    with pytest.raises(RuntimeError, match="after the first start_quorum"):
        m.register("late", torch.nn.Linear(1, 1))


def test_no_lighthouse_is_said(monkeypatch):
    monkeypatch.setenv("REPLICA_GROUP_ID", "alone")
    with skerry.Manager(lighthouse="127.0.0.1:1", timeout=1, heal_timeout=1, drain_on_sigterm=False) as m:
        with pytest.raises(skerry.Unreachable, match="127.0.0.1:1"):
            m.start_quorum()
    with pytest.raises(skerry.Closed):
        m.start_quorum()


def test_functions_heal_and_one_that_raises_ends_training(lighthouse):
    """A state of functions that copy heals as one of views does. What load raises is the caller's to see."""
    ended, trains, seen, broken = threading.Event(), threading.Event(), {}, {}

    def old():
        kept = {"w": torch.tensor([4.0, 5.0]), "n": 0}
        with skerry.Manager(replica_id="old", lighthouse=lighthouse.address) as m:
            m.register_state_dict_fn("kept", kept.update, lambda: {"w": kept["w"].clone(), "n": kept["n"]})
            while not ended.is_set():
                m.start_quorum()
                m.allreduce(torch.ones(1)).wait()
                if m.should_commit():
                    kept["n"] += 1
                    trains.set()
                time.sleep(0.005)

    def train(name, load, state, steps):
        with skerry.Manager(replica_id=name, lighthouse=lighthouse.address) as m:
            m.register_state_dict_fn("kept", load, state)
            while m.current_step() < 1 or steps > 0:
                m.start_quorum()
                m.allreduce(torch.ones(1)).wait()
                steps -= m.should_commit()

    def newcomers():
        try:
            assert trains.wait(trainers.PATIENCE)
            seen.update(w=torch.zeros(2), n=-1)
            train("new", seen.update, lambda: {"w": seen["w"].clone(), "n": seen["n"]}, 3)

            def load(_):
                raise KeyError("not mine")

            try:
                train("bad", load, lambda: {"w": torch.zeros(2), "n": -1}, 3)
            except KeyError as e:
                broken["error"] = e
        finally:
            ended.set()

    trainers.in_threads(old, newcomers)
    assert seen["w"].tolist() == [4, 5] and seen["n"] >= 0
    assert "not mine" in str(broken["error"])


def test_a_loaders_position_heals(lighthouse):
    """Who comes late draws the batches that the others draw."""
    loaders = pytest.importorskip("torchdata.stateful_dataloader")
    drawn, late, ended = {"a": {}, "b": {}}, threading.Event(), threading.Event()

    def train(name, going):
        loader = loaders.StatefulDataLoader(list(range(40)), batch_size=4, shuffle=False, num_workers=0)
        batches = skerry.Batches(loader)
        with skerry.Manager(replica_id=name, lighthouse=lighthouse.address, state={"batches": batches}) as m:
            while going() and not ended.is_set():
                batch = next(batches)
                m.start_quorum()
                m.allreduce(torch.ones(1)).wait()
                if m.should_commit():
                    drawn[name][m.current_step()] = batch.tolist()
                if m.current_step() > 15:
                    late.set()
                time.sleep(0.005)

    def b():
        try:
            assert late.wait(trainers.PATIENCE)
            train("b", lambda: len(drawn["b"]) < 50)
        finally:
            ended.set()

    trainers.in_threads(lambda: train("a", lambda: True), b)
    common = sorted(drawn["a"].keys() & drawn["b"].keys())
    assert len(common) > 20
    wrong = [n for n in common if drawn["a"][n] != drawn["b"][n]]
    assert wrong in ([], common[:1]), "but for the step in which it healed, whose batch it had drawn before"


def test_replicas_of_two_ranks(lighthouse, tmp_path):
    """All ranks of a replica commit together, and each heals from its like."""
    program = tmp_path / "ranks.py"
    program.write_text(textwrap.dedent("""
        import os, sys
        import torch, skerry, torch.distributed as dist
        rank, port = int(sys.argv[1]), int(sys.argv[2])
        store = dist.TCPStore("127.0.0.1", port, is_master=rank == 0, wait_for_workers=False)
        w = {"w": torch.full((4,), float(os.getpid() + rank))}
        m = skerry.Manager(rank=rank, world_size=2, group_store=f"127.0.0.1:{port}/replica", min_replica_size=2)
        m.register_state_dict_fn("shard", w.update, lambda: dict(w), volatile=False)

        def step():
            m.start_quorum()
            g = torch.full((4,), rank + 1.0)
            m.allreduce(g).wait()
            if m.should_commit() and m.current_step() <= 5:
                w["w"] += g
                print("committed", m.current_step(), flush=True)

        while m.current_step() < 5:
            step()
        m.finish(step, linger=0)
        print("shard", w["w"].tolist(), flush=True)
        m.shutdown()
        store.set(f"bye{rank}", "1")
        if rank == 0:
            store.wait(["bye1"])
    """))
    ranks = []
    try:
        for name in "ab":
            port = trainers.port()
            ranks += [trainers.Replica(lighthouse, name, rank, port, program=str(program)) for rank in range(2)]
        for r in ranks:
            r.end()
        shards = [re.search(r"shard (\[.*?\])", r.output)[1] for r in ranks]  # warnings may follow
        assert shards[0] == shards[2] and shards[1] == shards[3] and shards[0] != shards[1]
    finally:
        for r in ranks:
            r.close()


def data(name, step):
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(step * 2 + (name == "b")))


def test_ddp_averages(lighthouse):
    def body(name, m):
        torch.manual_seed(len(name))
        model = torch.nn.Linear(4, 1)
        m.register("model", model)
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        opt, ddp = skerry.Optimizer(m, sgd), skerry.DDP(m, model)
        m.start_quorum()
        assert m.should_commit()  # the weights are one replica's now
        by_hand = torch.nn.Linear(4, 1)
        by_hand.load_state_dict(model.state_dict())
        for step in range(3):
            opt.zero_grad()
            ddp(data(name, step)).sum().backward()
            assert opt.step()
            grads = [torch.autograd.grad(by_hand(data(n, step)).sum(), by_hand.parameters()) for n in "ab"]
            with torch.no_grad():
                for p, *g in zip(by_hand.parameters(), *grads):
                    p -= 0.1 * (g[0] + g[1]) / 2
        m.finish(lambda: (m.start_quorum(), m.should_commit()), linger=0)
        return torch.cat([p.detach().flatten() for p in model.parameters()]), torch.cat([p.detach().flatten() for p in by_hand.parameters()])

    out = trainers.both(lighthouse, body)
    assert torch.equal(out["a"][0], out["b"][0])
    assert torch.allclose(*out["a"], atol=1e-6)
    with pytest.raises(ValueError, match="find_unused_parameters"):
        skerry.DDP(None, torch.nn.Linear(1, 1), find_unused_parameters=False)


def one_weight():
    """A model of one weight, which is 1."""
    model = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1)
    return model


def inner_step(name, model, optimizer):
    """a goes by 1, b by 3."""
    model.weight.grad = torch.full_like(model.weight, 1.0 if name == "a" else 3.0)
    optimizer.step()


def test_local_sgd_averages(lighthouse):
    def body(name, m):
        model = one_weight()
        sgd = torch.optim.SGD(model.parameters(), lr=1.0)
        with (local := skerry.LocalSGD(m, model, sgd, sync_every=3)):
            for step in range(6):
                inner_step(name, model, sgd)
                if step == 4:
                    between = model.weight.item()
            m.finish(local.idle, linger=0)
        return between, model.weight.item()

    # From 1, three steps of -1 and of -3 average to -5; three more of each to -11.
    assert trainers.both(lighthouse, body) == {"a": (-7, -11), "b": (-11, -11)}


def test_diloco_takes_the_way_for_a_gradient(lighthouse):
    def body(name, m):
        model = one_weight()
        inner = torch.optim.SGD(model.parameters(), lr=1.0)
        outer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
        with (local := skerry.DiLoCo(m, model, inner, outer, sync_every=2)):
            for _ in range(4):
                inner_step(name, model, inner)
            m.finish(local.idle, linger=0)
        return model.weight.item()

    # The way is 4 on average: 1 - 0.5 * 4 = -1, then with momentum -1 - 0.5 * (0.5 * 4 + 4) = -4.
    assert trainers.both(lighthouse, body) == {"a": -4, "b": -4}


def test_nothing_is_left_behind(lighthouse):
    def round():
        with skerry.Manager(replica_id="a", lighthouse=lighthouse.address, state={"m": torch.nn.Linear(8, 8)}, drain_on_sigterm=False) as m:
            for _ in range(3):
                m.start_quorum()
                m.allreduce(torch.ones(4)).get_future().wait()
                assert m.should_commit()

    def counts():
        return len(os.listdir("/proc/self/fd")), threading.active_count(), len(os.listdir("/proc/self/task"))

    round()
    round()
    before = counts()
    # Go has as many threads at work as there are cores, by and by, and never gives one back.
    limits = before[0], before[1], before[2] + os.cpu_count()
    for _ in range(8):
        round()
    deadline = time.monotonic() + 20
    while any(n > limit for n, limit in zip(counts(), limits)):
        assert time.monotonic() < deadline, f"{limits} descriptors, Python's threads and the system's, now {counts()}"
        time.sleep(0.1)
