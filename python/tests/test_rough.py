"""Loops that are interrupted, that raise, that differ: no replica may come out of it with other bytes."""

import contextlib
import gc
import os
import signal
import subprocess
import threading
import time
import weakref

import pytest
import torch
import torch.distributed as dist
import trainers

import skerry
from skerry import _lib, _parts


def manager(lighthouse, name, **settings):
    return skerry.Manager(replica_id=name, lighthouse=lighthouse.address, **{"drain_on_sigterm": False, **settings})


class Kept:
    """A dict as a part of the state."""

    def __init__(self, kept):
        self.load_state_dict, self.state_dict = kept.update, lambda: dict(kept)


@contextlib.contextmanager
def trainer(lighthouse, state, step, **settings):
    """Another replica, which trains on a thread from before the block on until its end; step(manager) is its
    loop's. Gives what it returned, by the number of the step."""
    said, going, done = {}, threading.Event(), threading.Event()

    def train():
        with manager(lighthouse, "other", state=state, **settings) as m:
            while not done.is_set():
                out = step(m)
                said[m.current_step()] = out
                if m.current_step() > 3:
                    going.set()

    thread = threading.Thread(target=train)
    thread.start()
    try:
        assert going.wait(trainers.PATIENCE)
        yield said
    finally:
        done.set()
        thread.join()


@contextlib.contextmanager
def interrupts(m, verb):
    """Has a signal's handler raise KeyboardInterrupt once, as soon as a manager waits in a verb: what lets the verb
    end is to wait for the interrupt."""
    over = threading.Event()

    def handler(*_):
        if not over.is_set():
            over.set()
            raise KeyboardInterrupt

    def watch():
        while verb not in m._calls:
            if over.wait(0.001):
                return
        signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)

    before, watcher = signal.signal(signal.SIGALRM, handler), threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        signal.signal(signal.SIGALRM, before)


class Halves(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = (torch.nn.Linear(2, 1, bias=False) for _ in range(2))

    def forward(self, x, whole):
        return self.first(x) + (self.second(x) if whole else 0)


def test_a_parameter_that_one_replica_does_not_use(lighthouse):
    def body(name, m):
        torch.manual_seed(0)
        model = Halves()
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        m.register("model", model)
        opt, ddp = skerry.Optimizer(m, sgd), skerry.DDP(m, model)
        for step in range(6):
            opt.zero_grad()
            ddp(torch.ones(4, 2), whole=name == "b" and step < 4).sum().backward()
            used = model.second.weight.grad is not None
            assert opt.step()
            assert used == (step < 4), "the gradient of what nobody uses is None"
        return model.second.weight.tolist()

    out = trainers.both(lighthouse, body, parity_every=1)
    assert out["a"] == out["b"]


def test_a_parameter_that_only_a_spare_uses(lighthouse):
    """Its gradient is None for those who take part: with moments it would move on the spare alone."""
    often = threading.Event()  # one of them was a spare often enough; the other took part alone then

    def body(name, m):
        torch.manual_seed(0)
        model = Halves()
        adam = torch.optim.Adam(model.parameters(), lr=0.1)
        m.register("model", model)
        m.register("adam", adam)
        opt, ddp, spares = skerry.Optimizer(m, adam), skerry.DDP(m, model), 0

        def step():
            nonlocal spares
            opt.zero_grad()
            spare = not m.is_participating()
            ddp(torch.ones(4, 2), whole=m.current_step() < 10 or spare).sum().backward()
            time.sleep(0.02)
            if opt.step() and m.current_step() > 10:
                spares += spare
            if spares > 20:
                often.set()

        while not often.is_set() and m.current_step() < 3000:
            step()
        m.finish(step, linger=0)
        return spares, model.second.weight.tolist(), adam.state[model.second.weight]["step"].item()

    told = []
    out = trainers.both(lighthouse, body, min_replica_size=1, fixed_world_size=1, parity_every=1, on_event=lambda *event: told.append(event))
    assert not [text for kind, text in told if kind == "StateDiffered"]
    assert max(spares for spares, *_ in out.values()) > 20
    assert out["a"][1:] == out["b"][1:]
    assert out["a"][2] == 10, "nobody who takes part has moved it since"


def test_moments_of_a_large_model_heal(lighthouse):
    """A new Adam has none of them, and they are more than the room of a part without tensors."""

    def make():
        model = torch.nn.Linear(3000, 3000)
        return model, torch.optim.Adam(model.parameters())

    def step(m, model, adam):
        m.start_quorum()
        adam.zero_grad()
        model.weight.grad = torch.ones_like(model.weight)
        if m.should_commit():
            adam.step()
        return adam.state[model.weight]["exp_avg_sq"].sum().item() if adam.state else 0

    model, adam = make()
    with trainer(lighthouse, {"model": model, "adam": adam}, lambda m: step(m, model, adam)) as said:
        mine, own = make()
        with manager(lighthouse, "newcomer", state={"model": mine, "adam": own}) as m:
            while not m.is_participating() or m.current_step() < 6:
                out = step(m, mine, own)
            at = m.current_step()
    assert said[at] == out


def test_an_interrupted_commit_keeps_its_answer(lighthouse):
    met, interrupted = threading.Barrier(2, timeout=trainers.PATIENCE), threading.Event()

    def step(m, after=None):
        m.start_quorum()
        m.allreduce(torch.ones(1)).wait()
        if after:
            assert after.wait(trainers.PATIENCE)
        return m.should_commit()

    def other():
        with manager(lighthouse, "other", min_replica_size=2) as m:
            for after in (None, interrupted, None):  # the second is late with its ballot
                step(m, after)
            met.wait()

    thread = threading.Thread(target=other)
    thread.start()
    with manager(lighthouse, "mine", min_replica_size=2) as m:
        assert step(m)
        m.start_quorum()
        m.allreduce(torch.ones(1)).wait()
        with interrupts(m, _lib.COMMIT), pytest.raises(KeyboardInterrupt):
            m.should_commit()
        assert not m.holds_state()
        for call in (m.start_quorum, m.state_dict, lambda: m.allreduce(torch.ones(1))):
            with pytest.raises(skerry.StepOpen, match="call it again"):
                call()
        interrupted.set()
        assert m.should_commit() and m.holds_state() and m.state_dict()["step"] == 2
        assert step(m) and m.current_step() == 3
        met.wait()
    thread.join()


@pytest.mark.parametrize("by", ["signal", "event"])
def test_a_heal_is_not_lost_with_the_call_that_brought_it(lighthouse, by):
    def step(m, extra):
        m.start_quorum()
        m.allreduce(torch.ones(1)).wait()
        if committed := m.should_commit():
            extra["n"] += 1
        return extra["n"] if committed else None

    theirs = {"n": 100}
    raised = []

    def event(*_):
        if by == "event" and not raised:
            raised.append(True)
            raise RuntimeError("the program's own")

    def trains(m):
        time.sleep(0.01)
        return step(m, theirs)

    with trainer(lighthouse, {"extra": Kept(theirs)}, trains) as said:
        mine = {"n": 0}
        with manager(lighthouse, "newcomer", state={"extra": Kept(mine)}, on_event=event) as m:
            m._open()
            with contextlib.suppress(KeyboardInterrupt, RuntimeError):
                with interrupts(m, _lib.START) if by == "signal" else contextlib.nullcontext():
                    m.start_quorum()
            assert by == "signal" or raised
            for _ in range(5):
                out = step(m, mine)
                if out is not None and m.current_step() in said and said[m.current_step()] is not None:
                    assert out == said[m.current_step()]
            assert mine["n"] > 100


def test_nobody_saves_what_an_interrupted_commit_left(lighthouse):
    """The usual pattern of a program: what it saves behind the end must be of the step that it says."""
    done = threading.Event()

    def other():
        with manager(lighthouse, "other", min_replica_size=2) as m:
            with contextlib.suppress(skerry.TrainingEnded, skerry.Aborted):
                for last in (False, True):
                    m.start_quorum()
                    m.allreduce(torch.ones(1)).wait()
                    if last:
                        done.wait(trainers.PATIENCE)
                    m.should_commit()

    thread = threading.Thread(target=other)
    thread.start()
    with pytest.raises(KeyboardInterrupt), manager(lighthouse, "mine", min_replica_size=2) as m:
        for last in (False, True):
            m.start_quorum()
            m.allreduce(torch.ones(1)).wait()
            with interrupts(m, _lib.COMMIT) if last else contextlib.nullcontext():
                m.should_commit()
    done.set()
    thread.join()
    assert not m.holds_state()
    with pytest.raises(skerry.StepOpen, match="nobody knows of which step"):
        m.state_dict()


def test_an_interrupted_round_is_not_reduced_anew(lighthouse):
    """The second reduction would be of nobody: its tensors would stay this replica's own."""
    met, interrupted = threading.Barrier(2, timeout=trainers.PATIENCE), threading.Event()

    def run(name):
        with manager(lighthouse, name, min_replica_size=2) as m:
            model = torch.nn.Linear(1, 1, bias=False)
            with torch.no_grad():
                model.weight.fill_(1)
            sgd = torch.optim.SGD(model.parameters(), lr=1.0)
            local = skerry.LocalSGD(m, model, sgd, sync_every=10)
            with local:
                model.weight.grad = torch.full_like(model.weight, 1.0 if name == "a" else 3.0)
                sgd.step()
                if name == "b":
                    commit, m.should_commit = m.should_commit, lambda: interrupted.wait(trainers.PATIENCE) and commit()
                    local.sync()
                else:
                    with interrupts(m, _lib.COMMIT), pytest.raises(KeyboardInterrupt):
                        local.sync()
                    interrupted.set()
                    local.sync()
                met.wait()
            return model.weight.item()

    out = []
    thread = threading.Thread(target=lambda: out.append(run("b")))
    thread.start()
    out.append(run("a"))
    thread.join()
    assert out == [-1, -1]


def test_an_update_that_raises_ends_training(lighthouse):
    model = torch.nn.Linear(1, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    with manager(lighthouse, "mine", state={"model": model}) as m:
        opt = skerry.Optimizer(m, sgd)
        opt.zero_grad()

        def full(*_):
            raise MemoryError("full")

        sgd.register_step_pre_hook(full)
        with pytest.raises(MemoryError):
            opt.step()
        assert not m.holds_state()
        for call in (opt.zero_grad, m.state_dict):
            with pytest.raises(RuntimeError, match="a step is committed, and its update raised MemoryError"):
                call()


def test_operations_that_nobody_can_do_discard_the_step(lighthouse):
    with manager(lighthouse, "mine") as m:
        m.start_quorum()
        with pytest.raises(TypeError, match="no average of torch.int64"):
            m.allreduce(torch.ones(1, dtype=torch.int64))
        m.allreduce(torch.ones(1).to(torch.float8_e4m3fn))  # nobody waits for it
        assert not m.should_commit()
        m.start_quorum()
        assert m.should_commit()


def test_verbs_of_the_managed_group_know_the_ranks(lighthouse):
    def body(name, m):
        m.start_quorum()
        rank, x = m.participating_rank(), torch.ones(1)
        opts = dist.ReduceOptions()
        opts.rootRank = 1
        m.group.reduce([x], opts).wait()
        i, o = torch.arange(2.0), torch.zeros(2)
        m.group.alltoall_base(o, i, [1, 1], [1, 1]).wait()
        assert m.should_commit()
        return rank, x.item(), o.tolist()

    out = sorted(trainers.both(lighthouse, body).values())
    assert [(r, o) for r, _, o in out] == [(0, [0, 0]), (1, [1, 1])] and out[1][1] == 2


def test_who_is_done_applies_what_the_others_do(lighthouse):
    def body(name, m):
        model = torch.nn.Linear(1, 1, bias=False)
        with torch.no_grad():
            model.weight.fill_(1)
        sgd = torch.optim.SGD(model.parameters(), lr=1.0)
        with (local := skerry.LocalSGD(m, model, sgd, sync_every=2)):
            for _ in range(4 if name == "a" else 8):
                model.weight.grad = torch.ones_like(model.weight)
                sgd.step()
            while m.current_step() < 4:  # a, which in finish might leave before the last round
                local.idle()
            m.finish(local.idle, linger=0)
        return model.weight.item()

    # Two rounds of two steps of both; then b alone makes two more, which count half.
    assert trainers.both(lighthouse, body, parity_every=1) == {"a": -5, "b": -5}


def test_rounds_beyond_the_last_change_nothing(lighthouse):
    with manager(lighthouse, "mine") as m:
        model = torch.nn.Linear(1, 1, bias=False)
        sgd = torch.optim.SGD(model.parameters(), lr=1.0)
        before = model.weight.item()
        with skerry.LocalSGD(m, model, sgd, sync_every=1, rounds=2) as local:
            for _ in range(4):
                model.weight.grad = torch.ones_like(model.weight)
                sgd.step()
        assert model.weight.item() == local._global["weight"].item() == pytest.approx(before - 2)


def test_inner_steps_in_the_compared_state_are_refused(lighthouse):
    model = torch.nn.Linear(1, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    with manager(lighthouse, "mine", state={"model": model}) as m:
        with pytest.raises(ValueError, match="state 'model' has the model's parameters"):
            skerry.LocalSGD(m, model, sgd, sync_every=1).__enter__()


def test_rounds_that_fail_again_and_again_pause(lighthouse, monkeypatch):
    model = torch.nn.Linear(1, 1)
    pauses, left = [], [False] * 12 + [True]
    with manager(lighthouse, "mine") as m:
        local = skerry.LocalSGD(m, model, torch.optim.SGD(model.parameters(), lr=1.0), sync_every=1)
        monkeypatch.setattr(local, "_try", lambda: left.pop(0))
        monkeypatch.setattr(time, "sleep", pauses.append)
        local.sync()
        monkeypatch.undo()
    assert pauses[0] == 0 and pauses == sorted(pauses) and pauses[-1] == 0.5


def test_tensors_that_change_their_shape_heal(lighthouse):
    def step(m, kept):
        m.start_quorum()
        if m.should_commit():
            kept["x"] = torch.cat([kept["x"], torch.ones(1)])
        return len(kept["x"])

    theirs, mine = ({"x": torch.zeros(0)} for _ in range(2))
    with trainer(lighthouse, {"kept": Kept(theirs)}, lambda m: step(m, theirs)):
        with manager(lighthouse, "newcomer", state={"kept": Kept(mine)}) as m:
            while not m.is_participating() or m.current_step() < 6:
                step(m, mine)
            assert len(mine["x"]) == m.current_step()


def test_moments_keep_their_dtype():
    """torch gives an optimizer's tensors the dtype of their parameter when it loads them."""
    model = torch.nn.Linear(2, 2, dtype=torch.bfloat16)
    nadam = torch.optim.NAdam(model.parameters())
    model(torch.ones(1, 2, dtype=torch.bfloat16)).sum().backward()
    nadam.step()
    tree = nadam.state_dict()
    want = {k: t.dtype for k, t in tree["state"][0].items()}
    assert torch.float32 in want.values()
    _parts._load_optimizer(nadam, tree)
    assert {k: t.dtype for k, t in nadam.state[model.weight].items()} == want


def test_the_same_memory_in_another_order_is_another_tensor():
    model = torch.nn.Linear(3, 3, bias=False)
    part = _parts.of("model", model)[0]
    memory = model.weight.data
    part.load({"weight": memory.t()})  # as who has the weights the other way round sends them
    assert torch.equal(model.weight.data, memory) and memory.data_ptr() == model.weight.data_ptr()
    before = memory.clone()
    part.load({"weight": memory.t()})
    assert torch.equal(model.weight.data, before.t())


def test_numbers_stay_when_it_is_closed(lighthouse):
    with manager(lighthouse, "mine") as m:
        m.load_state_dict({"step": 7, "batches_committed": 9, "cluster": "c", "quorum_id": 3})
        assert m.state_dict() == {"step": 7, "batches_committed": 9, "cluster": "c", "quorum_id": 3}
        with pytest.raises(RuntimeError, match="wait_quorum before the first start_quorum"):
            m.wait_quorum()
        m.start_quorum()
        assert m.should_commit()
        said = m.state_dict()
    assert m.state_dict() == said and m.current_step() == 8
    with pytest.raises(skerry.Closed):
        m.start_quorum()


def test_finish_before_any_step(lighthouse):
    """A job that comes back from a file with all its steps done."""
    with manager(lighthouse, "mine") as m:
        m.load_state_dict({"step": 7, "batches_committed": 9})

        def step():
            m.start_quorum()
            m.should_commit()

        m.finish(step, linger=0)
        assert m.current_step() >= 7


def test_a_manager_lives_until_its_shutdown(lighthouse):
    """Others may read its tensors."""
    m = manager(lighthouse, "mine")
    m.start_quorum()
    ref = weakref.ref(m)
    del m
    gc.collect()
    assert ref() is not None
    ref().shutdown()
    gc.collect()
    assert ref() is None


def test_sigterm_is_a_forked_childs_own(lighthouse):
    with manager(lighthouse, "mine", drain_on_sigterm=True) as m:
        m.start_quorum()
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(w, b"forked")
            time.sleep(60)
            os._exit(0)
        os.close(w)
        assert os.read(r, 6) == b"forked"
        os.close(r)
        os.kill(pid, signal.SIGTERM)
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGTERM
        with manager(lighthouse, "second", job="another", drain_on_sigterm=True) as second:
            second.start_quorum()
            os.kill(os.getpid(), signal.SIGTERM)
            for one in (m, second):
                with pytest.raises(skerry.Drained):
                    while True:
                        one.should_commit()
                        one.start_quorum()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_variables_that_are_gone_are_gone(lighthouse, monkeypatch):
    for job in ("first", None):
        monkeypatch.setenv("SKERRY_JOB", job) if job else monkeypatch.delenv("SKERRY_JOB")
        with manager(lighthouse, "mine") as m:
            m.start_quorum()
        assert ("SKERRY_JOB" in subprocess.check_output(["env"], text=True)) == bool(job)
