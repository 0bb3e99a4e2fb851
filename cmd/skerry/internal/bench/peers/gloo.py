"""Gloo's side of `skerry bench`: one process per rank.

Reads tasks {"bytes": B, "iters": K, "op": O} from rank 0's standard input and
answers {"seconds": S} there. Arguments: rank, world size, rendezvous file.
"""
import json
import sys
import time

import torch
import torch.distributed as dist

OPS = ["allreduce", "allgather", "alltoall", "broadcast", "new"]


def init(rank, world, path):
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=world)


def once(op, size, world):
    """What one iteration does; size is that of the whole tensor."""
    whole = torch.zeros(size // 4 // world * world or world, dtype=torch.float32)
    part = torch.zeros(len(whole) // world, dtype=torch.float32)
    if op == "allreduce":
        buf = torch.zeros(size // 4, dtype=torch.float32)
        return lambda: dist.all_reduce(buf)
    if op == "broadcast":
        return lambda: dist.broadcast(whole, 0)
    if op == "allgather":
        slots = list(whole.chunk(world))
        return lambda: dist.all_gather(slots, part)
    out = torch.zeros_like(whole)
    return lambda: dist.all_to_all_single(out, whole)


def main():
    rank, world, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    init(rank, world, path)
    groups = 0
    while True:
        order = torch.zeros(3, dtype=torch.int64)
        if rank == 0:
            line = sys.stdin.readline()
            if line:
                task = json.loads(line)
                order[0], order[1], order[2] = task["bytes"], task["iters"], OPS.index(task["op"])
        dist.broadcast(order, 0)
        size, iters, op = int(order[0]), int(order[1]), OPS[int(order[2])]
        if size == 0:
            return
        seconds = 0.0
        if op == "new":
            for _ in range(iters):
                groups += 1
                dist.barrier()
                dist.destroy_process_group()
                start = time.perf_counter()
                init(rank, world, "%s.%d" % (path, groups))
                dist.all_reduce(torch.zeros(1))
                seconds += time.perf_counter() - start
        else:
            run = once(op, size, world)
            run()
            dist.barrier()
            start = time.perf_counter()
            for _ in range(iters):
                run()
            seconds = time.perf_counter() - start
        if rank == 0:
            print(json.dumps({"seconds": seconds}), flush=True)


main()
