"""A trainer of `skerry demo --trainer python`: handwritten digits by PyTorch. It tells what happens on its standard output, as
lines of JSON."""

import argparse
import contextlib
import ctypes
import gzip
import hashlib
import json
import sys
import time

import torch
from torch import nn

import skerry


def emit(kind, **fields):
    print(json.dumps({"event": kind, "at_ns": time.monotonic_ns(), **fields}), flush=True)


@contextlib.contextmanager
def left():
    """Ends this program well, and tells so, where an operator wants the replica away."""
    try:
        yield
    except (skerry.Drained, skerry.Evicted) as e:
        emit("left", text=str(e))
        sys.exit()


def tell(kind, event):
    """Passes on what the manager says and the demo shows."""
    d = event.data
    if kind == "QuorumFormed":
        emit("quorum", quorum_id=d["QuorumID"], members=d["Members"], participants=d["Participants"], took_ms=d["Took"] / 1e6)
    elif kind == "StepDiscarded":
        emit("discarded", step=d["Step"], quorum_id=d["QuorumID"], text=d["Cause"])
    elif kind == "StateDiffered" and d["Own"]:
        emit("differed", step=d["Step"], quorum_id=d["QuorumID"], text=str(event))
    elif kind == "HealStarted":
        emit("heal started", step=d["Position"]["Step"])
    elif kind == "HealDone" and not d["Err"]:
        emit("healed", step=d["Position"]["Step"], took_ms=d["Took"] / 1e6)


def digits(path, seed):
    """Images and what they show: for training, and a fifth of them for a test."""
    with gzip.open(path, "rt") as f:
        rows = torch.tensor([[float(x) for x in line.split(",")] for line in f if line[0].isdigit()])
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))]
    x, y, most = rows[:, :64] / 16, rows[:, 64].long(), len(rows) * 4 // 5
    return (x[:most], y[:most]), (x[most:], y[most:])


class Position:
    """The number of the next batch. It is part of the state: a discarded step is tried again with the same one."""

    def __init__(self):
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def main():
    p = argparse.ArgumentParser(prog="python -m skerry.demo")
    for name, kind in (
        ("name", str), ("lighthouse", str), ("data", str), ("steps", int), ("seed", int), ("step-time", float),
        ("min-replicas", int), ("parity-every", int), ("timeout", float), ("heal-timeout", float),
    ):
        p.add_argument("--" + name, type=kind, required=True)
    o = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(o.seed)
    (x, y), (test_x, test_y) = digits(o.data, o.seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    adam, position = torch.optim.AdamW(model.parameters(), lr=2e-3), Position()
    m = skerry.Manager(
        replica_id=o.name, lighthouse=o.lighthouse, state={"model": model, "adam": adam, "position": position}, on_event=tell,
        min_replica_size=o.min_replicas, total_steps=o.steps, parity_every=o.parity_every, timeout=o.timeout, heal_timeout=o.heal_timeout,
    )
    opt, ddp = skerry.Optimizer(m, adam, steps=o.steps), skerry.DDP(m, model)

    def step():
        began = time.monotonic()
        opt.zero_grad()
        rows = torch.randint(len(x), (64,), generator=torch.Generator().manual_seed(position.at))
        mine = rows[max(m.participating_rank() or 0, 0) :: max(m.num_participants(), 1)]  # the batch is shared out
        loss = nn.functional.cross_entropy(ddp(x[mine]), y[mine])
        loss.backward()
        time.sleep(max(0.0, o.step_time - (time.monotonic() - began)))
        if opt.step():
            position.at += 1
            quorum = m.state_dict()["quorum_id"]
            emit("committed", step=m.current_step(), loss=loss.item(), quorum_id=quorum)

    with m:
        m._open()
        emit("started", replica_id=m.replica_id())
        with left():
            while m.current_step() < o.steps:
                step()
        with torch.no_grad():
            right = (model(test_x).argmax(1) == test_y).double().mean().item()
        digest = hashlib.sha256(b"".join(ctypes.string_at(p.data_ptr(), p.nbytes) for p in model.parameters())).hexdigest()
        emit("final", step=position.at, hash=digest, accuracy=right)
        with contextlib.suppress(skerry.TrainingEnded), left():
            while True:  # for those who are behind, until the demo has seen enough
                step()


if __name__ == "__main__":
    main()
