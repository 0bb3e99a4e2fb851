"""State trees: what they hold comes back, and what they cannot hold is refused by its place."""

import math

import numpy
import pytest
import torch

from skerry import _parts, _tree


def there_and_back(tree):
    tensors, text = _tree.flatten(tree)
    return _tree.unflatten(text, {name: t.clone() for name, t in tensors.items()})


def test_everything_comes_back():
    shared = torch.arange(6.0)
    tree = {
        "n": 3, "x": 0.1, "inf": math.inf, "none": None, "yes": True, "text": "ä", 7: "number for a key", (1, "a"): "tuple for one",
        "a": {"b": torch.zeros(1)}, "a/b": torch.ones(1), 1: torch.ones(1), "1": torch.zeros(1), "list": [1, [2.5, None]], "tuple": (1, (2,)), "bytes": b"\0\xff", "dtype": torch.bfloat16,
        "tensor": torch.randn(3, 4), "scalar": torch.tensor(5), "empty": torch.zeros(0, 3), "bf16": torch.ones(2, dtype=torch.bfloat16),
        "mask": torch.tensor([True, False]), "tied": [shared, shared], "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "array": numpy.arange(4, dtype=numpy.uint32), "numpy number": numpy.float64(2.5), "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    back = there_and_back(tree)
    assert list(back) == list(tree)
    for key, value in tree.items():
        got = back[key]
        if isinstance(value, torch.Tensor):
            assert got.dtype == value.dtype and got.stride() == value.stride() and torch.equal(got, value), key
        elif isinstance(value, numpy.ndarray):
            assert got.dtype == value.dtype and (got == value).all()
        elif key == "a":
            assert got["b"].item() == 0
        elif key == "tied":
            assert got[0] is got[1] and torch.equal(got[0], shared)
        else:
            assert got == value and type(got) is type(value) or key == "numpy number", key


def test_tensors_are_views():
    t = torch.zeros(2, 3, 4).permute(2, 0, 1)
    tensors, text = _tree.flatten({"t": t})
    tensors["t"].fill_(1)
    assert t.sum() == 24
    assert _tree.unflatten(text, tensors)["t"].data_ptr() == t.data_ptr()


@pytest.mark.parametrize("bad, words", [
    ({"a": [{"b": object()}]}, "a/0/b is a object"),
    ({"a": {1, 2}}, "a is a set"),
    ({"a": torch.zeros(4)[::2]}, "a has shape (2,) and strides (2,)"),
    ({"a": torch.zeros(3).to_sparse()}, "state a is a tensor of torch.float32, torch.sparse_coo"),
    ({"a": torch.zeros(3, device="meta")}, "on meta"),
    ({"a": torch.zeros(2, dtype=torch.complex64).conj()}, "a is a lazy view"),
])
def test_refused(bad, words):
    with pytest.raises((TypeError, ValueError)) as e:
        _tree.flatten(bad)
    assert words in str(e.value)


def test_optimizer_state_comes_back():
    model = torch.nn.Linear(3, 2)
    adam = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    adam.step()
    other = torch.optim.Adam(torch.nn.Linear(3, 2).parameters())
    other.load_state_dict(there_and_back(adam.state_dict()))
    for a, b in zip(adam.state_dict()["state"].values(), other.state_dict()["state"].values()):
        assert all(torch.equal(a[k], b[k]) for k in a)


def test_a_copy_is_told_at_one_place():
    """A state of copies, which lie elsewhere each time, is told at the same addresses from its second look on."""
    w = torch.zeros(4)
    part = _parts.Part("w", lambda: {"w": w.clone(), "view": w}, None)
    places = []
    for i in range(20):
        w.fill_(i)
        part.look()
        assert part._tensors["w"].tolist() == [i] * 4 and part._tensors["view"].data_ptr() == w.data_ptr()
        places.append(part._tensors["w"].data_ptr())
    assert len(set(places[2:])) == 1 and len(part._retired) <= 1
