"""Measures torch.distributed as bandwidth_test.go measures us.

  distributed.py RANK WORLD STORE_FILE BACKEND DEVICE COLLECTIVES SIZES WARMUPS ITERATIONS

BACKEND is nccl, on cuda:DEVICE, or gloo, on the CPU. Prints a line of JSON for
each measurement, behind "@skerry ", and one that tells the versions.
"""
import datetime
import json
import sys
import time

import torch
import torch.distributed as dist

rank, world, store_file, backend, device, collectives, sizes, warmups, iterations = sys.argv[1:]
rank, world, warmups, iterations = int(rank), int(world), int(warmups), int(iterations)
on_gpu = backend == "nccl"
place = torch.device("cuda", int(device)) if on_gpu else torch.device("cpu")
if on_gpu:
    torch.cuda.set_device(place)
dist.init_process_group(
    backend, init_method="file://" + store_file, rank=rank, world_size=world, timeout=datetime.timedelta(seconds=120)
)


def say(**record):
    print("@skerry " + json.dumps({"Rank": rank, **record}), flush=True)


def synchronize():
    if on_gpu:
        torch.cuda.synchronize()


def sendrecv(src, dst):
    ops = [
        dist.P2POp(dist.isend, src, (rank + 1) % world),
        dist.P2POp(dist.irecv, dst, (rank - 1) % world),
    ]
    return lambda: [work.wait() for work in dist.batch_isend_irecv(ops)]


def collective(name, elements):
    """What one iteration calls, or None if this backend has it not."""
    src, dst = torch.zeros(elements, device=place), torch.zeros(elements, device=place)
    part = elements // world
    if name == "all_reduce":
        return lambda: dist.all_reduce(src)
    if name == "broadcast":
        return lambda: dist.broadcast(dst, 0)
    if name == "reduce":
        return lambda: dist.reduce(src, 0)
    if name == "sendrecv":
        return sendrecv(src, dst)
    if not on_gpu:
        return None
    if name == "all_gather":
        return lambda: dist.all_gather_into_tensor(dst[: part * world], src[:part])
    if name == "reduce_scatter":
        return lambda: dist.reduce_scatter_tensor(dst[:part], src[: part * world])
    if name == "alltoall":
        return lambda: dist.all_to_all_single(dst[: part * world], src[: part * world])
    return None


version = "torch " + torch.__version__
if on_gpu:
    version += ", NCCL " + ".".join(map(str, torch.cuda.nccl.version()))
say(What="version", Value=version)
for size in map(int, sizes.split(",")):
    for name in collectives.split(","):
        call = collective(name, size // 4)
        if call is None:
            continue
        for _ in range(warmups):
            call()
        synchronize()
        dist.barrier()
        synchronize()
        began = time.perf_counter()
        for _ in range(iterations):
            call()
        synchronize()
        say(What=name, Bytes=size, Count=iterations, Seconds=(time.perf_counter() - began) / iterations)
dist.barrier()
dist.destroy_process_group()
