"""The peers `llama-f32`, `llama-f16`, `llama-q8_0` and `llama-q4_0`: llama.cpp through `llama-cpp-python`, GPT-2 124M with a tied head.

The first argument is the format. The weights are random, written with `gguf` to a file that is gone when the peer ends; ids are fed to the C functions directly.
"""

import sys
import tempfile

from protocol import CONTEXT, EMB, HEADS, LAYERS, PROMPT, VOCAB, serve, sizes, threads

import gguf
import llama_cpp
import numpy as np

FORMAT = sys.argv[1] if len(sys.argv) > 1 else "f32"
TYPE = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
}[FORMAT]


def write_model(path):
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(EMB)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(4 * EMB)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(1e-5)
    writer.add_vocab_size(VOCAB)
    writer.add_tokenizer_model("none")
    random = np.random.default_rng(123)

    def matrix(name, rows, columns):
        values = random.normal(0, 0.02, (rows, columns)).astype(np.float32)
        writer.add_tensor(name, gguf.quants.quantize(values, TYPE), raw_dtype=TYPE)

    def layer(name, columns, rows):
        matrix(f"{name}.weight", rows, columns)
        writer.add_tensor(f"{name}.bias", np.zeros(rows, np.float32))

    def norm(name):
        writer.add_tensor(f"{name}.weight", np.ones(EMB, np.float32))
        writer.add_tensor(f"{name}.bias", np.zeros(EMB, np.float32))

    matrix("token_embd.weight", VOCAB, EMB)
    positions = random.normal(0, 0.02, (CONTEXT, EMB)).astype(np.float32)
    writer.add_tensor("position_embd.weight", positions)
    for i in range(LAYERS):
        norm(f"blk.{i}.attn_norm")
        layer(f"blk.{i}.attn_qkv", EMB, 3 * EMB)
        layer(f"blk.{i}.attn_output", EMB, EMB)
        norm(f"blk.{i}.ffn_norm")
        layer(f"blk.{i}.ffn_up", EMB, 4 * EMB)
        layer(f"blk.{i}.ffn_down", 4 * EMB, EMB)
    norm("output_norm")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def load(path):
    settings = llama_cpp.llama_model_default_params()
    settings.n_gpu_layers = 0
    model = llama_cpp.llama_model_load_from_file(path.encode(), settings)
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = CONTEXT
    settings.n_threads = settings.n_threads_batch = threads()
    context = llama_cpp.llama_init_from_model(model, settings)
    if not context:
        raise RuntimeError("llama.cpp does not load the model")
    return context


def take_in(context, ids):
    """The logits of the last of the ids, which follow those of earlier calls."""
    tokens = (llama_cpp.llama_token * len(ids))(*ids)
    if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, len(ids))):
        raise RuntimeError("llama_decode failed")
    return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, -1), (VOCAB,))


def forget(context):
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)


def prepare(work):
    kind = work.split()[0]
    if kind == "prefill":
        ids = [7 * i % VOCAB for i in range(sizes(work)[1])]

        def prompt():
            forget(context)
            take_in(context, ids)

        return prompt
    if kind == "load":

        def first_token():
            context = load(file.name)
            take_in(context, PROMPT)
            model = llama_cpp.llama_get_model(context)
            llama_cpp.llama_free(context)
            llama_cpp.llama_model_free(model)

        return first_token
    if kind == "decode":
        prompt_length, new_tokens = (int(n) for n in work.split()[1].split("+"))
        ids = [7 * i % VOCAB for i in range(prompt_length)]

        def decode():
            forget(context)
            logits = take_in(context, ids)
            for _ in range(new_tokens - 1):
                logits = take_in(context, [int(logits.argmax())])

        return decode
    return None


# A name keeps the callback alive as long as llama.cpp may call it.
quiet = llama_cpp.llama_log_callback(lambda *_: None)
llama_cpp.llama_log_set(quiet, None)
llama_cpp.llama_backend_init()
file = tempfile.NamedTemporaryFile(suffix=".gguf")
write_model(file.name)
context = load(file.name)
serve(f"llama-{FORMAT}", llama_cpp.__version__, prepare)
