"""What torch.distributed does over Skerry and over Gloo, in turn, in the same processes.

    python python/bench.py [ranks]           # all-reduces of float32. SKERRY_LIBRARY, or the installed package
    python python/bench.py train [ranks]     # steps of DDP and FSDP2, and whether the parameters are the same
    python python/bench.py kills [times transport workers]
                                             # from the SIGKILL of one of three ranks to the others' exception, and to their
                                             # next all-reduce; of each rank workers are forked; transport: auto, tcp, gloo
    python python/bench.py endure [operations reconfigurations]
                                             # what is more behind them than before: descriptors, threads, works, MiB
"""

import hashlib
import json
import os
import signal
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SIZES = [("barrier", 0, 200), ("4 KiB", 4 << 10, 200), ("64 KiB", 64 << 10, 100), ("1 MiB", 1 << 20, 40), ("25 MiB", 25 << 20, 8)]
ROUNDS = 10
WIDTHS = (128, 512, 2048)  # of models of three layers: 34 k, 0.5 M and 8.4 M parameters


def both(rank, size, store):
    """The two groups of all ranks, by name."""
    import skerry  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("skerry", init_method=f"file://{store}", rank=rank, world_size=size)
    return {"skerry": dist.group.WORLD, "gloo": dist.new_group(list(range(size)), backend="gloo")}


def row(what, took, unit):
    """Prints the 10th and 50th percentiles of times in seconds."""
    p = {name: [sorted(t)[int(len(t) * q)] * unit for q in (0.1, 0.5)] for name, t in took.items()}
    digits = 0 if unit == 1e6 else 1
    gloo, skerry = (" / ".join(f"{x:,.{digits}f}" for x in p[name]) for name in ("gloo", "skerry"))
    print(f"| {what} | {gloo} | {skerry} | {p['gloo'][1] / p['skerry'][1]:.1f} |", flush=True)


def reduces(group, count, times):
    x = torch.ones(count)
    out = []
    for _ in range(times):
        began = time.perf_counter()
        if count:
            dist.all_reduce(x, group=group)
        else:
            dist.barrier(group)
        out.append(time.perf_counter() - began)
    return out


def allreduce(rank, size, store):
    groups = both(rank, size, store)
    for what, bytes, times in SIZES:
        took = {name: [] for name in groups}
        for turn in range(ROUNDS + 1):
            for name, group in groups.items():
                got = reduces(group, bytes // 4, times)
                if turn:  # the first is not counted
                    took[name] += got
        if rank == 0:
            row(what, took, 1e6)
    dist.destroy_process_group()


def model_of(kind, width, group):
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(7)
    linear, relu = torch.nn.Linear, torch.nn.ReLU
    model = torch.nn.Sequential(linear(width, width), relu(), linear(width, width), relu(), linear(width, 10))
    if kind == "DDP":
        return torch.nn.parallel.DistributedDataParallel(model, process_group=group)
    return fully_shard(model, mesh=DeviceMesh.from_group(group, "cpu"))


def steps(rank, model, optimizer, numbers):
    out = []
    width = next(iter(model.parameters())).shape[1]
    for n in numbers:
        x = torch.randn(16, width, generator=torch.Generator().manual_seed(n * 64 + rank))
        began = time.perf_counter()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        out.append(time.perf_counter() - began)
    return out


def digest(model):
    h = hashlib.sha256()
    for p in model.parameters():
        h.update(getattr(p, "full_tensor", lambda p=p: p)().detach().numpy().tobytes())
    return h.hexdigest()


def train(rank, size, store):
    groups = both(rank, size, store)
    for kind in ("DDP", "FSDP2"):
        for width in WIDTHS:
            models = {name: model_of(kind, width, group) for name, group in groups.items()}
            optimizers = {name: torch.optim.AdamW(m.parameters()) for name, m in models.items()}
            took = {name: [] for name in groups}
            for turn in range(ROUNDS + 1):
                for name in groups:
                    got = steps(rank, models[name], optimizers[name], range(turn * 10, turn * 10 + 10))
                    if turn:
                        took[name] += got
            same = len({digest(m) for m in models.values()}) == 1
            if rank == 0:
                row(f"{kind}, {width} wide, parameters {'the same' if same else 'DIFFER'}", took, 1e3)
    dist.destroy_process_group()


def dies(rank, size, store, seen, transport, workers):
    import skerry
    from skerry import _lib

    torch.set_num_threads(1)
    backend, options = ("gloo", None) if transport == "gloo" else ("skerry", {"transport": transport})
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=size, pg_options=options)
    told = dist.distributed_c10d._get_default_store()
    if rank == 0 and backend == "skerry":
        told.set("next", _lib.serve_store("127.0.0.1", "")[1])
    for _ in range(workers):
        if os.fork() == 0:  # as a DataLoader's, which looks every 5 s whether its parent lives
            time.sleep(5)
            os._exit(0)
    x = torch.ones(1 << 18)
    try:
        while True:
            dist.all_reduce(x.fill_(1))
            if rank == 1:
                seen.send(0)
    except (skerry.Aborted, RuntimeError):
        known = again = time.monotonic()
    if backend == "skerry":
        group = dist.group.WORLD
        group.configure(told.get("next").decode() + "/2", ["0", "2"], rank // 2, cluster="2")
        group.allreduce([x]).wait()
        again = time.monotonic()
    seen.send((known, again))
    time.sleep(60)  # until it is killed: who leaves would be noticed


def kills(times=10, transport="auto", workers=0):
    """Prints the medians and the longest times to know of a death, and to reduce again, in ms."""
    context, known, again = mp.get_context("spawn"), [], []
    for _ in range(times):
        with tempfile.TemporaryDirectory() as d:
            pipes = [context.Pipe(duplex=False) for _ in range(3)]
            ranks = [context.Process(target=dies, args=(r, 3, os.path.join(d, "store"), pipes[r][1], transport, workers)) for r in range(3)]
            for p in ranks:
                p.start()
            for _ in range(50):
                pipes[1][0].recv()
            killed = time.monotonic()
            os.kill(ranks[1].pid, signal.SIGKILL)
            for r in (0, 2):
                at = pipes[r][0].recv()
                known.append((at[0] - killed) * 1e3)
                again.append((at[1] - killed) * 1e3)
            for p in ranks:
                p.kill()
                p.join()
    said = [f"p50 {sorted(t)[len(t) // 2]:.1f} ms, max {max(t):.1f}" for t in (known, again)]
    print(f"{times} kills, {transport}, {workers} forked workers: known {said[0]}" + ("" if transport == "gloo" else f"; reduced again {said[1]}"))


def held(group):
    """What this process holds: descriptors, threads, works, MiB."""
    with open("/proc/self/statm") as f:
        mib = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), len(group._works), mib


def endure(rank, size, store, operations, reconfigurations):
    import skerry  # noqa: F401
    from skerry import _lib

    torch.set_num_threads(1)
    dist.init_process_group("skerry", init_method=f"file://{store}", rank=rank, world_size=size)
    group, told = dist.group.WORLD, dist.distributed_c10d._get_default_store()
    if rank == 0:
        told.set("next", _lib.serve_store("127.0.0.1", "")[1])
    meets, x = told.get("next").decode(), torch.ones(16)
    for n in range(1, reconfigurations + 1):
        group.configure(f"{meets}/{n}", [str(r) for r in range(size)], rank, cluster=f"c{n}")
        for _ in range(operations // reconfigurations // 2):
            dist.all_reduce(x.fill_(1))
            dist.all_reduce(x.fill_(1), async_op=True).get_future().wait()
        dist.barrier()
        if n == max(reconfigurations // 10, 1):
            before = held(group)
    after = held(group)
    if rank == 0:
        print(json.dumps({"operations": operations, "reconfigurations": reconfigurations} | {
            what: [a, b] for what, a, b in zip(("descriptors", "threads", "works", "MiB"), before, after)
        }))
    dist.barrier()
    dist.destroy_process_group()


def spawn(body, size, *args):
    with tempfile.TemporaryDirectory() as d:
        mp.spawn(body, (size, os.path.join(d, "store"), *args), nprocs=size)


if __name__ == "__main__":
    mode, *rest = sys.argv[1:] if sys.argv[1:2] and not sys.argv[1].isdigit() else ["allreduce", *sys.argv[1:]]
    if mode == "kills":
        kills(*(t(a) for t, a in zip((int, str, int), rest)))
    elif mode == "endure":
        spawn(endure, 2, *(int(a) for a in rest or (1_000_000, 1_000)))
    elif mode in ("allreduce", "train"):
        unit = "µs" if mode == "allreduce" else "ms"
        print(f"| | Gloo, p10 / p50 {unit} | Skerry | p50 |\n|---|---|---|---|", flush=True)
        spawn({"allreduce": allreduce, "train": train}[mode], int(rest[0]) if rest else 2)
    else:
        sys.exit(__doc__)
