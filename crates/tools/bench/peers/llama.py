"""The peers `llama-f32`, `llama-f16`, `llama-q8_0` and `llama-q4_0`: llama.cpp.

The model has the sizes of GPT-2 124M and a tied head. Its weights are random. The package `gguf`
writes them to a temporary file, which is deleted when the peer ends.

If `llama-cpp-python` is installed, llama.cpp's C functions are called directly. This package is
compiled for the machine's processor. Otherwise, requests are sent to the server of `xllamacpp`, which
is a precompiled package for processors with AVX2.

The first argument is the format of the weights.
"""

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from protocol import CONTEXT, EMB, HEADS, LAYERS, PROMPT, VOCAB, serve, sizes, texts_and_lengths, threads

import gguf
import numpy as np

try:
    import llama_cpp
except ImportError:
    import xllamacpp

    llama_cpp = None

FORMAT = sys.argv[1] if len(sys.argv) > 1 else "f32"
SLOT = 256  # The context length of each text, if there are several texts.
ROOM = 2 * CONTEXT  # The server rejects a prompt that fills the whole context.
TYPE = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
}[FORMAT]


def write_model(path):
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(ROOM)
    writer.add_embedding_length(EMB)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(4 * EMB)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(1e-5)
    writer.add_vocab_size(VOCAB)
    # The server requires a vocabulary, although no text is tokenized.
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([f"t{i}" for i in range(VOCAB)])
    writer.add_token_merges(["t 0"])
    writer.add_eos_token_id(VOCAB - 1)
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
    positions = random.normal(0, 0.02, (ROOM, EMB)).astype(np.float32)
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


class Functions:
    """A model that is used through the C functions of `llama_cpp`."""

    def __init__(self, path, slots=1):
        settings = llama_cpp.llama_model_default_params()
        settings.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), settings)
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx = settings.n_batch = settings.n_ubatch = CONTEXT if slots == 1 else slots * SLOT
        settings.n_seq_max = slots
        settings.n_threads = settings.n_threads_batch = threads()
        self.context = llama_cpp.llama_init_from_model(self.model, settings)
        if not self.context:
            raise RuntimeError("llama.cpp can't load the model")

    def take_in(self, texts, past):
        """Adds IDs to each text, which already has `past` IDs.

        Returns a list with the most likely next ID of each text.
        """
        total = sum(len(ids) for ids in texts)
        batch = llama_cpp.llama_batch_init(total, 0, 1)
        last, row = [], 0
        for slot, ids in enumerate(texts):
            for i, id in enumerate(ids):
                batch.token[row], batch.pos[row] = id, past + i
                batch.n_seq_id[row], batch.seq_id[row][0] = 1, slot
                batch.logits[row] = i == len(ids) - 1
                row += 1
            last.append(row - 1)
        batch.n_tokens = total
        failed = llama_cpp.llama_decode(self.context, batch)
        llama_cpp.llama_batch_free(batch)
        if failed:
            raise RuntimeError("llama_decode failed")
        logits = (llama_cpp.llama_get_logits_ith(self.context, row) for row in last)
        return [[int(np.ctypeslib.as_array(of, (VOCAB,)).argmax())] for of in logits]

    def write(self, texts, new_tokens):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
        past, following = len(texts[0]), self.take_in(texts, 0)
        for i in range(new_tokens - 1):
            following = self.take_in(following, past + i)

    def close(self):
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)


class Server:
    """A model that is used through the server of `xllamacpp`."""

    def __init__(self, path, slots=1):
        settings = xllamacpp.CommonParams()
        settings.model.path = path
        settings.n_ctx = ROOM if slots == 1 else slots * SLOT
        settings.n_batch = settings.n_ubatch = CONTEXT
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads()
        settings.n_parallel, settings.warmup, settings.fit_params = slots, False, False
        self.server = xllamacpp.Server(settings)
        self.clients = ThreadPoolExecutor(slots)

    def write(self, texts, new_tokens):
        list(self.clients.map(lambda ids: self.write_one(ids, new_tokens), texts))

    def write_one(self, ids, new_tokens):
        request = dict(prompt=ids, n_predict=new_tokens, temperature=0, cache_prompt=False, ignore_eos=True)
        answer = self.server.handle_completions(request)
        if answer.get("usage", {}).get("completion_tokens") != new_tokens:
            raise RuntimeError(f"the server's answer was {str(answer)[:150]}")

    def close(self):
        self.server = None


def prepare(work):
    kind = work.split()[0]
    if kind == "prefill":
        ids = [7 * i % VOCAB for i in range(sizes(work)[1])]
        return lambda: model.write([ids], 1)
    if kind == "decode":
        texts, prompt, new_tokens = texts_and_lengths(work)
        texts = [[7 * (i * prompt + j) % VOCAB for j in range(prompt)] for i in range(texts)]
        of_texts = model if len(texts) == 1 else Model(file.name, len(texts))
        return lambda: of_texts.write(texts, new_tokens)
    if kind == "load":

        def first_token():
            model = Model(file.name)
            model.write([PROMPT], 1)
            model.close()

        return first_token
    return None


if llama_cpp:
    Model, version = Functions, f"llama-cpp-python {llama_cpp.__version__}"
    # The variable keeps the callback alive for as long as llama.cpp may call it.
    quiet = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(quiet, None)
    llama_cpp.llama_backend_init()
else:
    Model, version = Server, f"xllamacpp {xllamacpp.__version__}"
file = tempfile.NamedTemporaryFile(suffix=".gguf")
write_model(file.name)
model = Model(file.name)
serve(f"llama-{FORMAT}", version, prepare)
