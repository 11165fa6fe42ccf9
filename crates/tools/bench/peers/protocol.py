"""The protocol between `cargo xtask bench` and a peer, which exchange lines of text.

A peer prints `ready NAME VERSION`. Then it answers each line that it reads:

    run WORK  ->  seconds S, or absent REASON
    drop      ->  ok
    peak      ->  bytes N, or absent REASON

`run` runs a workload once and measures its time. If the workload wasn't the last one, it is first run
once without measuring, unless it is `build`. `drop` releases the memory of the last workload. `peak`
returns the largest amount of memory that the process has occupied so far. The process ends when its
input ends.
"""

import gc
import os
import sys
import time

# The sizes of GPT-2 124M, and the book's dropout rate.
VOCAB, CONTEXT, EMB, HEADS, LAYERS, DROP = 50257, 1024, 768, 12, 12, 0.1
# The prompt for a model that is loaded from a file.
PROMPT = [15496, 11, 314, 716]


def threads():
    """Returns the number of threads that the peer may use, which the bench sets in BENCH_THREADS."""
    return int(os.environ.get("BENCH_THREADS", "2"))


def serve(name, version, prepare):
    """Answers commands until the input ends.

    `prepare(work)` returns a function whose time is measured, or None if the peer doesn't implement
    this workload. The memory of a workload is released before a different workload is prepared.
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
                answer(f"absent {name} doesn't implement {work}")
                continue
            start = time.perf_counter()
            step()
            answer(f"seconds {time.perf_counter() - start:.9f}")
        except Exception as error:  # A peer that can't run is absent, with a reason.
            current, step = None, None
            answer("absent " + " ".join(str(error).split())[:200])


def peak():
    """Returns the answer to `peak`.

    `getrusage` isn't used because its value can come from the process that started this one.
    """
    try:
        with open("/proc/self/status") as status:
            line = next(line for line in status if line.startswith("VmHWM:"))
        return f"bytes {int(line.split()[1]) * 1024}"
    except (OSError, StopIteration):
        return "absent this system doesn't report the peak memory of a process"


def answer(line):
    """Sends a line to the bench."""
    print(line, flush=True)


def sizes(work):
    """Returns the batch size and the number of tokens of a workload: `train 4x256` -> (4, 256)."""
    batch, _, tokens = work.split()[1].partition("x")
    return int(batch), int(tokens)


def texts_and_lengths(work):
    """Returns the number of texts, the tokens of each prompt, and the new tokens per text.

    `decode 16+128 8` -> (8, 16, 128). Without the last word, there is one text.
    """
    words = work.split()
    prompt, _, new_tokens = words[1].partition("+")
    return int(words[2]) if len(words) > 2 else 1, int(prompt), int(new_tokens)


def shape(work):
    """Returns the sizes of the model: vocabulary, context, features, heads and layers.

    `train 12x64 65,64,128,4,4` -> (65, 64, 128, 4, 4). Without the third word, the sizes are those of
    GPT-2 124M.
    """
    words = work.split()
    if len(words) < 3:
        return VOCAB, CONTEXT, EMB, HEADS, LAYERS
    return tuple(int(n) for n in words[2].split(","))


def drop_rate(work):
    """Returns the dropout rate of a workload.

    `train 12x64 65,64,128,4,4 10 0.2` -> 0.2. Without the last word, the rate is 0.1.
    """
    words = work.split()
    return float(words[4]) if len(words) > 4 else DROP


def training_step(model, loss_of, work, optimizer=None):
    """Returns a function that trains on a fixed batch.

    Each step resets the gradients, computes the loss and the gradients, and updates the weights with
    AdamW. `train 12x64 65,64,128,4,4 10` takes ten steps. Without the last word, there is one step.
    """
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
