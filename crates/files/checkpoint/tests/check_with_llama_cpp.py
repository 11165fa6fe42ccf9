"""Checks that llama.cpp can load the GGUF files that `gpt convert` writes, and that it finds the same token IDs in a prompt and the same greedy continuation as `gpt`.

Run this script by hand: pip install llama-cpp-python (or xllamacpp); python check_with_llama_cpp.py path/to/gpt

The script trains a small model on a text, converts it to f32, f16 and q8_0, and continues a prompt with both programs.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

PROMPT = "It was a bright day"
COUNT = 24


def by_llama_cpp(path):
    """Returns the token IDs of the prompt and those of its greedy continuation."""
    try:
        import llama_cpp
    except ImportError:
        return by_server(path)
    model = llama_cpp.Llama(str(path), n_ctx=64, verbose=False)
    ids = model.tokenize(PROMPT.encode(), add_bos=False)
    return ids, [token for token, _ in zip(model.generate(ids, temp=0.0), range(COUNT))]


def by_server(path):
    """Does the same as `by_llama_cpp` with the server of xllamacpp."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_gpu_layers, params.warmup = 64, 0, False
    server = xllamacpp.Server(params)

    def ask(what, body):
        header = {"Content-Type": "application/json"}
        request = urllib.request.Request(server.listening_address + what, json.dumps(body).encode(), header)
        return json.load(urllib.request.urlopen(request))["tokens"]

    ids = ask("/tokenize", {"content": PROMPT, "add_special": False})
    greedy = {"n_predict": COUNT, "temperature": 0, "top_k": 1, "ignore_eos": True, "return_tokens": True}
    return ids, ask("/completion", {"prompt": ids, **greedy})


def main(gpt):
    def run(*args):
        made = subprocess.run([gpt, *map(str, args)], cwd=folder, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        return made.stdout

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        text = "It was a bright day in April, and all the clocks were striking.\n" * 60
        (folder / "text.txt").write_text(text, encoding="utf-8")
        run("train", "--data", "text.txt", "--tokenizer", "bpe:290", "--n-layers", 2, "--n-heads", 4, "--emb-dim", 64,
            "--context-length", 64, "--max-steps", 60, "--warmup-steps", 5, "--qkv-bias", "-o", "run")
        ids = json.loads(run("tokenize", "-m", "run", "--json", PROMPT))["tokens"]
        greedy = ("--temperature", 0, "--max-new-tokens", COUNT)
        continued = json.loads(run("generate", "-m", "run", "--json", *greedy, PROMPT))["tokens"]
        for precision in ["f32", "f16", "q8_0"]:
            path = folder / f"{precision}.gguf"
            run("convert", "run", path, "--layout", "gguf", "--dtype", precision)
            found = by_llama_cpp(path)
            assert found == (ids, continued), (precision, found, ids, continued)
            print(f"{precision}: the {len(ids)} IDs of the prompt and the {COUNT} new IDs are equal")


main(pathlib.Path(sys.argv[1]).resolve())
