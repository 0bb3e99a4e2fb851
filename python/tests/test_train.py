"""What PyTorch builds on a group: DDP, FSDP2, DTensor, functional collectives; the same bytes as over Gloo."""

import hashlib

import pytest
import torch
import torch.distributed as dist

import skerry  # noqa: F401

STEPS = 10


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))


def train(net, rank):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(100 + rank)
    for _ in range(STEPS):
        optimizer.zero_grad()
        x = torch.randn(8, 16, generator=generator)
        net(x).square().mean().backward()
        optimizer.step()


def digest(tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().contiguous().numpy().tobytes())
    return h.hexdigest()


def ddp(rank, size):
    """DDP by Skerry, then by Gloo, in one process: two ranks add in either order to the same bits."""
    out = []
    for group in (dist.group.WORLD, dist.new_group(list(range(size)), backend="gloo")):
        net = model()
        wrapped = torch.nn.parallel.DistributedDataParallel(net, process_group=group, bucket_cap_mb=0.01)
        train(wrapped, rank)
        out.append(digest(net.parameters()))
    dist.barrier()
    return out


def test_ddp_is_gloos(world):
    out = world(2, ddp).get()
    assert out[0] == out[1] and out[0][0] == out[0][1], out


def fsdp(rank, size):
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    plain = model()
    one = [p.detach().clone() for p in plain.parameters()]
    mesh = DeviceMesh.from_group(dist.group.WORLD, "cpu")
    net = model()
    for layer in net:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    train(net, rank)
    whole = [p.full_tensor() for p in net.parameters()]
    assert any(not torch.equal(a, b) for a, b in zip(one, whole))
    reference = torch.nn.parallel.DistributedDataParallel(plain)
    train(reference, rank)
    for a, b in zip(plain.parameters(), whole):
        torch.testing.assert_close(a, b)
    dist.barrier()
    return digest(whole)


def test_fsdp2_is_ddps(world):
    out = world(2, fsdp).get()
    assert out[0] == out[1]


def functional(rank, size):
    import torch.distributed._functional_collectives as f
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    group = dist.group.WORLD
    x = torch.full((4,), float(rank + 1))
    assert f.all_reduce(x, "sum", group).tolist() == [sum(range(1, size + 1))] * 4
    assert f.all_gather_tensor(x, 0, group).tolist() == [float(r + 1) for r in range(size) for _ in range(4)]
    assert f.reduce_scatter_tensor(torch.arange(4.0 * size), "sum", 0, group)[0] == size * 4 * rank
    mesh = DeviceMesh.from_group(group, "cpu")
    whole = torch.arange(12.0).reshape(6, 2)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal((sharded * 2).redistribute(mesh, [Replicate()]).to_local(), whole * 2)
    compiled = torch.compile(lambda t: f.all_reduce(t * 2, "sum", group) + 1, backend="aot_eager")
    assert compiled(x).tolist() == [2.0 * sum(range(1, size + 1)) + 1] * 4
    dist.barrier()


@pytest.mark.parametrize("size", [2, 3])
def test_functional_collectives(world, size):
    world(size, functional).get()
