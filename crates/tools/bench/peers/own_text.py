"""Compares the losses that `gpt train` and nanoGPT's recipe in PyTorch reach on a text in a given time.

    python own_text.py target/release/gpt TEXT [--seconds 300] [--tokenizers chars bpe:1024] [--threads 2]

The results are in bits per byte of the same validation text. Both models have the size and the
settings that nanoGPT's README recommends for a CPU, and the same tokenizer, which `gpt train` stores
in the folder of its run. Each program first takes some steps whose time is measured, and then trains
for as many steps as fit in the given time, so its learning rate reaches the minimum in the last step.

This script isn't part of `cargo xtask bench`, which only measures speed.
"""

import argparse
import json
import math
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from nanogpt import GPT
from torch import nn
from transformers import AutoTokenizer

LAYERS, HEADS, EMB, CONTEXT, BATCH = 4, 4, 128, 64, 12
PEAK, LEAST, WARMUP, BETAS, DECAY, CLIP = 1e-3, 1e-4, 100, (0.9, 0.99), 0.1, 1.0
TIMED = 300  # Number of steps that are taken to measure the speed.


def train_nano(vocab, ids, steps):
    """Trains a model with nanoGPT's training loop, whose windows begin at random positions of the text."""
    torch.manual_seed(1337)
    model = GPT(vocab, CONTEXT, EMB, HEADS, LAYERS)
    optimizer = model.configure_optimizers(DECAY, PEAK, BETAS)
    window = torch.arange(CONTEXT + 1)
    for step in range(steps):
        done = (step - WARMUP) / max(1, steps - WARMUP)
        rate = LEAST + 0.5 * (1 + math.cos(math.pi * done)) * (PEAK - LEAST)
        for group in optimizer.param_groups:
            group["lr"] = rate if step >= WARMUP else PEAK * (step + 1) / (WARMUP + 1)
        batch = ids[torch.randint(len(ids) - CONTEXT, (BATCH, 1)) + window]
        model(batch[:, :-1], batch[:, 1:]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return model


@torch.inference_mode()
def nats(model, ids):
    """Returns the sum of the losses of all IDs but the first, in nats.

    As in `gpt eval`, the windows don't overlap.
    """
    whole = (len(ids) - 1) // CONTEXT * CONTEXT
    batches = [*zip(*(part.view(-1, CONTEXT).split(64) for part in (ids[:whole], ids[1 : whole + 1])))]
    if whole < len(ids) - 1:
        batches.append((ids[None, whole:-1], ids[None, whole + 1 :]))
    return sum(model(*batch, "sum").item() for batch in batches)


def train_ours(args, tokenizer, data, out, steps):
    """Runs `gpt train` and returns its speed at the end of the run, in tokens per second."""
    flags = {
        "data": data, "tokenizer": tokenizer, "out-dir": out, "threads": args.threads,
        "n-layers": LAYERS, "n-heads": HEADS, "emb-dim": EMB, "context-length": CONTEXT, "batch-size": BATCH,
        "drop-rate": 0, "max-steps": steps, "learning-rate": PEAK, "min-lr": LEAST,
        "warmup-steps": WARMUP, "beta2": BETAS[1], "weight-decay": DECAY, "grad-clip": CLIP,
        "eval-interval": 1000,
    }  # fmt: skip
    command = [args.gpt, "train", *(f"--{name}={value}" for name, value in flags.items())]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    lines = map(json.loads, (out / "log.jsonl").read_text().splitlines())
    return [line["tokens_per_second"] for line in lines if "tokens_per_second" in line][-1]


def timed(work, *arguments):
    start = time.perf_counter()
    done = work(*arguments)
    return done, time.perf_counter() - start


def compare(args, tokenizer, folder):
    data, held_out = folder / "data", folder / "data" / "val.txt"
    speed = train_ours(args, tokenizer, data, folder / "start", TIMED)
    steps = int(args.seconds * speed / (BATCH * CONTEXT))
    _, seconds = timed(train_ours, args, tokenizer, data, folder / "run", steps)
    report = [args.gpt, "eval", "--json", f"--model={folder / 'run'}", f"--data={held_out}"]
    report = json.loads(subprocess.check_output([*report, f"--threads={args.threads}"]))
    print(f"{tokenizer:10} gpt train  {seconds:6.0f} {steps:8} {report['bits_per_byte']:15.4f}", flush=True)

    tokens = AutoTokenizer.from_pretrained(folder / "run" / "model")
    train, val = (
        torch.tensor(tokens((data / name).read_bytes().decode())["input_ids"])
        for name in ("train.txt", "val.txt")
    )
    assert len(val) == report["tokens"] + 1, "the tokenizer of transformers returns different tokens"
    _, seconds = timed(train_nano, len(tokens), train, TIMED)
    steps = int(args.seconds * TIMED / seconds)
    model, seconds = timed(train_nano, len(tokens), train, steps)
    size = held_out.stat().st_size - len(tokens.decode(val[:1]).encode())
    bits = nats(model, val) / math.log(2) / size
    print(f"{'':10} nanoGPT    {seconds:6.0f} {steps:8} {bits:15.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gpt", help="path to the program gpt")
    parser.add_argument("text", type=Path, help="path to a UTF-8 text; its last tenth is for validation")
    parser.add_argument("--seconds", type=float, default=300, help="time for each training run")
    parser.add_argument("--tokenizers", nargs="+", default=["chars", "bpe:1024"])
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    text = args.text.read_bytes().decode()
    cut = len(text) * 9 // 10
    print(f"{'tokens':10} by        seconds    steps  bits per byte")
    for tokenizer in args.tokenizers:
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "data"
            data.mkdir()
            (data / "train.txt").write_bytes(text[:cut].encode())
            (data / "val.txt").write_bytes(text[cut:].encode())
            compare(args, tokenizer, Path(folder))


if __name__ == "__main__":
    main()
