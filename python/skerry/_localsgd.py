"""Loops that reduce once in many inner steps."""

import time

import torch


class _Rounds:
    """Rounds of inner steps, each of which is one step of the Manager: begun before its inner steps, so that
    deaths, quorums and heals among them cost nothing, and ended by one reduction. The global parameters, as
    of the last round, are what replicas have in common, compare and heal."""

    def __init__(self, manager, model, optimizer, sync_every, rounds=None):
        if sync_every < 1:
            raise ValueError(f"skerry: sync_every = {sync_every}, want 1 at least")
        self.manager, self.sync_every, self.rounds = manager, sync_every, rounds
        self._optimizer, self._inner_steps, self._hook = optimizer, 0, None
        self._round = None  # what was reduced for a commit whose answer is out
        self._parameters = dict(model.named_parameters())
        self._global = {name: p.detach().clone() for name, p in self._parameters.items()}
        manager.register_state_dict_fn("global", self._load, lambda: dict(self._global), volatile=False, room=0)

    def __enter__(self):
        inner = {p.data_ptr() for p in self._parameters.values()}
        for part in self.manager._parts.values():
            if not part.volatile and not part.local and inner & part.addresses():
                raise ValueError(f"skerry: state {part.name!r} has the model's parameters, which inner steps change: leave it out, \"global\" heals them")
        self._begin()
        self._hook = self._optimizer.register_step_post_hook(lambda *_: self._stepped())
        return self

    def __exit__(self, *_):
        self._hook.remove()

    def _begin(self):
        self.manager.start_quorum()
        self._inner_steps = 0

    def _stepped(self):
        self._inner_steps += 1
        if self._inner_steps < self.sync_every:
            self.manager.move()
            return
        self.sync()

    def sync(self):
        """Ends the round and begins the next. A reduction that fails is tried again, with whoever is left: no
        inner step is lost."""
        pause = 0.0  # too few may be there, for long
        while not self._try():
            time.sleep(pause)
            pause = min(2 * pause + 0.005, 0.5)
            self.manager.start_quorum()
        self._begin()

    @torch.no_grad()
    def _try(self):
        if self._round is None:
            tensors, made = self._reduced(), torch.tensor([self._inner_steps])
            works = [self.manager.allreduce(t) for t in tensors.values()]
            for work in [*works, self.manager.allreduce(made, torch.distributed.ReduceOp.SUM)]:
                work.wait()
            self._round = tensors, made
        with self.manager._applies():
            committed, (tensors, made), self._round = self.manager.should_commit(), self._round, None
            if not committed:
                return False
            self._inner_steps = 0
            if made > 0 and (self.rounds is None or self.manager.current_step() <= self.rounds):
                self._apply(tensors)
                for name, p in self._parameters.items():
                    self._global[name].copy_(p)
            else:
                for name, p in self._parameters.items():
                    p.copy_(self._global[name])
            return True

    def idle(self):
        """A round without inner steps, for Manager.finish. It applies what others have come to, who are not done; where
        nobody made a step it changes nothing."""
        self.manager.start_quorum()
        self._try()

    @torch.no_grad()
    def _load(self, tree):
        self._inner_steps = 0
        for name, t in tree.items():
            self._global[name].copy_(t)
            self._parameters[name].copy_(t)


class LocalSGD(_Rounds):
    """Averages the parameters after every sync_every steps of the optimizer. rounds: how many the model has in all;
    what is committed beyond, in Manager.finish, changes nothing.

        with skerry.LocalSGD(manager, model, optimizer, sync_every=100):
            for batch in loader:
                ...; optimizer.step()
    """

    def _reduced(self):
        return {name: p.detach().clone() for name, p in self._parameters.items()}

    def _apply(self, averages):
        for name, t in averages.items():
            self._parameters[name].copy_(t)


class DiLoCo(_Rounds):
    """After every sync_every steps of the inner optimizer, the outer one, whose parameters are the model's, takes
    the average of what the replicas have come away from the global parameters for a gradient."""

    def __init__(self, manager, model, inner_optimizer, outer_optimizer, sync_every, rounds=None):
        super().__init__(manager, model, inner_optimizer, sync_every, rounds)
        self._outer = outer_optimizer
        manager.register("outer", outer_optimizer)

    def _reduced(self):
        return {name: self._global[name] - p for name, p in self._parameters.items()}

    def _apply(self, gradients):
        for name, p in self._parameters.items():
            p.copy_(self._global[name])
            p.grad = gradients[name]
        self._outer.step()
        self._outer.zero_grad()
