"""Trains a small network on handwritten digits, elastically: start as many as you like, kill any.

    lighthouse --bind 127.0.0.1:29510 &
    REPLICA_GROUP_ID=a python digits.py &
    REPLICA_GROUP_ID=b python digits.py &
"""

import argparse
import ctypes
import gzip
import hashlib
import os
import sys
import time

import torch
from torch import nn

import skerry

DATA = os.path.join(os.path.dirname(__file__), "../../examples/digits/digits.csv.gz")


def digits(path):
    """1,797 images of 8 x 8 pixels and what they show."""
    with gzip.open(path, "rt") as f:
        rows = torch.tensor([[float(x) for x in line.split(",")] for line in f if line[0].isdigit()])
    return rows[:, :64] / 16, rows[:, 64].long()


class Batches:
    """Batches in an order that follows from their numbers. Which one is next is part of the state: it moves on
    with a step that is committed, so one that was discarded is tried again with the same."""

    def __init__(self, x, y, size):
        self.x, self.y, self.size, self.at = x, y, size, 0

    def next(self):
        rows = torch.randint(len(self.x), (self.size,), generator=torch.Generator().manual_seed(self.at))
        return self.x[rows], self.y[rows]

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lighthouse", default=os.environ.get("SKERRY_LIGHTHOUSE", "127.0.0.1:29510"))
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--step-time", type=float, default=0.0, help="seconds that a step takes at least")
    p.add_argument("--linger", type=float, default=3.0)
    p.add_argument("--data", default=DATA)
    p.add_argument("--verbose", action="store_true")
    o = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(os.getpid())  # the first quorum makes all begin alike

    x, y = digits(o.data)
    train, test = slice(0, 1500), slice(1500, None)
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
    adam = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, o.steps)
    batches = Batches(x[train], y[train], 64)
    m = skerry.Manager(
        lighthouse=o.lighthouse, state={"model": model, "adam": adam, "schedule": schedule, "batches": batches},
        on_event=lambda kind, text: print(kind, text, file=sys.stderr, flush=True) if o.verbose else None,
    )
    opt, ddp = skerry.Optimizer(m, adam, steps=o.steps), skerry.DDP(m, model)

    def step():
        began = time.monotonic()
        opt.zero_grad()
        a, b = batches.next()
        mine = slice(m.participating_rank() or 0, None, max(m.num_participants(), 1))  # the batch is shared out
        loss = nn.functional.cross_entropy(ddp(a[mine]), b[mine])
        loss.backward()
        time.sleep(max(0.0, o.step_time - (time.monotonic() - began)))
        if opt.step():
            schedule.step()
            batches.at += 1
            print(f"step {m.current_step()} loss {loss.item():.4f} with {m.num_participants()} at {batches.at} sha {sha(model, adam)}", flush=True)

    with m:
        try:
            while m.current_step() < o.steps:
                step()
            m.finish(step, o.linger)
        except skerry.Drained:
            print("drained", flush=True)
            return
        model.eval()
        right = (model(x[test]).argmax(1) == y[test]).float().mean().item()
        print(f"final {batches.at} right {right:.3f} sha {sha(model, adam)}", flush=True)


def sha(model, adam):
    """What the parameters and Adam's moments are: the same on all replicas after each step."""
    h = hashlib.sha256()
    for p in model.parameters():
        h.update(ctypes.string_at(p.data_ptr(), p.nbytes))
        for t in adam.state.get(p, {}).values():
            h.update(ctypes.string_at(t.data_ptr(), t.nbytes))
    return h.hexdigest()[:12]


if __name__ == "__main__":
    main()
