"""Replicas of several ranks each: FSDP2 shards the model over the ranks of a replica, a Manager in each rank
averages its shard's gradients over the replicas. Any replica may be killed; start it again and it heals, shard by shard.

    skerry-lighthouse --bind 127.0.0.1:29510 &
    REPLICA_GROUP_ID=a torchrun --nproc-per-node 2 --master-port 29601 fsdp2.py &
    REPLICA_GROUP_ID=b torchrun --nproc-per-node 2 --master-port 29602 fsdp2.py &
"""

import argparse
import ctypes
import hashlib
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import skerry


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lighthouse", default=os.environ.get("SKERRY_LIGHTHOUSE", "127.0.0.1:29510"))
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--step-time", type=float, default=0.0, help="seconds that a step takes at least")
    p.add_argument("--linger", type=float, default=3.0)
    o = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("skerry")  # the ranks of this replica
    rank = dist.get_rank()

    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))  # else it is of the GPUs, where there are any
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    adam = torch.optim.AdamW(model.parameters(), lr=1e-2)

    # RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT of torchrun tell it of the other ranks.
    m = skerry.Manager(lighthouse=o.lighthouse, state={"model": model, "adam": adam})
    opt = skerry.Optimizer(m, adam, steps=o.steps)

    def step():
        began = time.monotonic()
        opt.zero_grad()
        number = m.current_step() * 1000 + (m.participating_rank() or 0) * 10 + rank
        x = torch.randn(32, 16, generator=torch.Generator().manual_seed(number))
        try:
            loss = (model(x) - x.square().sum(1, keepdim=True)).square().mean()
            loss.backward()
        except skerry.Aborted as e:  # another rank of this replica has left: should_commit says why
            m.report_error(e)
            m.should_commit()
            return
        for work in [m.allreduce(p.grad.to_local()) for p in model.parameters()]:
            work.wait()
        time.sleep(max(0.0, o.step_time - (time.monotonic() - began)))
        if opt.step() and rank == 0:
            print(f"step {m.current_step()} loss {loss.item():.4f} with {m.num_participants()} at {m.current_step()} sha {sha(model)}", flush=True)

    with m:
        try:
            while m.current_step() < o.steps:
                step()
            m.finish(step, o.linger)
        except skerry.Drained:
            print("drained", flush=True)
    dist.destroy_process_group()


def sha(model):
    """What this rank's shards are: the same in all replicas after each step."""
    h = hashlib.sha256()
    for p in model.parameters():
        own = p.to_local()
        h.update(ctypes.string_at(own.data_ptr(), own.nbytes))
    return h.hexdigest()[:12]


if __name__ == "__main__":
    main()
