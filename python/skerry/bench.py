"""What torch.distributed does over Skerry and over Gloo, in turn, in the same processes: `skerry bench python`.

    python -m skerry.bench allreduce [--ranks 2] [--bytes 4096,1048576] [--rounds 10] [--gloo]
    python -m skerry.bench train     the same: steps of DDP and FSDP2, and whether the parameters are the same
    python -m skerry.bench kills     from the SIGKILL of one of three ranks to the others' exception, and to their next
                                     all-reduce: [--rounds 10] [--workers 2] forked in each rank [--gloo]
    python -m skerry.bench endure    what is more behind a million operations and a thousand reconfigurations than before:
                                     descriptors, threads, works, MiB [--operations N] [--reconfigurations N]
    python -m skerry.bench starve    how often a rank is accused in so many --seconds, while --spin processes want the
                                     processors, too; the load is the system's in each minute

Each prints a row as a line of JSON: {"op", "impl", "n", …, "took_ms": [each sample]}. The library is the package's, or SKERRY_LIBRARY.
"""

import argparse
import ctypes
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

SIZES = [0, 4 << 10, 64 << 10, 1 << 20, 25 << 20]  # bytes; 0: a barrier
WIDTHS = (128, 512, 2048)  # of models of three layers: 34 k, 0.5 M and 8.4 M parameters


def groups_of(rank, size, store, gloo):
    """The groups of all ranks, by name."""
    import skerry  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("skerry", init_method=f"file://{store}", rank=rank, world_size=size)
    ours = {"skerry": dist.group.WORLD}
    return ours | {"gloo": dist.new_group(list(range(size)), backend="gloo")} if gloo else ours


def row(op, impl, took, **parameters):
    """Prints what an implementation took, in seconds, as a line."""
    print(json.dumps({"op": op, "impl": impl, **parameters, "took_ms": [t * 1e3 for t in took]}), flush=True)


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


def allreduce(rank, size, store, args):
    groups = groups_of(rank, size, store, args.gloo)
    for bytes in args.bytes or SIZES:
        times = min(max((200 << 20) // max(bytes, 1 << 20), 8), 200)  # 25 MiB: 8, 1 MiB and less: 200
        took = {name: [] for name in groups}
        for turn in range(args.rounds + 1):
            for name, group in groups.items():
                got = reduces(group, bytes // 4, times)
                if turn:  # the first is not counted
                    took[name] += got
        if rank == 0:
            for name in groups:
                row("allreduce" if bytes else "barrier", name, took[name], n=size, bytes=bytes)
    dist.destroy_process_group()


def model_of(kind, width, group):
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(7)
    linear, relu = torch.nn.Linear, torch.nn.ReLU
    model = torch.nn.Sequential(linear(width, width), relu(), linear(width, width), relu(), linear(width, 10))
    if kind == "ddp":
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
        whole = getattr(p, "full_tensor", lambda p=p: p)().contiguous()
        h.update(ctypes.string_at(whole.data_ptr(), whole.nbytes))
    return h.hexdigest()


def train(rank, size, store, args):
    groups = groups_of(rank, size, store, args.gloo)
    for kind in ("ddp", "fsdp2"):
        for width in WIDTHS:
            models = {name: model_of(kind, width, group) for name, group in groups.items()}
            optimizers = {name: torch.optim.AdamW(m.parameters()) for name, m in models.items()}
            took = {name: [] for name in groups}
            for turn in range(args.rounds + 1):
                for name in groups:
                    got = steps(rank, models[name], optimizers[name], range(turn * 10, turn * 10 + 10))
                    if turn:
                        took[name] += got
            digests = {name: digest(m) for name, m in models.items()}
            if rank == 0:
                same = {"bytes_as_gloo": digests["skerry"] == digests["gloo"]} if args.gloo else {}
                for name in groups:
                    parameters = sum(p.numel() for p in models[name].parameters())
                    row(kind, name, took[name], n=size, parameters=parameters, **(same if name == "skerry" else {}))
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


def kills(args):
    """How long the others take to know of a death, and to reduce again."""
    for transport in ["auto", "tcp"] + ["gloo"] * args.gloo:
        known, again = [], []
        for _ in range(args.rounds):
            at = kill(transport, args.workers)
            known += [k for k, _ in at]
            again += [a for _, a in at]
        impl = {"auto": "skerry", "tcp": "skerry-tcp", "gloo": "gloo"}[transport]
        row("known", impl, known, n=3, workers=args.workers)
        if transport != "gloo":  # whose groups are not made anew
            row("reduced-again", impl, again, n=3, workers=args.workers)


def kill(transport, workers):
    """From the death of rank 1 of three, in seconds: each survivor's (known, reduced again)."""
    context = mp.get_context("spawn")
    with tempfile.TemporaryDirectory() as d:
        pipes = [context.Pipe(duplex=False) for _ in range(3)]
        ranks = [context.Process(target=dies, args=(r, 3, os.path.join(d, "store"), pipes[r][1], transport, workers)) for r in range(3)]
        for p in ranks:
            p.start()
        for _, into in pipes:
            into.close()  # else the end of a rank is not seen
        try:
            for _ in range(50):
                pipes[1][0].recv()
            killed = time.monotonic()
            os.kill(ranks[1].pid, signal.SIGKILL)
            return [tuple(t - killed for t in pipes[r][0].recv()) for r in (0, 2)]
        finally:
            for p in ranks:
                p.kill()
                p.join()


def held(group):
    """What this process holds: descriptors, threads, works, MiB."""
    with open("/proc/self/statm") as f:
        mib = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), len(group._works), mib


def endure(rank, size, store, args):
    import skerry  # noqa: F401
    from skerry import _lib

    torch.set_num_threads(1)
    dist.init_process_group("skerry", init_method=f"file://{store}", rank=rank, world_size=size)
    group, told = dist.group.WORLD, dist.distributed_c10d._get_default_store()
    if rank == 0:
        told.set("next", _lib.serve_store("127.0.0.1", "")[1])
    meets, x = told.get("next").decode(), torch.ones(16)
    operations, reconfigurations = args.operations, args.reconfigurations
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
        more = dict(zip(("descriptors", "threads", "works", "mib"), zip(before, after)))
        print(json.dumps({"op": "endure", "operations": operations, "reconfigurations": reconfigurations, **more}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def spin():
    while True:
        pass


def starve(rank, size, store, args):
    """All-reduces of 1 MiB, in turn with pauses, as a trainer's, until the time is over. Who is accused lives."""
    import skerry

    torch.set_num_threads(1)
    dist.init_process_group("skerry", init_method=f"file://{store}", rank=rank, world_size=size)
    x, left, loads, reduced = torch.ones(1 << 18), torch.ones(1), [], 0
    began = looked = time.monotonic()
    wrong = None
    try:
        while left[0] == 1:
            dist.all_reduce(x.fill_(1))
            reduced += 1
            if rank == 0 and time.monotonic() > looked:
                looked += 60
                loads.append(os.getloadavg()[0])
            time.sleep(0.02)
            left[0] = time.monotonic() < began + args.seconds
            dist.broadcast(left, 0)
    except skerry.Aborted as e:
        wrong = f"rank {e.rank} by {rank}: {e}"
    print(json.dumps({"op": "starve", "rank": rank, "seconds": round(time.monotonic() - began), "reduced": reduced, "accused": wrong,
                      "loads": loads}), flush=True)
    if wrong is None:
        dist.destroy_process_group()


def spawn(body, args):
    with tempfile.TemporaryDirectory() as d:
        mp.spawn(body, (args.ranks, os.path.join(d, "store"), args), nprocs=args.ranks)


def main():
    p = argparse.ArgumentParser(prog="python -m skerry.bench")
    p.add_argument("what", choices=["allreduce", "train", "kills", "endure", "starve"])
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--rounds", type=int, default=10, help="turns of each implementation; kills")
    p.add_argument("--bytes", type=lambda s: [int(b) for b in s.split(",")], help="of an all-reduce, with commas between")
    p.add_argument("--gloo", action="store_true", help="Gloo beside Skerry")
    p.add_argument("--workers", type=int, default=0, help="processes that each rank forks")
    p.add_argument("--operations", type=int, default=1_000_000)
    p.add_argument("--reconfigurations", type=int, default=1_000)
    p.add_argument("--seconds", type=int, default=3600)
    p.add_argument("--spin", type=int, default=4 * os.cpu_count())
    args = p.parse_args()
    if args.what == "kills":
        kills(args)
        return
    if args.what == "starve":
        for _ in range(args.spin):
            mp.get_context("spawn").Process(target=spin, daemon=True).start()
    spawn({"allreduce": allreduce, "train": train, "endure": endure, "starve": starve}[args.what], args)


if __name__ == "__main__":
    main()
