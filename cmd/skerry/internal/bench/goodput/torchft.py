"""torchft's lighthouse, or a trainer under its Manager with DistributedDataParallel over Gloo, for `skerry bench goodput
--impl torchft`. It tells what happens as lines of JSON, as the Go trainer does."""

import gzip
import hashlib
import json
import sys
import threading
import time
from datetime import timedelta

name, host, servers, data, step_time, index, count = sys.argv[1:]
step_time, index, count = float(step_time), int(index), int(count)
BATCH = 32


def emit(kind, **fields):
    print(json.dumps({"event": kind, "at_ns": time.monotonic_ns(), **fields}), flush=True)


def serve():
    from torchft._torchft import LighthouseServer

    server = LighthouseServer(bind=host + ":29510", min_replicas=1)  # and its own defaults
    emit("ready", address=host + ":29510")
    threading.Event().wait()
    server.shutdown()


def train():
    import torch
    import torch.distributed as dist
    import torchft
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(1)
    with gzip.open(data, "rt") as f:
        rows = torch.tensor([[float(x) for x in line.split(",")] for line in f if line[0].isdigit()])
    x, y = rows[:, :64] / 16, rows[:, 64].long()
    store = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def load(state):
        model.load_state_dict(state["model"])
        sgd.load_state_dict(state["sgd"])

    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=timedelta(seconds=20)), load_state_dict=load,
        state_dict=lambda: {"model": model.state_dict(), "sgd": sgd.state_dict()}, min_replica_size=1,
        timeout=timedelta(seconds=20), quorum_timeout=timedelta(seconds=30), rank=0, world_size=1,
        store_addr=host, store_port=store.port, hostname=host, lighthouse_addr="http://" + servers, replica_id=name,
    )
    opt, ddp = torchft.Optimizer(manager, sgd), torchft.DistributedDataParallel(manager, model)
    while True:
        before = manager.current_step()
        begin = time.monotonic()
        opt.zero_grad()
        rest = step_time - (time.monotonic() - begin)  # as in package digits: the device has its time from here on
        if rest > 0:
            time.sleep(rest)
        at = torch.arange(BATCH).add((before * count + index) * BATCH).remainder(len(y))
        nn.functional.cross_entropy(ddp(x[at]), y[at]).backward()
        opt.step()
        if manager.current_step() == before:
            emit("discarded", step=before + 1)
            continue
        sha = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
        emit("committed", step=manager.current_step(), participants=manager.num_participants(), hash=sha)


serve() if name.startswith("lighthouse") else train()
