"""Loops that reduce once in many inner steps."""

import time

import torch


class _Rounds:
    """Rounds of inner steps, each of which is one step of the Manager: begun before its inner steps, so that
    deaths, quorums and heals among them cost nothing, and ended by one reduction. The global parameters, as
    of the last round, are what replicas have in common, compare and heal."""

    def __init__(self, manager, parameters, optimizer, sync_every, rounds=None):
        if sync_every < 1:
            raise ValueError(f"skerry: sync_every = {sync_every}, want 1 at least")
        self.manager, self.sync_every, self.rounds = manager, sync_every, rounds
        self._optimizer, self._inner_steps, self._hook = optimizer, 0, None
        self._every, self._early = sync_every, 0  # inner steps of a round, and of these behind its reduction
        self._healed = False  # in this round: the parameters are the global ones
        self._round = None  # what is reduced for a commit that is to come, or whose answer is out
        self._parameters = parameters
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
        self._inner_steps, self._healed = 0, False

    def _stepped(self):
        self._inner_steps += 1
        if self._early and self._inner_steps == self._every - self._early and self._round is None:
            self._reduce()
        if self._inner_steps < self._every:
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
    def _reduce(self):
        """Starts the reductions of a round: how many inner steps all have made, and the tensors."""
        made = torch.tensor([self._inner_steps])
        works = [self.manager.allreduce(made, torch.distributed.ReduceOp.SUM)]
        tensors = self._reduced(works)
        self._round = tensors, made, works

    @torch.no_grad()
    def _try(self):
        if self._round is None:
            self._reduce()
        for work in self._round[2]:
            work.wait()
        with self.manager._applies():
            committed, (tensors, made, _), self._round = self.manager.should_commit(), self._round, None
            if not committed:
                return False
            self._inner_steps = 0
            if made > 0 and (self.rounds is None or self.manager.current_step() <= self.rounds):
                self._apply(tensors)
                if self.manager.current_step() != self.rounds:
                    return True
            for name, p in self._parameters.items():  # nothing to apply; or the model has had its rounds
                p.copy_(self._global[name])
            return True

    def idle(self):
        """A round without inner steps, for Manager.finish. It applies what others have come to, who are not done; where
        nobody made a step it changes nothing."""
        if self._round is None:  # else the loop has ended between a round's reduction and its end
            self.manager.start_quorum()
        self._try()

    @torch.no_grad()
    def _load(self, tree):
        self._inner_steps, self._healed = 0, True
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

    def __init__(self, manager, model, optimizer, sync_every, rounds=None):
        super().__init__(manager, dict(model.named_parameters()), optimizer, sync_every, rounds)

    def _reduced(self, works):
        averages = {name: p.detach().clone() for name, p in self._parameters.items()}
        works += [self.manager.allreduce(t) for t in averages.values()]
        return averages

    def _apply(self, averages):
        for name, t in averages.items():
            self._parameters[name].copy_(t)
            self._global[name].copy_(t)


class DiLoCo(_Rounds):
    """After every sync_every steps of the inner optimizer, the outer one, whose parameters are the model's, takes
    the average of what the replicas have come away from the global parameters for a gradient.

    model: a module, or several, its fragments: each is reduced once in sync_every steps, in turn, so that a round has
    sync_every / len(model) of them; outer_optimizer is one for each then, of its parameters alone.
    fragment_sync_delay: so many inner steps before the end of a round its reduction starts, beside them (of several fragments
    once all replicas have come there); what they change in
    the fragment is lost, but for fragment_update_alpha of it, 0 to 1. should_quantize: Manager.allreduce's. rounds: how
    many the model has in all, of fragments.
    """

    def __init__(
        self, manager, model, inner_optimizer, outer_optimizer, sync_every, rounds=None, *,
        fragment_sync_delay=0, fragment_update_alpha=0.0, should_quantize=False,
    ):
        fragments = [model] if isinstance(model, torch.nn.Module) else list(model)
        outers = list(outer_optimizer) if isinstance(outer_optimizer, (list, tuple)) else [outer_optimizer]
        named = [{(f"{i}." if len(fragments) > 1 else "") + name: p for name, p in f.named_parameters()} for i, f in enumerate(fragments)]
        self._check_fragments(named, outers, sync_every, fragment_sync_delay, fragment_update_alpha)
        super().__init__(manager, {name: p for f in named for name, p in f.items()}, inner_optimizer, sync_every, rounds)
        self._every, self._early = sync_every // len(named), fragment_sync_delay
        self._fragments, self._outers, self._alpha, self._quantize = named, outers, fragment_update_alpha, should_quantize
        for i, outer in enumerate(outers):
            manager.register("outer" if len(outers) == 1 else f"outer{i}", outer)

    @staticmethod
    def _check_fragments(named, outers, sync_every, delay, alpha):
        n = len(named)
        if n < 1 or sync_every % n:
            raise ValueError(f"skerry: sync_every = {sync_every}, want a multiple of the {n} fragments")
        if not 0 <= delay < sync_every // n:
            raise ValueError(f"skerry: fragment_sync_delay = {delay}, want 0 to {sync_every // n - 1}, less than a round's inner steps")
        if not 0 <= alpha <= 1:
            raise ValueError(f"skerry: fragment_update_alpha = {alpha}, want 0 to 1")
        if len(outers) != n:
            raise ValueError(f"skerry: {len(outers)} outer optimizers, want one for each of {n} fragments")
        if len({id(p) for f in named for p in f.values()}) < sum(map(len, named)):
            raise ValueError("skerry: two fragments have a parameter in common")
        for i, (fragment, outer) in enumerate(zip(named, outers)):
            takes = {id(p) for group in outer.param_groups for p in group["params"]}
            trained = {id(p) for p in fragment.values() if p.requires_grad}
            if not trained <= takes <= {id(p) for p in fragment.values()}:
                raise ValueError(f"skerry: outer optimizer {i} has other parameters than fragment {i}")

    def _turn(self):
        """Which fragment the round is about: that of the participants' step, for who heals beside it has an older one."""
        if len(self._fragments) == 1:
            return 0
        step = torch.tensor([self.manager.current_step()])
        self.manager.allreduce(step, torch.distributed.ReduceOp.MAX).wait()
        return step.item() % len(self._fragments)

    def _reduced(self, works):
        turn = self._turn()
        moved = {name: self._global[name] - p for name, p in self._fragments[turn].items()}
        if not self._quantize:
            works += [self.manager.allreduce(t) for t in moved.values()]
            return turn, moved
        flat = torch.cat([t.reshape(-1).float() for t in moved.values()])  # one reduction is made of two
        works.append(self.manager.allreduce(flat, should_quantize=self._quantize))
        parts = flat.split([t.numel() for t in moved.values()])
        return turn, {name: part.view(t.shape) for (name, t), part in zip(moved.items(), parts)}

    def _apply(self, reduced):
        turn, gradients = reduced
        fragment, outer = self._fragments[turn], self._outers[turn]
        own = {name: p.detach().clone() for name, p in fragment.items()} if self._alpha and not self._healed else {}
        for name, p in fragment.items():
            p.copy_(self._global[name])
            p.grad = gradients[name].to(p.dtype)
        outer.step()
        outer.zero_grad()
        for name, p in fragment.items():
            self._global[name].copy_(p)
            if own:
                p.lerp_(own[name], self._alpha)
