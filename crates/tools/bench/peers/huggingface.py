"""The peers `transformers-f32`, `transformers-bf16` and `transformers-autocast`.

The model is a GPT2LMHeadModel with the sizes of GPT-2 124M, a tied head and a dropout rate of 0.1.
Text is generated with the model's method `generate` and its cache.

The first argument is the precision, `f32`, `bf16` or `autocast`.
"""

import contextlib
import math
import sys

from protocol import CONTEXT, EMB, HEADS, LAYERS, PROMPT, VOCAB, serve, sizes, texts_and_lengths, threads, training_step

import torch
import transformers
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel

PRECISION = sys.argv[1] if len(sys.argv) > 1 else "f32"
DTYPE = torch.bfloat16 if PRECISION == "bf16" else torch.float32


def autocast():
    """With the argument `autocast`, returns a context in which matrix products are computed in bf16.

    The weights are stored in f32.
    """
    if PRECISION != "autocast":
        return contextlib.nullcontext()
    return torch.autocast("cpu", dtype=torch.bfloat16)


def in_autocast(function):
    def run():
        with torch.inference_mode(), autocast():
            return function()

    return run


def loss_of(model, inputs, targets):
    with autocast():
        logits = model(inputs).logits
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def build():
    torch.manual_seed(123)
    # The default dropout rates are 0.1.
    config = GPT2Config(
        vocab_size=VOCAB,
        n_positions=CONTEXT,
        n_embd=EMB,
        n_head=HEADS,
        n_layer=LAYERS,
        bos_token_id=0,
        eos_token_id=0,
    )
    return GPT2LMHeadModel(config).to(DTYPE)


@torch.inference_mode()
def first_token(folder):
    model = GPT2LMHeadModel.from_pretrained(folder, dtype=DTYPE).eval()
    return model(torch.tensor([PROMPT]), logits_to_keep=1).logits.argmax().item()


def prepare(work):
    kind = work.split()[0]
    if kind == "build":
        return build
    if kind == "load":
        return lambda: first_token(work.split(maxsplit=1)[1])
    # With AVX-512, oneDNN computes products in bf16. Otherwise, PyTorch multiplies one number at a
    # time, which is very slow.
    if PRECISION != "f32" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        raise RuntimeError("PyTorch needs AVX-512 for fast products in bf16; without it, this would take minutes")
    model = build()
    if kind == "train":
        return training_step(model, loss_of, work)
    model.eval()
    if kind == "forward":
        ids = torch.arange(math.prod(sizes(work))).view(*sizes(work)) * 7 % VOCAB
        return in_autocast(lambda: model(ids, use_cache=False).logits)
    if kind == "prefill":
        ids = torch.arange(math.prod(sizes(work))).view(*sizes(work)) * 7 % VOCAB
        return in_autocast(lambda: model(ids, logits_to_keep=1).logits)
    if kind == "decode":
        texts, prompt, new_tokens = texts_and_lengths(work)
        ids = torch.arange(texts * prompt).view(texts, prompt) * 7 % VOCAB
        settings = dict(
            attention_mask=torch.ones_like(ids),
            min_new_tokens=new_tokens,
            max_new_tokens=new_tokens,
            do_sample=False,
            use_cache=True,
            pad_token_id=VOCAB - 1,
        )
        return in_autocast(lambda: model.generate(ids, **settings))
    return None


transformers.logging.set_verbosity_error()
torch.set_num_threads(threads())
versions = f"{transformers.__version__} on torch {torch.__version__}"
serve(f"transformers-{PRECISION}", versions, prepare)
