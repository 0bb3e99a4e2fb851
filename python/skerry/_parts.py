"""Parts of a replica's state, as a Manager asks for them and gives them back."""

import contextlib
import json

import torch

from skerry import _lib, _ops, _tree


class Part:
    """A part: get returns its tree, load takes one that a heal brought."""

    def __init__(self, name, get, load, *, local=False, volatile=False, room=None, beside=()):
        if not name or "/" in name:
            raise ValueError(f"skerry: state {name!r}: want a name without slashes")
        self.name, self.get, self.load = name, get, load
        self.local, self.volatile, self.room = local, volatile, room
        self._beside = beside  # tensors of another part, in whose likeness others' may be
        self.asked = False  # whether its tensors are on a device, and copied when somebody wants to read them
        self._far, self._ready = {}, {}  # those tensors, and what they wait for on their devices
        self.text = None  # of the tree, without its tensors; None before the first look
        self._tensors, self._own, self._retired, self._told, self._loads = {}, {}, [], None, 0

    def options(self):
        size = sum(t.numel() * t.element_size() for t in (*self._tensors.values(), *self._beside))
        room = 4 * size + _ROOM if self.room is None else self.room
        self.asked = not self.volatile and any(map(far, (*self._far.values(), *self._beside)))
        return {"Name": self.name, "Local": self.local, "Volatile": self.volatile, "Room": room, "Asked": self.asked}

    def addresses(self):
        """Where its tensors are."""
        return {t.data_ptr() for t in _tree.flatten(self.get())[0].values() if t.numel()}

    def look(self):
        """Takes the tree as it is now. A tensor that lies elsewhere each time, as a copy does, is copied into one
        that stays: a heal may write to what it was told of in an earlier step."""
        tensors, self.text = _tree.flatten(self.get())
        self._far = {name: t for name, t in tensors.items() if far(t)}
        self._ready = {} if self.volatile else _events(self._far.values())
        for name, t in tensors.items():
            if name in self._far:
                tensors[name] = self._twin(name, t)
                continue
            old, own = self._tensors.get(name), self._own.get(name)
            if own is None and _alike(old, t) and old.data_ptr() != t.data_ptr():
                own = self._own[name] = torch.empty_like(t)
            if _alike(own, t):
                tensors[name] = own.copy_(t)
        if any(name not in tensors or old.data_ptr() != tensors[name].data_ptr() for name, old in self._tensors.items()):
            self._retired.append(self._tensors)
        self._tensors = tensors

    def _twin(self, name, t):
        """The memory on the host that stands for a tensor on a device."""
        twin = self._own.get(name)
        if not _alike(twin, t):
            twin = self._own[name] = torch.empty(t.shape, dtype=t.dtype, pin_memory=t.device.type == "cuda")
        return twin if self.asked else twin.copy_(t)

    def fetch(self):
        """Copies to the host what is on devices, as it was when the step began. Blocks until it is there."""
        streams = {d: torch.get_device_module(d).Stream(d) for d in self._ready}
        for d, stream in streams.items():
            stream.wait_event(self._ready[d])
        for name, t in self._far.items():
            stream = streams.get(t.device)
            with torch.no_grad(), torch.get_device_module(t.device).stream(stream) if stream else contextlib.nullcontext():
                self._own[name].copy_(t, non_blocking=True)
        for stream in streams.values():
            stream.synchronize()

    def forget(self):
        """Lets go of tensors of before that were replaced: no heal is under way."""
        self._retired.clear()

    def tell(self, manager):
        """Says what it is to the library."""
        rows = [[name, _ops.DTYPES[t.dtype], list(t.shape), t.data_ptr() if t.numel() else 0] for name, t in self._tensors.items()]
        state = {"tree": self.text}
        if rows != self._told:
            state["tensors"] = [dict(zip(("name", "dtype", "shape", "address"), row)) for row in rows]
        _lib.manager_state(manager, self.name, json.dumps(state))
        self._told = rows

    def take(self, news):
        """Loads what a heal brought, once."""
        if news["load"] == self._loads:
            return
        tensors = {row["name"]: self._tensor(row) for row in news["tensors"]}
        self.load(_tree.unflatten(news["tree"], tensors))
        self._loads, self._told = news["load"], None

    def _tensor(self, row):
        """The tensor at an address: ours, into which the heal wrote, or a copy of the library's."""
        dtype, shape, address = _DTYPES[row["dtype"]], row["shape"], row["address"]
        for tensors in (self._tensors, *reversed(self._retired)):
            t = tensors.get(row["name"])
            if t is not None and t.data_ptr() == address and t.dtype == dtype and list(t.shape) == shape:
                return t
        made = torch.empty(shape, dtype=dtype)
        if made.numel():
            _lib.copy(made.data_ptr(), address, made.numel() * made.element_size())
        return made


def far(t):
    """Whether a tensor is on a device, where the library cannot reach it."""
    return t.device.type != "cpu"


def _events(tensors):
    """By device, when everything that the current streams have to do is done."""
    devices = {t.device for t in tensors if t.device.type != "cpu"}
    return {d: torch.get_device_module(d).current_stream(d).record_event() for d in devices}


def _alike(a, b):
    return a is not None and a.dtype == b.dtype and a.shape == b.shape


_ROOM = 64 << 20  # bytes for what a part has not yet, beside four times what it has, or what it updates
_DTYPES = {code: dtype for dtype, code in _ops.DTYPES.items()}


def of(name, thing, **options):
    """The parts of a thing with state_dict and load_state_dict. Of a module the parameters are one, which
    replicas compare; what its forward pass changes, its buffers, is another, of which each step takes a
    copy. An optimizer's may grow; of anything else each step takes a copy."""
    if isinstance(getattr(thing, "optim", None), torch.optim.Optimizer):
        thing = thing.optim  # of an Optimizer of ours
    if isinstance(thing, torch.nn.Module) and not options:
        return _of_module(name, thing)
    if not hasattr(thing, "state_dict") or not hasattr(thing, "load_state_dict"):
        raise TypeError(f"skerry: state {name!r} is a {type(thing).__name__} without state_dict and load_state_dict")
    if isinstance(thing, torch.optim.Optimizer):
        parameters = [p.to_local() if hasattr(p, "to_local") else p for group in thing.param_groups for p in group["params"]]
        return [Part(name, thing.state_dict, lambda tree: _load_optimizer(thing, tree), beside=parameters, **options)]
    options.setdefault("volatile", True)
    return [Part(name, thing.state_dict, thing.load_state_dict, **options)]


def _load_optimizer(optim, tree):
    """Of a parameter that is a DTensor the moments are, too: what came is this rank's part of them."""
    parameters = [p for group in optim.param_groups for p in group["params"]]
    for i, moments in tree.get("state", {}).items():
        p = parameters[i]
        if not hasattr(p, "to_local"):
            continue
        for key, t in moments.items():
            if isinstance(t, torch.Tensor) and t.dim() > 0 and t.shape == p.to_local().shape:
                moments[key] = type(p.data).from_local(t.to(p.to_local().device), p.device_mesh, p.placements, run_check=False, shape=p.shape, stride=p.stride())
    optim.load_state_dict(tree)
    for i, moments in tree.get("state", {}).items():  # torch has given all the dtype of their parameter
        now = optim.state[parameters[i]]
        now.update({k: t.to(now[k].device) for k, t in moments.items() if isinstance(t, torch.Tensor) and k in now and t.dtype != now[k].dtype})


def _of_module(name, module):
    def split():
        parameters = {k for k, _ in module.named_parameters(remove_duplicate=False)}
        whole = module.state_dict()
        return {k: v for k, v in whole.items() if k in parameters}, {k: v for k, v in whole.items() if k not in parameters}

    def load(tree):
        now = dict(module.state_dict())
        if all(k in now and _same(now[k], v) for k, v in tree.items()):
            return  # the heal wrote into them
        for k, v in tree.items():  # of a DTensor it is this rank's part
            local = getattr(now.get(k), "to_local", None)
            if local is not None and local().shape == v.shape:
                with torch.no_grad():
                    local().copy_(v)
            else:
                now[k] = v.clone()  # the same memory may be read in another order
        module.load_state_dict(now)

    parts = [Part(name, lambda: split()[0], load, room=0)]
    if split()[1]:
        parts.append(Part(name + ".buffers", lambda: split()[1], load, volatile=True))
    return parts


def _same(a, b):
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return False
    a, b = (getattr(t, "to_local", lambda t=t: t)() for t in (a, b))
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()
