"""Writes the seeds, which are small valid inputs that the fuzzer starts with. Only Python is needed."""

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


for folder in ("checkpoint", "prompt", "run", "options", "tokenizer_files"):
    (HERE / folder).mkdir(exist_ok=True)
checkpoint("gpt2", GPT2_CONFIG, GPT2)
checkpoint("gpt2_half", GPT2_CONFIG, {f"transformer.{n}": s for n, s in GPT2.items()}, dtype="BF16", size=2)
checkpoint("book", BOOK_CONFIG, BOOK)
prompt("greedy", (0, 1, 0, 1), 0xFFFF, b"", "Every effort moves you")
prompt("sampled", (1.4, 0.9, 0.05, 1.1), 25, b"\n", "Hello <|endoftext|> wörld 12345   \n\t  def f(x): 🙂")
run("manifest", 1, json.dumps({
    "version": 5, "run": "00" * 16, "number": 1, "step": 1, "val_loss": 1.5,
    "files": {"state.json": {"bytes": 2, "sha256": "00" * 32}},
}))
run("config", 4, json.dumps(BOOK_CONFIG))
STEP = {"step": 0, "epoch": 0, "loss": 1.5, "learning_rate": 1e-3, "grad_norm": 0.5, "tokens_seen": 2}
run("state", 2, json.dumps({
    "settings": {
        "model": BOOK_CONFIG, "config": {"max_steps": 1}, "validation_data": None,
        "training_data": {
            "tokens": 7, "max_length": 2, "stride": 2, "batch_size": 1, "shuffle": False,
            "drop_last": False, "sha256": "",
        },
    },
    "rng": "", "epoch": {"number": 0, "drawn_from": "", "position": 1},
    "last_step": STEP, "last_evaluation": None,
}))


def options(name, toml, *lines):
    log = "".join(json.dumps(line) + "\n" for line in lines)
    (HERE / "options" / name).write_bytes(sized(toml.encode()) + log.encode())


options("aliases", "\ufeffn_embd = 64\r\nn-layer = 2\nlr = 1e-3\ndropout_build = 'mkl'\ntied = true\ntokenizer = 'bpe:300'\n")
options(
    "run", "preset = \"story\"\nseed = \"18446744073709551615\"\nprompt = \"a\\nb\"\nthreads = 1\nweight_decay = 0.1\n",
    {"event": "start", "steps_done": 0, "parameters": 9, "tokens_per_step": 8, "options": {"seed": 1}},
    {"event": "step", "tokens_per_second": 9.5, **STEP},
    {"event": "eval", "steps_done": 1, "epoch": 0, "train_loss": 1.5, "val_loss": None, "tokens_seen": 2},
    {"event": "sample", "steps_done": 1, "text": "a\n"},
    {"event": "saved", "steps_done": 1, "path": "run/checkpoints/step-00000001"},
)


def tokenizer_files(name, tokenizer="", vocabulary="", merges="", config="", text=""):
    files = [file if isinstance(file, str) else json.dumps(file) for file in (tokenizer, vocabulary, merges, config)]
    (HERE / "tokenizer_files" / name).write_bytes(b"".join(sized(file.encode()) for file in files) + text.encode())


VOCABULARY = {"a": 0, "b": 1, "\u0120": 2, "ab": 3, "\u0120ab": 4, "<|endoftext|>": 5}
MERGES = ["a b", "\u0120 ab"]
END = {"id": 5, "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
CONFIG = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}
tokenizer_files("bpe", {
    "added_tokens": [END], "normalizer": None, "pre_tokenizer": BYTES, "post_processor": None, "decoder": BYTES,
    "model": {"type": "BPE", "vocab": VOCABULARY, "merges": MERGES},
}, config=CONFIG, text="ab ab<|endoftext|>ba")
tokenizer_files("chars", {
    "added_tokens": [], "pre_tokenizer": None, "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "unk_token": "?", "vocab": {"?": 0, "a": 1, "\u00e9": 2}, "merges": []},
}, config=CONFIG, text="a\u00e9b")
tokenizer_files("legacy", "", VOCABULARY, "#version: 0.2\n" + "\n".join(MERGES) + "\n", {"tokenizer_class": "GPT2Tokenizer"}, "ab ab")
