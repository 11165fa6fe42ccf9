"""GGUF files of `gpt convert` in llama.cpp: the same greedy ids as `gpt generate`. By hand:

pip install llama-cpp-python (or xllamacpp); python check_with_llama_cpp.py path/to/gpt

Trains a small model on a text, converts it to f32, f16 and q8_0, and continues a prompt with both.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

PROMPT = "It was a bright day"
COUNT = 24


def continued(path, ids):
    """llama.cpp's greedy continuation of ids."""
    try:
        import llama_cpp

        model = llama_cpp.Llama(str(path), n_ctx=64, verbose=False)
        assert model.tokenize(PROMPT.encode(), add_bos=False) == ids
        return [token for _, token in zip(range(COUNT), model.generate(ids, temp=0.0))]
    except ImportError:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.warmup, params.n_gpu_layers = 64, False, 0
        server = xllamacpp.Server(params)
        said = server.handle_tokenize({"content": PROMPT, "add_special": False})
        assert said["tokens"] == ids, (said, ids)
        request = {"prompt": ids, "n_predict": COUNT, "temperature": 0, "top_k": 1}
        request |= {"ignore_eos": True, "return_tokens": True, "cache_prompt": False}
        return server.handle_completions(request)["tokens"]


def main(gpt):
    def run(*args):
        made = subprocess.run([gpt, *map(str, args)], cwd=folder, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        return made.stdout

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        text = "It was a bright day in April, and all the clocks were striking.\n" * 60
        (folder / "text.txt").write_text(text, encoding="utf-8")
        run("train", "--data", "text.txt", "--tokenizer", "bpe:300", "--n-layers", 2, "--n-heads", 4, "--emb-dim", 64,
            "--context-length", 64, "--max-steps", 60, "--warmup-steps", 5, "--qkv-bias", "-o", "run")
        ids = json.loads(run("tokenize", "-m", "run", "--json", PROMPT))["ids"]
        said = json.loads(run("generate", "-m", "run", "--json", "--temperature", 0, "--max-new-tokens", COUNT, PROMPT))
        for precision in ["f32", "f16", "q8_0"]:
            path = folder / f"{precision}.gguf"
            run("convert", "run", path, "--to", "gguf", "--precision", precision)
            found = continued(path, ids)
            print(precision, path.stat().st_size, "bytes", found)
            print("ours", said)


main(pathlib.Path(sys.argv[1]).resolve())
