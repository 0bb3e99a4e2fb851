"""Every verb of torch.distributed, against what torch computes of all ranks' inputs."""

import pytest
import torch
import torch.distributed as dist

import skerry  # noqa: F401

DTYPES = [
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
]
OPS = {
    dist.ReduceOp.SUM: lambda all: all.sum(0), dist.ReduceOp.PRODUCT: lambda all: all.prod(0),
    dist.ReduceOp.MIN: lambda all: all.min(0).values, dist.ReduceOp.MAX: lambda all: all.max(0).values,
}


def given(rank, dtype=torch.float32, shape=(3, 5)):
    """A rank's input: small numbers, of which sums and products are exact in every dtype."""
    n = torch.Size(shape).numel()
    return ((torch.arange(n) + rank) % 3 + 1).to(dtype).reshape(shape)


def all_given(size, *args):
    return torch.stack([given(r, *args).to(torch.float64) for r in range(size)])


def same(got, want):
    assert torch.equal(got.to(torch.float64), want.to(torch.float64)), (got, want)


def reductions(rank, size):
    for dtype in DTYPES:
        for op, reference in OPS.items():
            x = given(rank, dtype)
            dist.all_reduce(x, op)
            same(x, reference(all_given(size, dtype)))
    x = given(rank)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    assert torch.allclose(x.double(), all_given(size).mean(0))
    for root in range(size):
        x = given(rank)
        dist.reduce(x, root)
        if rank == root:
            same(x, all_given(size).sum(0))
    b = torch.tensor([rank == 0, True, False])
    dist.all_reduce(b, dist.ReduceOp.MAX)
    assert b.tolist() == [True, True, False]
    work = dist.all_reduce(x := given(rank), async_op=True)
    assert work.wait() and work.is_completed()
    same(x, all_given(size).sum(0))
    future = dist.all_reduce(x := given(rank), async_op=True).get_future()
    same(future.then(lambda f: f.value()[0] * 2).wait(), 2 * all_given(size).sum(0))
    with dist._coalescing_manager(async_ops=True) as several:
        many = [given(rank), given(rank, torch.float32, (7,))]
        for t in many:
            dist.all_reduce(t)
    several.wait()
    same(many[1], all_given(size, torch.float32, (7,)).sum(0))


def moves(rank, size):
    every = all_given(size)
    for root in range(size):
        x = given(rank)
        dist.broadcast(x, root)
        same(x, every[root])
        outs = [torch.empty(3, 5) for _ in range(size)] if rank == root else None
        dist.gather(given(rank), outs, root)
        if rank == root:
            same(torch.stack(outs), every)
        out = torch.empty(3, 5)
        dist.scatter(out, [given(r) for r in range(size)] if rank == root else None, root)
        same(out, every[rank])
    outs = [torch.empty(3, 5) for _ in range(size)]
    dist.all_gather(outs, given(rank))
    same(torch.stack(outs), every)
    out = torch.empty(3 * size, 5)
    dist.all_gather_into_tensor(out, given(rank))
    same(out, every.reshape(-1, 5))
    out = torch.empty(3, 5)
    dist.reduce_scatter(out, [given(r + rank) for r in range(size)])
    want = sum(given(rank + r).double() for r in range(size))
    same(out, want)
    out = torch.empty(2, 5)
    whole = given(rank, torch.float32, (2 * size, 5))
    dist.reduce_scatter_tensor(out, whole)
    same(out, all_given(size, torch.float32, (2 * size, 5)).sum(0)[2 * rank : 2 * rank + 2])
    outs = [torch.empty(3, 5) for _ in range(size)]
    dist.all_to_all(outs, [given(10 * rank + r) for r in range(size)])
    for r in range(size):
        same(outs[r], given(10 * r + rank))
    # Rank r sends r + 1 rows to each.
    out = torch.empty(sum(r + 1 for r in range(size)), 4)
    mine = torch.full(((rank + 1) * size, 4), float(rank))
    dist.all_to_all_single(out, mine, [r + 1 for r in range(size)], [rank + 1] * size)
    same(out[:, 0], torch.tensor([float(r) for r in range(size) for _ in range(r + 1)]))
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * 100 * rank})
    assert [o["rank"] for o in objects] == list(range(size))
    told = [f"of {rank}"]
    dist.broadcast_object_list(told, src=size - 1)
    assert told == [f"of {size - 1}"]
    dist.barrier()
    skerry.monitored_barrier()


def messages(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    out = torch.empty(3, 5)
    sent = dist.isend(given(rank), right, tag=7)
    assert dist.recv(out, left, tag=7) == left
    sent.wait()
    same(out, given(left))
    ops = [dist.P2POp(dist.isend, given(rank), right), dist.P2POp(dist.irecv, out, left)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    same(out, given(left))
    if rank == 0:
        seen = {dist.recv(out) for _ in range(size - 1)}
        assert seen == set(range(1, size)), seen
    else:
        dist.send(given(rank), 0)


def groups(rank, size):
    low = dist.new_group(list(range(2)))
    own = [dist.new_group([r]) for r in range(size)][rank]
    skerry.monitored_barrier(low)
    if rank < 2:
        x = given(rank)
        dist.all_reduce(x, group=low)
        same(x, all_given(2).sum(0))
        assert dist.get_world_size(low) == 2
    x = given(rank)
    dist.all_reduce(x, group=own)
    same(x, given(rank))


def refusals(rank, size):
    for bad, word in (
        (torch.ones(4, 4)[:, :2], "contiguous"), (torch.eye(3).to_sparse_csr(), "layout"), (torch.ones(2, device="meta"), "meta"),
        (torch.ones(2, dtype=torch.complex64), "complex"),
    ):
        with pytest.raises((ValueError, RuntimeError), match=word):
            dist.all_reduce(bad, dist.ReduceOp.MAX)
    with pytest.raises(ValueError, match="splits"):
        dist.all_to_all_single(torch.ones(size), torch.ones(size), [0] * size, [1] * size)
    x = given(rank)
    dist.all_reduce(x)  # none of it has broken the group
    same(x, all_given(size).sum(0))


def orders(rank, size):
    """Memory in another order that is the same on all ranks, as channels_last is."""
    images = torch.full((2, 3, 4, 5), float(rank + 1)).to(memory_format=torch.channels_last)
    dist.all_reduce(images)
    assert images.stride()[1] == 1
    same(images.contiguous(), torch.full((2, 3, 4, 5), 3.0))
    matrix = torch.arange(6.0).view(2, 3).t() if rank == 0 else torch.zeros(2, 3).t()
    dist.broadcast(matrix, 0)
    same(matrix.contiguous(), torch.arange(6.0).view(2, 3).t().contiguous())
    for rows in ([torch.zeros(3, 2), torch.zeros(2, 3).t()], [torch.zeros(3, 4)[:, :2], torch.zeros(3, 2)]):
        dist.all_gather(rows, matrix)  # here any memory will do: it is copied
        assert all(torch.equal(r, matrix) for r in rows)
        dist.gather(matrix + 1, rows if rank == 1 else None, 1)
        assert all(torch.equal(r, matrix + rank) for r in rows)
    with pytest.raises(ValueError, match="contiguous"):
        dist.scatter(matrix, [matrix, matrix] if rank == 0 else None, 0)


def sparse(rank, size):
    """Sums of sparse tensors, whose ranks may have other numbers of entries, and none."""

    def given(r, rows):
        at = torch.arange(rows) * (r + 1) % 5
        return torch.sparse_coo_tensor(at[None], torch.full((rows, 3), r + 1.0), (5, 3))

    for rows in (lambda r: 0, lambda r: r, lambda r: 4):
        want = sum(given(r, rows(r)).to_dense() for r in range(size))
        dist.all_reduce(x := given(rank, rows(rank)))
        same(x.to_dense(), want)
        future = dist.all_reduce(x := given(rank, rows(rank)), async_op=True).get_future()
        same(future.then(lambda f: f.value()[0].to_dense()).wait(), want)
    with pytest.raises(ValueError, match="layout"):
        dist.all_reduce(x, dist.ReduceOp.MAX)
    torch.manual_seed(0)
    words = torch.nn.Embedding(10, 3, sparse=True)
    model = torch.nn.parallel.DistributedDataParallel(words)
    for _ in range(3):
        model(torch.tensor([rank, 5])).sum().backward()
        want = torch.zeros(10, 3)
        want[:size] = 1 / size
        want[5] = 1
        assert torch.allclose(words.weight.grad.to_dense(), want)
        words.weight.grad = None


def by_hand(rank, size):
    """The group's own methods, which take a tensor for a list of one, and a root or an operation for options."""
    group = dist.group.WORLD
    group.allreduce(x := given(rank)).wait()
    same(x, all_given(size).sum(0))
    group.allreduce(x := given(rank), op=dist.ReduceOp.MAX).wait()
    same(x, all_given(size).max(0).values)
    group.broadcast(x := given(rank), root=1).wait()
    same(x, given(1))
    group.reduce(x := given(rank), root=1).wait()
    same(x, all_given(size).sum(0) if rank == 1 else given(rank))
    outs = [torch.empty(3, 5) for _ in range(size)]
    assert group.allgather(outs, given(rank)).get_future().wait() == outs
    same(torch.stack(outs), all_given(size))
    group.gather(outs if rank == 1 else [], given(rank + 1), root=1).wait()
    same(outs[0], given(1) if rank == 1 else given(0))
    group.scatter(out := torch.empty(3, 5), outs if rank == 1 else [], root=1).wait()
    same(out, given(rank + 1))
    group.reduce_scatter(out, outs, op=dist.ReduceOp.MAX).wait()
    group.alltoall(outs, outs).wait()
    group.allreduce_coalesced([x, x]).wait()
    with pytest.raises(ValueError, match="invalid root rank 2 of 2"):
        group.broadcast(x, root=size)
    with pytest.raises(ValueError, match="non-empty"):
        group.allreduce([])


def bools(rank, size):
    for op, want in ((dist.ReduceOp.SUM, [True, True, False]), (dist.ReduceOp.PRODUCT, [True, False, False])):
        x = torch.tensor([True, rank == 0, False])
        dist.all_reduce(x, op)
        assert x.tolist() == want, op


def futures(rank, size):
    """A receive that nobody has sent for holds up no other future, and a callback may wait for one."""
    late = dist.irecv(torch.zeros(1), 1 - rank, tag=7).get_future()
    x = torch.ones(1)
    assert dist.all_reduce(x, async_op=True).get_future().then(
        lambda _: dist.all_reduce(x, async_op=True).get_future().wait()
    ).wait()[0] is x
    assert x.item() == 4 and not late.done()
    dist.barrier()
    dist.send(torch.ones(1), 1 - rank, tag=7)
    late.wait()
    for _ in range(20):
        parts = [torch.full((1000,), float(i)) for i in range(30)]
        waits = [dist.all_reduce(p, async_op=True).get_future().then(lambda f: f.value()[0][0].item()) for p in parts]
        assert [w.wait() for w in waits] == [2.0 * i for i in range(30)]


def profiles(rank, size):
    """A profiler sees each operation once, with its shapes, and as one that ends in another thread."""
    x, rows = torch.ones(2, 3), [torch.empty(2, 3) for _ in range(size)]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as seen:
        dist.all_reduce(x)
        works = [dist.all_reduce(x, async_op=True) for _ in range(3)]
        called = works[-1].get_future().then(lambda f: f.value()[0].sum().item())
        for work in works:
            work.wait()
        dist.all_gather(rows, x)
        other = dist.isend(x, 1 - rank) if rank == 0 else dist.irecv(x, 1 - rank)
        other.wait()
        with pytest.raises(ValueError, match="contiguous"):
            dist.all_reduce(torch.ones(4, 4)[:, :2])
    assert called.wait() == 6 * size**4
    names = [e.name for e in seen.events() if e.name.startswith("skerry:")]
    assert names == ["skerry:all_reduce"] * 4 + ["skerry:all_gather", "skerry:recv" if rank else "skerry:send"], names
    assert all(e.is_async and e.input_shapes == [[2, 3]] for e in seen.events() if e.name in names)
    dist.barrier()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("body", [reductions, moves])
def test_collectives(world, body, size):
    world(size, body).get()


@pytest.mark.parametrize("body,size", [(messages, 2), (messages, 3), (groups, 3), (refusals, 2), (orders, 2), (bools, 2), (futures, 2), (profiles, 2), (sparse, 3), (by_hand, 2)])
def test_others(world, body, size):
    world(size, body).get()
