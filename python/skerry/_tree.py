"""A state_dict as tensors and a text: no pickle, nothing in it can run.

The text is JSON. None, booleans, numbers and strings are themselves; everything else is a list
that begins with a letter: d(ict), l(ist), t(uple), b(ytes), y (dtype), T(ensor), N (NumPy array).
A tensor is named by its place in the tree.
"""

import base64
import json

import torch

from skerry import _ops


def flatten(tree):
    """The tensors of a tree, by name, and the text of the rest. Tensors are views, as the library
    takes them: dense."""
    tensors, seen = {}, {}

    def leaf(t, path):
        local = getattr(t, "to_local", None)
        t = (local() if local else t).detach()
        name = "/".join(path) or "."
        while name in tensors:  # 1 and "1", "a/b" and b in a
            name += "'"
        flat, order = _dense(t, name)
        key = (t.data_ptr(), t.dtype, tuple(t.shape), t.stride())
        if t.numel() and key in seen:
            return seen[key]
        tensors[name] = flat
        seen[key] = out = ["T", name, order] if order else ["T", name]
        return out

    def go(x, path):
        if x is None or type(x) in (bool, int, float, str):
            return x
        if isinstance(x, torch.Tensor):
            return leaf(x, path)
        if isinstance(x, dict):
            return ["d", [[go(k, path + ["?"]), go(v, path + [str(k)])] for k, v in x.items()]]
        if isinstance(x, (list, tuple)):
            return ["t" if isinstance(x, tuple) else "l", [go(v, path + [str(i)]) for i, v in enumerate(x)]]
        if isinstance(x, bytes):
            return ["b", base64.b64encode(x).decode()]
        if isinstance(x, torch.dtype):
            return ["y", str(x)[len("torch."):]]
        if type(x).__module__ == "numpy":
            if getattr(x, "shape", None) == () and hasattr(x, "item"):
                return go(x.item(), path)
            return ["N", leaf(torch.from_numpy(x), path)]
        if isinstance(x, (bool, int, float, str)):  # a class of its own that is one
            return go(next(b for b in (bool, int, float, str) if isinstance(x, b))(x), path)
        raise TypeError(f"skerry: state {'/'.join(path) or 'itself'} is a {type(x).__name__}; want tensors, arrays, numbers, text, lists and dicts")

    text = json.dumps(go(tree, []), separators=(",", ":"))
    return tensors, text


def unflatten(text, tensors):
    """The tree of a text; tensors are those that it names."""

    def leaf(x):
        t = tensors[x[1]]
        return t if len(x) < 3 else t.permute(x[2])

    def go(x):
        if not isinstance(x, list):
            return x
        kind, body = x[0], x[1]
        if kind == "d":
            return {_key(go(k)): go(v) for k, v in body}
        if kind == "l":
            return [go(v) for v in body]
        if kind == "t":
            return tuple(go(v) for v in body)
        if kind == "b":
            return base64.b64decode(body)
        if kind == "y":
            return getattr(torch, body)
        if kind == "N":
            return leaf(body).numpy()
        if kind == "T":
            return leaf(x)
        raise ValueError(f"skerry: a state with a {kind!r}: another version of the package wrote it")

    return go(json.loads(text))


def _key(k):
    return tuple(k) if isinstance(k, list) else k


def _dense(t, name):
    """t as a contiguous view of the same memory, and how that is permuted to give t; None: not at all."""
    if t.layout is not torch.strided or t.device.type == "meta" or t.dtype not in _ops.DTYPES:
        raise ValueError(f"skerry: state {name} is a tensor of {t.dtype}, {t.layout} on {t.device}; want a dense one, with memory, of a dtype of ours")
    if t.is_conj() or t.is_neg():
        raise ValueError(f"skerry: state {name} is a lazy view: resolve_conj and resolve_neg make tensors of it")
    if t.is_contiguous():
        return t, None
    by_stride = _ops.memory_order(t)
    flat = t.permute(by_stride)
    if not flat.is_contiguous():
        raise ValueError(f"skerry: state {name} has shape {tuple(t.shape)} and strides {t.stride()}: want memory without gaps; .contiguous() makes some")
    back = [0] * t.dim()
    for at, d in enumerate(by_stride):
        back[d] = at
    return flat, back
