"""The peers `pytorch` and `pytorch-autocast`: the book's architecture with the sizes of GPT-2 124M.

The model consists of modules of torch.nn. Its head isn't tied, the query, key and value layers have
no biases, the causal mask and softmax are explicit, GELU is the approximation with tanh, and the
dropout rate is 0.1. Like the book's `generate_text_simple`, text generation has no cache, so the
whole sequence is computed again for each new token.

The first argument is the precision, `f32` or `autocast`.
"""

import contextlib
import math
import sys

from protocol import CONTEXT, DROP, EMB, HEADS, LAYERS, VOCAB, serve, sizes, threads, training_step

import torch
from torch import nn
from torch.nn import functional as F


PRECISION = sys.argv[1] if len(sys.argv) > 1 else "f32"


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(EMB, EMB, bias=False)
        self.key = nn.Linear(EMB, EMB, bias=False)
        self.value = nn.Linear(EMB, EMB, bias=False)
        self.out = nn.Linear(EMB, EMB)
        self.drop = nn.Dropout(DROP)
        future = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x):
        batch, tokens, _ = x.shape

        def split(y):  # (batch, heads, tokens, head_dim)
            return y.view(batch, tokens, HEADS, EMB // HEADS).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = q @ k.transpose(2, 3)
        scores = scores.masked_fill(self.future[:tokens, :tokens], -math.inf)
        weights = self.drop(torch.softmax(scores / math.sqrt(EMB // HEADS), dim=-1))
        context = (weights @ v).transpose(1, 2).reshape(batch, tokens, EMB)
        return self.out(context)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.feed_forward = nn.Sequential(
            nn.Linear(EMB, 4 * EMB), nn.GELU(approximate="tanh"), nn.Linear(4 * EMB, EMB)
        )
        self.norm1, self.norm2 = nn.LayerNorm(EMB), nn.LayerNorm(EMB)
        self.drop = nn.Dropout(DROP)

    def forward(self, x):
        x = x + self.drop(self.attention(self.norm1(x)))
        return x + self.drop(self.feed_forward(self.norm2(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, EMB)
        self.positions = nn.Embedding(CONTEXT, EMB)
        self.drop = nn.Dropout(DROP)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(EMB)
        self.head = nn.Linear(EMB, VOCAB, bias=False)

    def hidden(self, ids):
        positions = self.positions(torch.arange(ids.shape[1]))
        return self.norm(self.blocks(self.drop(self.tokens(ids) + positions)))

    def forward(self, ids):
        return self.head(self.hidden(ids))


def autocast():
    """With the argument `autocast`, returns a context in which matrix products are computed in bf16."""
    if PRECISION != "autocast":
        return contextlib.nullcontext()
    return torch.autocast("cpu", dtype=torch.bfloat16)


def loss_of(model, inputs, targets):
    with autocast():
        logits = model(inputs)
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def in_autocast(function):
    def run():
        with torch.inference_mode(), autocast():
            return function()

    return run


def build():
    torch.manual_seed(123)
    return Model()


def greedy(model, ids, new_tokens):
    for _ in range(new_tokens):
        following = model(ids)[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, following], dim=1)


def prepare(work):
    kind = work.split()[0]
    if kind == "build":
        return build
    if kind == "product":
        m, k, n = (int(n) for n in work.split()[1].split("x"))
        dtype = torch.bfloat16 if PRECISION == "autocast" else torch.float32
        a, b = torch.ones(m, k, dtype=dtype), torch.ones(k, n, dtype=dtype)
        return lambda: a @ b
    model = build()
    if kind == "train":
        return training_step(model, loss_of, work)
    model.eval()
    if kind == "forward":
        ids = torch.arange(math.prod(sizes(work))).view(*sizes(work)) * 7 % VOCAB
        return in_autocast(lambda: model(ids))
    if kind == "prefill":
        ids = torch.arange(math.prod(sizes(work))).view(*sizes(work)) * 7 % VOCAB
        return in_autocast(lambda: model.head(model.hidden(ids)[:, -1]))
    if kind == "decode":
        prompt, new_tokens = (int(n) for n in work.split()[1].split("+"))

        ids = (torch.arange(prompt) * 7 % VOCAB)[None]
        return in_autocast(lambda: greedy(model, ids, new_tokens))
    return None


torch.set_num_threads(threads())
serve("pytorch" if PRECISION == "f32" else "pytorch-autocast", torch.__version__, prepare)
