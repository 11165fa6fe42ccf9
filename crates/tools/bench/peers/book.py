"""The peer `pytorch`: GPT-2 124M in the book's architecture, in torch.nn modules.

Untied output head, query, key and value without a bias, an explicit causal mask and softmax, tanh GELU, dropout 0.1.
Generation computes the whole sequence again for each token, as the book's `generate_text_simple` does: it has no cache.
"""

import math
from array import array
from itertools import islice
from pathlib import Path

from protocol import CONTEXT, DROP, EMB, HEADS, LAYERS, VOCAB, serve, sizes, threads, training_step

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader


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
    def __init__(self, context):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, EMB)
        self.positions = nn.Embedding(context, EMB)
        self.drop = nn.Dropout(DROP)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(EMB)
        self.head = nn.Linear(EMB, VOCAB, bias=False)

    def hidden(self, ids):
        positions = self.positions(torch.arange(ids.shape[1]))
        return self.norm(self.blocks(self.drop(self.tokens(ids) + positions)))

    def forward(self, ids):
        return self.head(self.hidden(ids))


def loss_of(model, inputs, targets):
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def build(context=CONTEXT):
    torch.manual_seed(123)
    return Model(context)


def greedy(model, ids, new_tokens):
    for _ in range(new_tokens):
        following = model(ids)[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, following], dim=1)


def train_epochs(epochs, folder):
    """The run of the book's section 5.2 on the u16 tokens of train.bin and val.bin.

    Building the model, both losses before, batches of 2 x 256, an evaluation of 5 batches each every 5 steps, and a greedy sample of 50 tokens after each epoch.
    """
    model = build(256)
    train, val = (windows(folder / name) for name in ("train.bin", "val.bin"))
    loader = DataLoader(train, batch_size=2, shuffle=True, drop_last=True)
    val_loader = DataLoader(val, batch_size=2, shuffle=False, drop_last=False)
    prompt = train[0][0][None, :4]
    mean_loss(model, loader, None)
    mean_loss(model, val_loader, None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, weight_decay=0.1)
    step = 0
    for _ in range(epochs):
        model.train()
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss_of(model, inputs, targets).backward()
            optimizer.step()
            if step % 5 == 0:
                mean_loss(model, loader, 5)
                mean_loss(model, val_loader, 5)
            step += 1
        model.eval()
        with torch.no_grad():
            greedy(model, prompt, 50)


def windows(path, length=256):
    ids = torch.tensor(array("H", path.read_bytes()), dtype=torch.long)
    starts = range(0, len(ids) - length, length)
    return [(ids[i : i + length], ids[i + 1 : i + length + 1]) for i in starts]


def mean_loss(model, loader, batches):
    """In evaluation, over the first so many batches; training goes on afterwards."""
    model.eval()
    with torch.no_grad():
        losses = [loss_of(model, *batch).item() for batch in islice(loader, batches)]
    model.train()
    return sum(losses) / len(losses)


def prepare(work):
    kind = work.split()[0]
    if kind == "build":
        return build
    if kind == "epochs":
        _, epochs, folder = work.split(maxsplit=2)
        return lambda: train_epochs(int(epochs), Path(folder))
    if kind == "product":
        m, k, n = (int(n) for n in work.split()[1].split("x"))
        a, b = torch.ones(m, k), torch.ones(k, n)
        return lambda: a @ b
    model = build()
    if kind == "train":
        return training_step(model, loss_of, work)
    model.eval()
    if kind == "forward":
        ids = torch.arange(math.prod(sizes(work))).view(*sizes(work)) * 7 % VOCAB
        return torch.inference_mode()(lambda: model(ids))
    if kind == "prefill":
        ids = torch.arange(math.prod(sizes(work))).view(*sizes(work)) * 7 % VOCAB
        return torch.inference_mode()(lambda: model.head(model.hidden(ids)[:, -1]))
    if kind == "decode":
        prompt, new_tokens = (int(n) for n in work.split()[1].split("+"))

        ids = (torch.arange(prompt) * 7 % VOCAB)[None]
        return torch.inference_mode()(lambda: greedy(model, ids, new_tokens))
    return None


torch.set_num_threads(threads())
serve("pytorch", torch.__version__, prepare)
