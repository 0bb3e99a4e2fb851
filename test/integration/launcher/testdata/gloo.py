"""Trains by PyTorch's own Gloo and its own DDP, and knows nothing of Skerry: the environment variables of
torchrun alone. A checkpoint after each step, as elastic programs of torchrun have it: a start goes on from it."""

import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    folder, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    dist.init_process_group("gloo")  # env://
    rank, world, start = dist.get_rank(), dist.get_world_size(), os.environ["TORCHELASTIC_RESTART_COUNT"]
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    sgd = torch.optim.SGD(ddp.parameters(), lr=0.1)
    kept, first = folder / f"replica-{os.environ['REPLICA_GROUP_ID']}.pt", 0
    if kept.exists():
        state = torch.load(kept)
        model.load_state_dict(state["model"])
        first = state["step"]
    dist.barrier()  # before rank 0 writes the next one
    print(f"start {start}: rank {rank} of {world} goes on from step {first}")
    for step in range(first, steps):
        torch.manual_seed(step * world + rank)
        x = torch.randn(32, 4)
        loss = ((ddp(x).squeeze(1) - x.sum(1)) ** 2).mean()
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        if rank == 0:
            torch.save({"model": model.state_dict(), "step": step + 1}, kept.with_suffix(".new"))
            kept.with_suffix(".new").rename(kept)
        if step % 10 == 9:
            print(f"start {start}: rank {rank} step {step + 1} loss {loss.item():.6f}")
        time.sleep(0.02)
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    print(f"start {start}: rank {rank} ends, weights {weights.numpy().tobytes().hex()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
