"""Skerry's process groups as a backend of torch.distributed.

    import skerry
    import torch.distributed as dist

    dist.init_process_group("skerry")          # any store; torchrun as it is
    dist.all_reduce(tensor)

Tensors are on the CPU and contiguous, and nothing copies them. A group whose member died is
broken: every verb raises Aborted, which says who it was, and `configure` starts the next
epoch in the same process.
"""

from skerry._errors import (
    Aborted, Closed, Differed, Drained, Evicted, Forked, MaxRetries, OtherState, RankLost, Refused, StateLost, StepFailed,
    StepOpen, TrainingEnded, Unreachable,
)
from skerry._devices import Devices
from skerry._group import Group, monitored_barrier
from skerry._localsgd import DiLoCo, LocalSGD
from skerry._manager import Manager
from skerry._place import wait_for_place
from skerry._rendezvous import create
from skerry._train import DDP, Batches, Optimizer
from skerry._version import __version__

import torch.distributed as _dist

__all__ = [
    "Aborted", "Batches", "Closed", "DDP", "Devices", "DiLoCo", "Differed", "Drained", "Evicted", "Forked", "Group", "LocalSGD", "Manager", "MaxRetries", "Optimizer",
    "OtherState", "RankLost", "Refused", "StateLost", "StepFailed", "StepOpen", "TrainingEnded", "Unreachable",
    "monitored_barrier", "register", "wait_for_place", "__version__",
]


def register() -> None:
    """Makes "skerry" known to torch.distributed. Importing the package does."""
    if "skerry" not in _dist.Backend.backend_list:
        _dist.Backend.register_backend("skerry", create, extended_api=True, devices=["cpu"])


register()
