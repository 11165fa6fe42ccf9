"""The tiny line protocol between `cargo xtask bench` and a peer.

A peer prints `ready NAME VERSION`, then answers each line it reads:

    run WORK    -> `seconds S` | `absent REASON`   one timed run, after a warm-up the first time (but for `build`)
    drop        -> `ok`                            lets go of what the last work held
    peak        -> `bytes N`                       the most memory the process has held so far
    (end of input) -> the process ends
"""

import gc
import os
import sys
import time

# GPT-2 124M with the book's dropout.
VOCAB, CONTEXT, EMB, HEADS, LAYERS, DROP = 50257, 1024, 768, 12, 12, 0.1
# What a model that was loaded is given.
PROMPT = [15496, 11, 314, 716]


def threads():
    """How many threads the peer may use: the bench says it in BENCH_THREADS."""
    return int(os.environ.get("BENCH_THREADS", "2"))


def serve(name, version, prepare):
    """Answers until the input ends.

    `prepare(work)` returns a function to be timed, or None if the peer does not do this work.
    What one kind of work holds is dropped before the next kind is prepared.
    """
    answer(f"ready {name} {version}")
    current, step = None, None
    for line in sys.stdin:
        command, _, work = line.strip().partition(" ")
        if command == "peak":
            answer(peak())
            continue
        if command == "drop":
            current, step = None, None
            gc.collect()
            answer("ok")
            continue
        if command != "run":
            answer(f"absent unknown command {command}")
            continue
        try:
            if work != current:
                current, step = work, None
                gc.collect()
                step = prepare(work)
                if step is not None and not work.startswith("build"):
                    step()
            if step is None:
                answer(f"absent {name} does not do {work}")
                continue
            start = time.perf_counter()
            step()
            answer(f"seconds {time.perf_counter() - start:.9f}")
        except Exception as error:  # a peer that cannot run is absent, and says why
            current, step = None, None
            answer("absent " + " ".join(str(error).split())[:200])


def peak():
    """The answer to `peak`. (`getrusage` would count what the process that started this one held.)"""
    try:
        with open("/proc/self/status") as status:
            line = next(line for line in status if line.startswith("VmHWM:"))
        return f"bytes {int(line.split()[1]) * 1024}"
    except (OSError, StopIteration):
        return "absent the system doesn't tell the peak of a process"


def answer(line):
    """One line to the bench."""
    print(line, flush=True)


def sizes(work):
    """`train 4x256` -> (4, 256)."""
    batch, _, tokens = work.split()[1].partition("x")
    return int(batch), int(tokens)


def texts_and_lengths(work):
    """`decode 16+128 8` -> (8, 16, 128): texts, tokens of each prompt, new tokens; without the last word one text."""
    words = work.split()
    prompt, _, new_tokens = words[1].partition("+")
    return int(words[2]) if len(words) > 2 else 1, int(prompt), int(new_tokens)


def shape(work):
    """`train 12x64 65,64,128,4,4` -> (65, 64, 128, 4, 4): vocabulary, context, features, heads, layers; GPT-2 124M's without the third word."""
    words = work.split()
    if len(words) < 3:
        return VOCAB, CONTEXT, EMB, HEADS, LAYERS
    return tuple(int(n) for n in words[2].split(","))


def drop_rate(work):
    """`train 12x64 65,64,128,4,4 10 0.2` -> 0.2, without it 0.1."""
    words = work.split()
    return float(words[4]) if len(words) > 4 else DROP


def training_step(model, loss_of, work, optimizer=None):
    """Zero the gradients, forward, backward and one AdamW update, on a fixed batch; `train 12x64 65,64,128,4,4 10` is ten such steps."""
    import torch

    batch, tokens = sizes(work)
    ids = torch.randint(0, shape(work)[0], (batch, tokens + 1), generator=torch.Generator().manual_seed(1))
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    if optimizer is None:
        optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, weight_decay=0.1, fused=True)
    model.train()
    words = work.split()
    steps = int(words[3]) if len(words) > 3 else 1

    def step():
        for _ in range(steps):
            optimizer.zero_grad()
            loss = loss_of(model, inputs, targets)
            loss.backward()
            optimizer.step()
        return loss.item()

    return step
