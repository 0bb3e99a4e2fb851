"""Fine-tunes a small transformer, written here, on text that every machine has: Python's own sources. First it
learns characters of one module alone; then, its embedding frozen, replicas fine-tune it on another together.

    skerry-lighthouse --bind 127.0.0.1:29510 &
    REPLICA_GROUP_ID=a python transformer.py &
    REPLICA_GROUP_ID=b python transformer.py &
"""

import argparse
import inspect
import os
import textwrap
import typing

import torch
from torch import nn

import skerry

LENGTH = 64  # characters that it sees


class Transformer(nn.Module):
    """Decoder layers over characters; the output's weight is the embedding's."""

    def __init__(self, width=64, layers=2, heads=4):
        super().__init__()
        self.embedding, self.place = nn.Embedding(128, width), nn.Embedding(LENGTH, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, 128)
        self.out.weight = self.embedding.weight
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, x):
        n = x.shape[1]
        h = self.embedding(x) + self.place(torch.arange(n))
        return self.out(self.body(h, mask=self.mask[:n, :n], is_causal=True))


def characters(module):
    return torch.tensor([min(ord(c), 127) for c in inspect.getsource(module)])


def batch(text, seed, size=16):
    at = torch.randint(len(text) - LENGTH - 1, (size,), generator=torch.Generator().manual_seed(seed))
    rows = torch.stack([text[i : i + LENGTH + 1] for i in at])
    return rows[:, :-1], rows[:, 1:]


def loss_of(model, x, y):
    return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lighthouse", default=os.environ.get("SKERRY_LIGHTHOUSE", "127.0.0.1:29510"))
    p.add_argument("--pretrain", type=int, default=100)
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--linger", type=float, default=3.0)
    o = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)

    model, text = Transformer(), characters(typing)
    adam = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for i in range(o.pretrain):
        adam.zero_grad()
        loss_of(model, *batch(text, i)).backward()
        adam.step()

    model.embedding.weight.requires_grad_(False)  # and so the output's
    text = characters(textwrap)
    adam = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    m = skerry.Manager(lighthouse=o.lighthouse, state={"model": model, "adam": adam})
    opt, ddp = skerry.Optimizer(m, adam, steps=o.steps), skerry.DDP(m, model)

    def step():
        opt.zero_grad()
        loss = loss_of(ddp, *batch(text, m.current_step() * 100 + (m.participating_rank() or 0)))
        loss.backward()
        if opt.step():
            print(f"step {m.current_step()} loss {loss.item():.4f} with {m.num_participants()}", flush=True)

    with m:
        while m.current_step() < o.steps:
            step()
        m.finish(step, o.linger)
    with torch.no_grad():
        print(f"final loss {loss_of(model, *batch(text, 10**6, 64)).item():.4f}", flush=True)


if __name__ == "__main__":
    main()
