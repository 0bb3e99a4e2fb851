"""DiLoCo of fragments, with delay and in eight bits; and what torchft's Manager has besides."""

import threading
import time

import pytest
import torch

import skerry

import trainers


def one(value=1.0):
    model = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(value)
    return model


def descend(name, models, sgd):
    """An inner step: a goes down by 1, b by 3."""
    for m in models:
        m.weight.grad = torch.full_like(m.weight, 1.0 if name == "a" else 3.0)
    sgd.step()


def of_fragments(m, fragments, rate=0.5, **options):
    parameters = [p for f in fragments for p in f.parameters()]
    inner = torch.optim.SGD(parameters, lr=1.0)
    outers = [torch.optim.SGD(f.parameters(), lr=rate) for f in fragments]
    return inner, skerry.DiLoCo(m, fragments, inner, outers, **options)


def test_fragments_take_turns(lighthouse):
    def body(name, m):
        models = one(), one()
        inner, local = of_fragments(m, models, sync_every=4, rounds=3)
        seen = []
        with local:
            for _ in range(6):
                descend(name, models, inner)
                seen.append(tuple(f.weight.item() for f in models))
            m.finish(local.idle, linger=0)
        return seen, [f.weight.item() for f in models]

    # A round has two inner steps. In the first, the first fragment's way is 4 on average: 1 - 0.5 * 4 = -1. In the second
    # the other's, of four steps, is 8: 1 - 4 = -3. In the third so is the first's: -1 - 4 = -5. Then both are the global ones.
    out = trainers.both(lighthouse, body, parity_every=1)
    assert out["a"] == ([(0, 0), (-1, -1), (-2, -2), (-3, -3), (-4, -4), (-5, -3)], [-5, -3])
    assert out["b"][0][3] == (-7, -3) and out["b"][1] == [-5, -3]


def test_a_round_is_reduced_beside_its_last_steps(lighthouse):
    def body(name, m):
        model, reduced = one(), []
        inner, local = of_fragments(m, [model], sync_every=3, fragment_sync_delay=1, fragment_update_alpha=0.25)
        with local:
            for _ in range(3):
                descend(name, [model], inner)
                reduced.append(local._round is not None)
            live, common = model.weight.item(), local._global["weight"].item()
            m.finish(local.idle, linger=0)
        return reduced, live, common

    # After two inner steps the way is 4 on average: the global one is 1 - 2 = -1. Live it is that, and a quarter of the way to
    # where the third step went: -2 and -8.
    out = trainers.both(lighthouse, body)
    assert out == {"a": ([False, True, False], -1.25, -1), "b": ([False, True, False], -2.75, -1)}


@pytest.mark.parametrize("format", [True, "fp8"])
def test_the_way_in_eight_bits(lighthouse, format):
    def body(name, m):
        torch.manual_seed(1)
        model = torch.nn.Linear(40, 30)
        before = model.weight.detach().clone()
        inner = torch.optim.SGD(model.parameters(), lr=1.0)
        outer = torch.optim.SGD(model.parameters(), lr=1.0)
        with (local := skerry.DiLoCo(m, model, inner, outer, sync_every=1, should_quantize=format)):
            model.weight.grad = torch.linspace(0, 1, 1200).view(30, 40) * (1 if name == "a" else 3)
            model.bias.grad = torch.zeros(30)
            inner.step()
            m.finish(local.idle, linger=0)
        return (before - model.weight).detach(), model.weight.detach().clone()

    out = trainers.both(lighthouse, body, parity_every=1)
    assert torch.equal(out["a"][1], out["b"][1])
    torch.testing.assert_close(out["a"][0], torch.linspace(0, 2, 1200).view(30, 40), rtol=0.07, atol=0.02)


def test_fragments_that_cannot_be_are_refused(lighthouse):
    a, b = one(), one()
    inner = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=1.0)
    outers = [torch.optim.SGD(f.parameters(), lr=1.0) for f in (a, b)]
    with skerry.Manager(replica_id="r", lighthouse=lighthouse.address) as m:
        for said, args, options in [
            ("sync_every = 3, want a multiple of the 2 fragments", ([a, b], inner, outers, 3), {}),
            ("fragment_sync_delay = 2, want 0 to 1", ([a, b], inner, outers, 4), {"fragment_sync_delay": 2}),
            ("fragment_update_alpha = 2, want 0 to 1", ([a, b], inner, outers, 4), {"fragment_update_alpha": 2}),
            ("1 outer optimizers, want one for each of 2", ([a, b], inner, outers[0], 4), {}),
            ("outer optimizer 0 has other parameters", ([a, b], inner, outers[::-1], 4), {}),
            ("parameter in common", ([a, a], inner, [outers[0]] * 2, 4), {}),
        ]:
            with pytest.raises(ValueError, match=said):
                skerry.DiLoCo(m, *args, **options)


def test_a_loop_that_ends_inside_a_round_finishes(lighthouse):
    """Behind a round's reduction, and before its end."""

    def body(name, m):
        model = one()
        inner, local = of_fragments(m, [model], sync_every=4, fragment_sync_delay=2)
        with local:
            for _ in range(7):
                descend(name, [model], inner)
            m.finish(local.idle, linger=0)
        return model.weight.item()

    out = trainers.both(lighthouse, body)
    assert out["a"] == out["b"]


def test_frozen_parameters_need_no_outer_optimizer(lighthouse):
    model = torch.nn.Sequential(one(), one())
    model[1].weight.requires_grad_(False)
    trained = [p for p in model.parameters() if p.requires_grad]
    with skerry.Manager(replica_id="r", lighthouse=lighthouse.address) as m:
        skerry.DiLoCo(m, model, torch.optim.SGD(trained, lr=1.0), torch.optim.SGD(trained, lr=1.0), sync_every=1)


def test_a_future_of_eight_bits_discards_nothing(lighthouse):
    """The thread that sets it and the one that commits ask the library for the same operation."""

    def body(name, m):
        commits = 0
        for _ in range(40):
            m.start_quorum()
            future = m.allreduce(torch.ones(5), should_quantize=True).get_future()
            commits += m.should_commit()
            future.wait()
        return commits

    assert trainers.both(lighthouse, body) == {"a": 40, "b": 40}


def test_sums_of_sparse_tensors_are_not_managed(lighthouse):
    def body(name, m):
        m.start_quorum()
        with pytest.raises(ValueError, match="layout"):
            m.group.allreduce([torch.eye(3).to_sparse()]).wait()
        return True

    assert trainers.both(lighthouse, body) == {"a": True, "b": True}


def test_a_reduction_in_eight_bits(lighthouse):
    """Whatever comes behind it waits for it; what no replica can do is raised, and discards the step."""

    def body(name, m):
        m.start_quorum()
        x, y = torch.full((1000,), 1.0 if name == "a" else 3.0), torch.ones(3)
        works = [m.allreduce(x, should_quantize=True), m.allreduce(y, torch.distributed.ReduceOp.SUM)]
        values = [w.get_future().wait()[0].item() for w in works]
        committed = m.should_commit()
        m.start_quorum()
        with pytest.raises(NotImplementedError, match="quantised"):
            m.allreduce(torch.ones(3, dtype=torch.float64), should_quantize="fp8").wait()
        with pytest.raises(ValueError, match="should_quantize = 'int4', want True, False or one of int8, fp8"):
            m.allreduce(x, should_quantize="int4")
        return values, committed, m.should_commit()

    assert trainers.both(lighthouse, body) == {n: ([pytest.approx(2, rel=0.02), 2.0], True, False) for n in "ab"}


def test_a_wrapped_future_never_fails(lighthouse):
    with skerry.Manager(replica_id="r", lighthouse=lighthouse.address) as m:
        with pytest.raises(RuntimeError, match="before the first start_quorum"):
            m.wrap_future(torch.futures.Future(), None)
        m.start_quorum()
        good, bad, late = (torch.futures.Future() for _ in range(3))
        wrapped = m.wrap_future(good, 0)
        good.set_result(5)
        assert wrapped.wait() == 5 and m.errored() is None
        wrapped = m.wrap_future(bad, 7)
        bad.set_exception(RuntimeError("boom"))
        assert wrapped.wait() == 7 and "boom" in m.errored()
        assert not m.should_commit()
        m.start_quorum()
        assert m.wrap_future(late, 9, timeout=0.05).wait() == 9 and "no value after 0.05 s" in m.errored()
        late.set_result(1)  # too late: nothing
        assert not m.should_commit()


def test_torchfts_older_name_for_a_state(lighthouse):
    held = {}

    def late(name):
        state = {"n": torch.tensor([0 if name == "b" else 41])}
        with skerry.Manager(replica_id=name, lighthouse=lighthouse.address, min_replica_size=1) as m:
            m.set_state_dict_fns(lambda s: state.update(s), lambda: state)
            while m.num_participants() < 2 or m.current_step() < 3:
                m.start_quorum()
                if m.should_commit() and name == "a" and m.current_step() == 1:
                    first.set()
                time.sleep(0.002)
            held[name] = state["n"].item()
            m.finish(lambda: (m.start_quorum(), m.should_commit()), linger=0)

    first = threading.Event()
    a = threading.Thread(target=late, args=("a",))
    a.start()
    assert first.wait(trainers.PATIENCE)
    late("b")
    a.join()
    assert held == {"a": 41, "b": 41}
