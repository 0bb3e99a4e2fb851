"""Trains under torchft's Manager over skerry.torchft.ProcessGroup. With "manager" among its arguments,
Skerry's manager takes the place of torchft's; with "gloo", torchft's ProcessGroupGloo that of our group.

It imports everything, says "ready", and goes on at SIGCONT. Its steps take their time until SIGUSR1 comes, and none
from then on: so a test has as many seconds as it needs to do something to replicas that train. With "endless=S" it
goes on at once and for ever, with steps of S seconds.
"""

import hashlib
import os
import signal
import sys
import time
from datetime import timedelta

# Before there are threads of the libraries: one that has not blocked it takes it from the process and drops it.
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCONT])
os.environ["RUST_LOG"] = "error"  # torchft's manager prints each step, and its reader is not quick

import torch
import torch.distributed as dist
import torchft

import skerry.torchft

STEPS, STEP_TIME = 120, 0.5
endless = next((float(a.removeprefix("endless=")) for a in sys.argv[1:] if a.startswith("endless=")), None)
if endless is not None:
    STEPS, STEP_TIME = 10**9, endless


def hurry(*_):
    global STEP_TIME
    STEP_TIME = 0.0


signal.signal(signal.SIGUSR1, hurry)

if "manager" in sys.argv[1:]:
    skerry.torchft.use_manager()
torch.set_num_threads(1)
torch.manual_seed(os.getpid())  # torchft's heal at step 0 makes all begin alike
torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])  # the first of a process imports torch._dynamo, which takes seconds
print("ready", flush=True)
if endless is None:
    signal.sigwait([signal.SIGCONT])

store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
adam = torch.optim.Adam(model.parameters())
group = (torchft.ProcessGroupGloo if "gloo" in sys.argv[1:] else skerry.torchft.ProcessGroup)(timeout=timedelta(seconds=20))


def load(state):
    model.load_state_dict(state["model"])
    adam.load_state_dict(state["adam"])


manager = torchft.Manager(
    pg=group, load_state_dict=load, state_dict=lambda: {"model": model.state_dict(), "adam": adam.state_dict()},
    min_replica_size=1, timeout=timedelta(seconds=20), quorum_timeout=timedelta(seconds=30), rank=0, world_size=1,
    store_addr="127.0.0.1", store_port=store.port, hostname="127.0.0.1",
    lighthouse_addr="http://" + os.environ["SKERRY_LIGHTHOUSE"], replica_id=os.environ["REPLICA_GROUP_ID"],
)
opt, ddp = torchft.Optimizer(manager, adam), torchft.DistributedDataParallel(manager, model)
while manager.current_step() < STEPS:
    before = manager.current_step()
    opt.zero_grad()
    x = torch.randn(32, 8)
    loss = (ddp(x) - x.sum(1, keepdim=True)).square().mean()
    loss.backward()
    time.sleep(STEP_TIME)
    opt.step()
    if manager.current_step() == before:
        print(f"step {before + 1} discarded", flush=True)
    else:
        sha = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()[:12]
        print(f"step {manager.current_step()} loss {loss.item():.4f} with {manager.num_participants()} at 0 sha {sha}", flush=True)
print("done", type(manager._manager).__module__, flush=True)
manager.shutdown()
group.shutdown()
