"""An operation as the library takes it: a list of numbers, see skerry.h."""

import array

import torch
import torch.distributed as dist

ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, GATHER, SCATTER, REDUCE_SCATTER, ALL_TO_ALL, BARRIER, SEND, RECV = range(1, 12)
QUANTIZED_ALL_REDUCE = 12  # root: the format
FORMATS = {"int8": 0, "fp8": 1}

_names = (
    "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "bool", "float16", "bfloat16",
    "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
)
DTYPES = {getattr(torch, name): i for i, name in enumerate(_names, 1) if hasattr(torch, name)}

_R = dist.ReduceOp
_reduces = ((_R.SUM, 0), (_R.AVG, 1), (_R.PRODUCT, 2), (_R.MIN, 3), (_R.MAX, 4), (_R.BAND, 5), (_R.BOR, 6), (_R.BXOR, 7))


def reduce_code(op) -> int:
    for known, code in _reduces:
        if op == known:
            return code
    raise NotImplementedError(f"skerry: reduce operation {op}")


# Of bools a sum is whether any is true, a product whether all are; as Gloo and NCCL have it.
_of_bools = {reduce_code(_R.SUM): reduce_code(_R.BOR), reduce_code(_R.PRODUCT): reduce_code(_R.BAND)}

# In these an element goes to the same place on each rank: the memory may be in any order that is the same on all.
_in_place = (ALL_REDUCE, REDUCE, BROADCAST, QUANTIZED_ALL_REDUCE)


def memory_order(t):
    """The dimensions of a tensor as its memory has them: permuted so it is contiguous, unless there are gaps."""
    return sorted(range(t.dim()), key=lambda d: (-t.stride(d), d))


def check(kind, *tensors: torch.Tensor) -> None:
    """Refuses tensors that the library cannot take as they are."""
    first = tensors[0]
    for t in tensors:
        if t.layout is not torch.strided:
            raise ValueError(f"skerry: a tensor of layout {t.layout}, want a dense one")
        if t.device.type != "cpu":
            raise ValueError(f"skerry: a tensor on {t.device}, want cpu")
        if not t.is_contiguous() and not (kind in _in_place and t.permute(memory_order(t)).is_contiguous()):
            raise ValueError(f"skerry: a tensor of shape {tuple(t.shape)} and strides {t.stride()}: Tensors must be contiguous")
        if t.dtype != first.dtype:
            raise ValueError(f"skerry: tensors of {first.dtype} and {t.dtype} in one operation")
    if first.dtype not in DTYPES:
        raise ValueError(f"skerry: tensors of {first.dtype}")


def encode(kind, ins=(), outs=(), *, reduce=0, root=0, peer=0, tag=0, timeout_us=0, flat=False, in_splits=(), out_splits=()):
    """The list of numbers. Tensors must outlive the operation."""
    if ins or outs:
        check(kind, *ins, *outs)
    some = ins or outs
    if some and some[0].dtype == torch.bool and kind in (ALL_REDUCE, REDUCE, REDUCE_SCATTER):
        reduce = _of_bools.get(reduce, reduce)
    words = array.array("q", (
        kind, DTYPES[some[0].dtype] if some else 0, reduce, 0, root, peer, tag, timeout_us, int(flat),
        len(ins), len(outs), len(in_splits), len(out_splits),
    ))
    for t in (*ins, *outs):
        n = t.numel()
        words.append(t.data_ptr() if n else 0)
        words.append(n)
    words.extend(in_splits)
    words.extend(out_splits)
    return words
