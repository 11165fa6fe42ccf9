"""Makes the seeds: small valid inputs, from which the fuzzer starts. Needs nothing but Python."""

import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
VOCAB, CONTEXT, EMB = 3, 2, 2


def tensors(shapes, dtype="F32", size=4):
    header, offset = {}, 0
    for name, shape in shapes.items():
        end = offset + size * (shape[0] * (shape[1] if len(shape) > 1 else 1))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    return json.dumps(header, separators=(",", ":")).encode(), bytes(offset)


def sized(data):
    return struct.pack("<H", len(data)) + data


def checkpoint(name, config, shapes, **options):
    config = sized(json.dumps(config).encode())
    header, data = tensors(shapes, **options)
    (HERE / "checkpoint" / name).write_bytes(b"\0" + config + sized(header) + data)
    whole = struct.pack("<Q", len(header)) + header + data
    (HERE / "checkpoint" / f"{name}_whole").write_bytes(b"\1" + config + whole)
    index = {"metadata": {"total_size": len(data)}, "weight_map": {n: "a.safetensors" for n in shapes}}
    (HERE / "checkpoint" / f"{name}_index").write_bytes(b"\2" + config + json.dumps(index).encode())


def prompt(name, numbers, top_k, stop, text):
    head = struct.pack("<4fHB", *numbers, top_k, len(stop))
    (HERE / "prompt" / name).write_bytes(head + stop + text.encode())


GPT2 = {
    "wte.weight": [VOCAB, EMB], "wpe.weight": [CONTEXT, EMB],
    "h.0.ln_1.weight": [EMB], "h.0.ln_1.bias": [EMB],
    "h.0.attn.c_attn.weight": [EMB, 3 * EMB], "h.0.attn.c_attn.bias": [3 * EMB],
    "h.0.attn.c_proj.weight": [EMB, EMB], "h.0.attn.c_proj.bias": [EMB],
    "h.0.ln_2.weight": [EMB], "h.0.ln_2.bias": [EMB],
    "h.0.mlp.c_fc.weight": [EMB, 4 * EMB], "h.0.mlp.c_fc.bias": [4 * EMB],
    "h.0.mlp.c_proj.weight": [4 * EMB, EMB], "h.0.mlp.c_proj.bias": [EMB],
    "ln_f.weight": [EMB], "ln_f.bias": [EMB],
}
GPT2_CONFIG = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new",
    "vocab_size": VOCAB, "n_positions": CONTEXT, "n_embd": EMB, "n_layer": 1, "n_head": 1,
    "n_inner": None, "layer_norm_epsilon": 1e-5, "attn_pdrop": 0.1, "scale_attn_weights": True,
    "tie_word_embeddings": True,
}
BOOK = {
    "tok_emb.weight": [VOCAB, EMB], "pos_emb.weight": [CONTEXT, EMB],
    **{f"trf_blocks.0.att.W_{x}.weight": [EMB, EMB] for x in ("query", "key", "value")},
    "trf_blocks.0.att.out_proj.weight": [EMB, EMB], "trf_blocks.0.att.out_proj.bias": [EMB],
    "trf_blocks.0.ff.layers.0.weight": [4 * EMB, EMB], "trf_blocks.0.ff.layers.0.bias": [4 * EMB],
    "trf_blocks.0.ff.layers.2.weight": [EMB, 4 * EMB], "trf_blocks.0.ff.layers.2.bias": [EMB],
    **{f"trf_blocks.0.norm{n}.{x}": [EMB] for n in (1, 2) for x in ("scale", "shift")},
    "final_norm.scale": [EMB], "final_norm.shift": [EMB], "out_head.weight": [VOCAB, EMB],
}
BOOK_CONFIG = {
    "vocab_size": VOCAB, "context_length": CONTEXT, "emb_dim": EMB, "n_heads": 1, "n_layers": 1,
    "drop_rate": 0.1, "qkv_bias": False,
}

def run(name, which, *files):
    (HERE / "run" / name).write_bytes(bytes([which]) + b"".join(sized(file.encode()) for file in files))


for folder in ("checkpoint", "prompt", "run"):
    (HERE / folder).mkdir(exist_ok=True)
checkpoint("gpt2", GPT2_CONFIG, GPT2)
checkpoint("gpt2_half", GPT2_CONFIG, {f"transformer.{n}": s for n, s in GPT2.items()}, dtype="BF16", size=2)
checkpoint("book", BOOK_CONFIG, BOOK)
prompt("greedy", (0, 1, 0, 1), 0xFFFF, b"", "Every effort moves you")
prompt("sampled", (1.4, 0.9, 0.05, 1.1), 25, b"\n", "Hello <|endoftext|> wörld 12345   \n\t  def f(x): 🙂")
run("latest", 1, json.dumps({"checkpoints": ["step-00000001"], "best": {"checkpoint": "step-00000001.2", "val_loss": 1.5}}))
run("manifest", 2, json.dumps({"version": 1, "files": {"state.json": {"bytes": 2, "sha256": "00" * 32}}}))
run("config", 8, json.dumps(BOOK_CONFIG))
STEP = {"step": 0, "epoch": 0, "loss": 1.5, "learning_rate": 1e-3, "grad_norm": 0.5, "tokens_seen": 2}
run("state", 4, json.dumps({
    "version": 1, "config": {"max_steps": 1}, "steps_done": 1, "micro_step": 0, "loss_sum": 0.0, "tokens_seen": 2, "epoch": 0,
    "steps": [STEP], "evaluations": [], "optimizer_steps": 1, "epoch_in_progress": {"rng": "", "position": 1}, "rng": "",
    "train_data": {"windows": 3, "max_length": 2, "stride": 2, "batch_size": 1, "batches": 3, "sha256": ""}, "val_data": None,
}))
