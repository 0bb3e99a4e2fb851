"""All-reduce of sparse tensors, such as gradients of embeddings: what all ranks have is gathered, and added up on each."""

import torch

from skerry import _ops


def all_reduce(group, tensor, opts, several):
    """Adds up a sparse tensor of all ranks, in place. The numbers of entries are exchanged before this returns."""
    mine, size = tensor.detach().coalesce(), group.size()
    at, values = mine.indices(), mine.values()
    counts = torch.empty(size, dtype=torch.int64)
    group._do(_ops.ALL_GATHER, [torch.tensor([at.shape[1]])], [counts], counts, seen=None, flat=True, opts=opts).wait()
    most = int(counts.max())

    def gather(t, seen):
        """All ranks' rows; they have the same number of them on the way."""
        out = t.new_empty(size, most, *t.shape[1:])
        padded = torch.cat([t, t.new_zeros(most - len(t), *t.shape[1:])])
        return group._do(_ops.ALL_GATHER, [padded], [out], out, seen=seen, flat=True, name="all_reduce"), out

    (first, all_at), (second, all_values) = gather(at.t().contiguous(), None), gather(values, (values,))

    def add_up():
        rows = [(all_at[r, :n], all_values[r, :n]) for r, n in enumerate(counts.tolist())]
        at, values = (torch.cat(part) for part in zip(*rows))
        with torch.no_grad():
            tensor.copy_(torch.sparse_coo_tensor(at.t(), values, tensor.shape).coalesce())

    return several(group, [first, second], [tensor], add_up)
