"""The peers `nanogpt` and `nanogpt-compiled`: the model of nanoGPT's model.py.

The model has no biases and a tied head, and it calls scaled_dot_product_attention.

The first argument is `eager`, or `compiled` if the model should be compiled with `torch.compile`. The
script own_text.py also uses this model.
"""

import math
import sys

import torch
from torch import nn
from torch.nn import functional as F


class LayerNorm(nn.Module):
    def __init__(self, emb):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(emb))

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, None, 1e-5)


class CausalSelfAttention(nn.Module):
    def __init__(self, emb, heads, dropout):
        super().__init__()
        self.c_attn = nn.Linear(emb, 3 * emb, bias=False)
        self.c_proj = nn.Linear(emb, emb, bias=False)
        self.resid_dropout = nn.Dropout(dropout)
        self.emb, self.heads, self.dropout = emb, heads, dropout

    def forward(self, x):
        batch, tokens, emb = x.size()
        split = (batch, tokens, self.heads, emb // self.heads)
        q, k, v = (y.view(split).transpose(1, 2) for y in self.c_attn(x).split(self.emb, dim=2))
        dropout = self.dropout if self.training else 0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=dropout, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(batch, tokens, emb)
        return self.resid_dropout(self.c_proj(y))


class MLP(nn.Module):
    def __init__(self, emb, dropout):
        super().__init__()
        self.c_fc, self.gelu = nn.Linear(emb, 4 * emb, bias=False), nn.GELU()
        self.c_proj, self.dropout = nn.Linear(4 * emb, emb, bias=False), nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.c_proj(self.gelu(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self, emb, heads, dropout):
        super().__init__()
        self.ln_1, self.attn = LayerNorm(emb), CausalSelfAttention(emb, heads, dropout)
        self.ln_2, self.mlp = LayerNorm(emb), MLP(emb, dropout)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocab, context, emb, heads, layers, dropout=0.0):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, emb), nn.Embedding(context, emb)
        self.drop = nn.Dropout(dropout)
        self.h = nn.ModuleList([Block(emb, heads, dropout) for _ in range(layers)])
        self.ln_f = LayerNorm(emb)
        self.lm_head = nn.Linear(emb, vocab, bias=False)
        self.wte.weight = self.lm_head.weight
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                shortcut = name.endswith("c_proj.weight")
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * layers) if shortcut else 0.02)

    def forward(self, ids, targets, reduction="mean"):
        x = self.drop(self.wte(ids) + self.wpe(torch.arange(ids.size(1))))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1), reduction=reduction)

    def configure_optimizers(self, weight_decay, learning_rate, betas):
        groups = [
            {"params": [p for p in self.parameters() if p.dim() >= 2], "weight_decay": weight_decay},
            {"params": [p for p in self.parameters() if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, fused=True)


def prepare(work):
    """Prepares a workload such as `train 12x64 65,64,128,4,4 10 0.1`, which is ten steps with dropout 0.1."""
    if not work.startswith("train"):
        return None
    torch.manual_seed(1337)
    model = GPT(*shape(work), dropout=drop_rate(work))
    optimizer = model.configure_optimizers(0.1, 1e-3, (0.9, 0.99))
    step = torch.compile(model) if sys.argv[1:] == ["compiled"] else model
    return training_step(model, lambda _, inputs, targets: step(inputs, targets), work, optimizer)


if __name__ == "__main__":
    from protocol import drop_rate, serve, shape, threads, training_step

    torch.set_num_threads(threads())
    name = "nanogpt-compiled" if sys.argv[1:] == ["compiled"] else "nanogpt"
    serve(name, f"on torch {torch.__version__}", prepare)
