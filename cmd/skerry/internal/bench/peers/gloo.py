"""Gloo's side of `skerry bench allreduce`: one process per rank.

Reads tasks {"bytes": B, "iters": K} from rank 0's standard input and answers
{"seconds": S} there. Arguments: rank, world size, rendezvous file.
"""
import json
import sys
import time

import torch
import torch.distributed as dist


def main():
    rank, world, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=world)
    while True:
        order = torch.zeros(2, dtype=torch.int64)
        if rank == 0:
            line = sys.stdin.readline()
            if line:
                task = json.loads(line)
                order[0], order[1] = task["bytes"], task["iters"]
        dist.broadcast(order, 0)
        size, iters = int(order[0]), int(order[1])
        if size == 0:
            return
        buf = torch.zeros(size // 4, dtype=torch.float32)
        dist.all_reduce(buf)
        dist.barrier()
        start = time.perf_counter()
        for _ in range(iters):
            dist.all_reduce(buf)
        seconds = time.perf_counter() - start
        if rank == 0:
            print(json.dumps({"seconds": seconds}), flush=True)


main()
