"""What a loop of PyTorch is wrapped in: the optimizer, the model, and loops that reduce seldom."""

import torch
from torch.nn.parallel import DistributedDataParallel

from skerry._group import Group
from skerry._work import Work


class Optimizer:
    """An optimizer whose steps are a Manager's: zero_grad begins one, step ends it, and applies the
    gradients if it was committed.

        opt = skerry.Optimizer(manager, torch.optim.AdamW(model.parameters()), steps=1000)

        def step():
            opt.zero_grad()
            model(batch).sum().backward()
            if opt.step(): ...

        while manager.current_step() < 1000: step()
        manager.finish(step)

    steps: how many the model has in all. What is committed beyond, in Manager.finish, changes nothing: a
    replica that comes back at the end heals, and does not train on alone.
    """

    def __init__(self, manager, optim, steps=None):
        self.manager, self.optim, self.steps = manager, optim, steps

    def zero_grad(self, set_to_none=True):
        self.manager.start_quorum()
        self.optim.zero_grad(set_to_none)

    def step(self, closure=None) -> bool:
        """Whether the optimizer has made the step: it was committed, and is one of steps."""
        if closure is not None:
            raise ValueError("skerry: step takes no closure: gradients are reduced before it")
        with self.manager._applies():
            if not self.manager.should_commit() or self.steps is not None and self.manager.current_step() > self.steps:
                return False
            self.optim.step()
            return True

    def state_dict(self):
        return self.optim.state_dict()

    def load_state_dict(self, state):
        self.optim.load_state_dict(state)

    @property
    def param_groups(self):
        return self.optim.param_groups

    @property
    def state(self):
        return self.optim.state

    def add_param_group(self, group):
        self.optim.add_param_group(group)


class Batches:
    """The batches of a loader whose position heals, such as torchdata's StatefulDataLoader, over and over.

        batches = skerry.Batches(loader)
        manager.register("batches", batches)
        batch = next(batches)              # before zero_grad: a heal brings the position behind this step's batch
    """

    def __init__(self, loader):
        self.loader, self._iterator = loader, None

    def __iter__(self):
        return self

    def __next__(self):
        if self._iterator is None:
            self._iterator = iter(self.loader)
        try:
            return next(self._iterator)
        except StopIteration:
            self._iterator = iter(self.loader)
            return next(self._iterator)

    def state_dict(self):
        return self.loader.state_dict()

    def load_state_dict(self, state):
        self.loader.load_state_dict(state)
        self._iterator = None  # the next one begins there


class _Alone(Group):
    """A group of one, which reduces nothing: DDP's own, as its size must not change. But which parameters a backward
    pass used, which DDP asks behind its last bucket in numbers of 32 bits, is asked of all participants: who steps
    where others do not has other bytes."""

    def __init__(self, manager):
        self._begin(0, 1, 0)
        self._manager, self.used = manager, None

    def _get_backend(self, device):
        return self  # for it copies alone, wherever that is

    def allreduce(self, tensors, opts=None):
        if tensors[0].dtype == torch.int32 and self._manager._in_step:
            self.used = tensors[0]
            return self._manager.allreduce(tensors[0], torch.distributed.ReduceOp.SUM)
        return super().allreduce(tensors, opts)

    def _do(self, kind, ins, outs, result, opts=None, **fields):
        ins, outs = tuple(ins), tuple(outs)
        with torch.no_grad():
            for i, o in zip(ins, outs):
                if o is not i:
                    o.view(-1).copy_(i.reshape(-1))
        return Work(self, (ins, outs), result)._run(lambda *_: 0, None)


class DDP(DistributedDataParallel):
    """DistributedDataParallel over a Manager: buckets of gradients are averaged over the participants beside
    the backward pass. Parameters are made equal by the Manager's heals, buffers are each replica's own.
    find_unused_parameters is on, for it keeps the buckets as they are: a replica that has just healed must have
    the same."""

    def __init__(self, manager, module, **kwargs):
        if kwargs.get("process_group") is not None:
            raise ValueError("skerry: DDP takes the manager's group, not another")
        if not kwargs.pop("find_unused_parameters", True) or kwargs.get("static_graph"):
            raise ValueError("skerry: DDP wants find_unused_parameters and no static_graph: buckets must not be rebuilt")
        kwargs.setdefault("broadcast_buffers", False)
        super().__init__(module, process_group=(alone := _Alone(manager)), find_unused_parameters=True, **kwargs)
        self.register_comm_hook(manager, _average)
        reduced = [p for name, p in module.named_parameters() if p.requires_grad and name not in self.parameters_to_ignore]
        bare = []  # those without a gradient before the backward pass
        self.register_forward_pre_hook(lambda *_: bare.__setitem__(slice(None), [p.grad is None for p in reduced]))

        def update():
            """A replica that heals, or is a spare, has gradients of what it used alone: the others have none there."""
            used, alone.used = alone.used, None
            if used is not None and len(used) == len(reduced) == len(bare):
                for p, count, none in zip(reduced, used.tolist(), bare):
                    if count == 0 and none:
                        p.grad = None

        manager._updates.append(update)


def _average(manager, bucket):
    return manager.allreduce(bucket.buffer()).get_future()
