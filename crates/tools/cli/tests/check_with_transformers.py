"""Compares the command `gpt` with transformers, on folders that either of them wrote.

Run by hand, with torch and transformers: python check_with_transformers.py PATH/OF/gpt
Nothing is downloaded: every model is a small one with random weights and a tokenizer trained on the story that comes with `gpt`.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from tokenizers import AddedToken, ByteLevelBPETokenizer
from transformers import (
    AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast,
    logging, pipeline,
)

GPT = str(pathlib.Path(sys.argv[1]).resolve())
STORY = pathlib.Path(__file__).parent.parent / "data" / "the-answering-bell.txt"
TEXTS = [
    "The bell rang twice.",
    "def f(x):\n\treturn {x: 'y'}  # \u00e9t\u00e9, \u6771\u4eac, \U0001f642\n\n   it's 1234",
]


def gpt(*args):
    ran = subprocess.run([GPT, *map(str, args)], capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stderr.strip())
    return ran.stdout


def write_folder(folder, *, size=512, shard=None, dtype=torch.float32, added=(), eos="<|end|>", several=False, **config):
    """A folder as transformers writes it, with its own byte pairs and its own end of a text."""
    trained = ByteLevelBPETokenizer()
    trained.train([str(STORY)], vocab_size=size - 1 - len(added), special_tokens=[eos], show_progress=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, eos_token=eos, bos_token=eos)
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in added])
    torch.manual_seed(len(str(config)))
    end = tokenizer.eos_token_id
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=len(tokenizer), n_positions=64, n_embd=32, n_layer=3, n_head=4,
        bos_token_id=end, eos_token_id=end, **config,
    )).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    if several:
        ids = torch.tensor([tokenizer(TEXTS[0]).input_ids])
        greedy = model.generate(ids, max_new_tokens=8, do_sample=False, pad_token_id=end, eos_token_id=None)
        model.generation_config.eos_token_id = [end, int(greedy[0, ids.shape[1] + 4])]
    model.to(dtype).save_pretrained(folder, **({"max_shard_size": shard} if shard else {}))
    tokenizer.save_pretrained(folder)


def compare(folder):
    """Ids, logits and greedy text of both programs; returns the worst difference of a logit, by the largest."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    worst = 0
    for text in TEXTS:
        ids = tokenizer(text).input_ids
        ours = json.loads(gpt("tokenize", "--json", "-m", folder, text))
        assert ours["tokens"] == ids, (folder, text, ours["tokens"], ids)
        ids = ids[:40]
        listed = ",".join(map(str, ids))
        with torch.no_grad():
            theirs = model(torch.tensor([ids])).logits[0, -1]
        logits = json.loads(gpt("logits", "--json", "-m", folder, "--tokens", listed))["logits"]
        worst = max(worst, ((torch.tensor(logits) - theirs).abs().max() / theirs.abs().max()).item())
        greedy = model.generate(
            torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), max_new_tokens=20,
            do_sample=False, pad_token_id=0,
        )[0, len(ids):].tolist()
        report = json.loads(gpt("generate", "--json", "--temp", 0, "-n", 20, "-m", folder, "--tokens", listed))
        ends = model.generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        assert [id for id in greedy if id not in ends] == [id for id in report["tokens"] if id not in ends], (
            folder, greedy, report["tokens"])
        kept = [id for id in greedy if id not in ends]
        decoded = tokenizer.decode(kept, clean_up_tokenization_spaces=False)
        assert decoded == report["text"], (folder, decoded, report["text"])
    assert worst <= 1e-4, (folder, worst)
    return worst


def from_transformers(scratch):
    """Ten folders that transformers wrote."""
    cases = {
        "own tokenizer": {},
        "vocabulary of 1200": {"size": 1200},
        "several end tokens": {"several": True},
        "relu": {"activation_function": "relu"},
        "gelu": {"activation_function": "gelu"},
        "bf16": {"dtype": torch.bfloat16},
        "sharded": {"shard": "40KB"},
        "untied": {"tie_word_embeddings": False},
        "scaled attention": {"scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": False},
        "tokens added": {"added": ["<|user|>", "<|answer|>"]},
    }
    for name, case in cases.items():
        folder = scratch / name.replace(" ", "_")
        write_folder(folder, **case)
        print(f"{name:20} logits within {compare(folder):.1e} of the largest; ids and text equal")


def to_transformers(scratch):
    """What `gpt train` and `gpt convert` write."""
    for tokenizer in ("bpe:400", "chars", "gpt2"):
        run = scratch / tokenizer.replace(":", "")
        gpt("train", "--tokenizer", tokenizer, "--n-layers", 2, "--emb-dim", 32, "--max-steps", 20,
            "--eval-iters", 1, "--out-dir", run)
        gpt("convert", run, f"{run}-converted")
        for folder in (run / "model", pathlib.Path(f"{run}-converted")):
            # Characters that the story lacks are told apart by no vocabulary of characters.
            texts = TEXTS[:1] if tokenizer == "chars" else TEXTS
            loaded = AutoTokenizer.from_pretrained(folder)
            for text in texts:
                ids = json.loads(gpt("tokenize", "--json", "-m", run, text))["tokens"]
                assert loaded(text).input_ids == ids, (folder, text)
                assert loaded.decode(ids, clean_up_tokenization_spaces=False) == text, (folder, text)
            written = pipeline("text-generation", model=str(folder), device="cpu")(
                TEXTS[0], max_new_tokens=12, do_sample=False, clean_up_tokenization_spaces=False,
            )[0]["generated_text"]
            ours = gpt("generate", "--temp", 0, "-n", 12, "-m", run, TEXTS[0])[:-1]
            assert written == ours, (folder, written, ours)
        print(f"{tokenizer:20} loads with AutoTokenizer, AutoModelForCausalLM and pipeline; greedy text equal")


def main():
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as scratch:
        from_transformers(pathlib.Path(scratch))
        to_transformers(pathlib.Path(scratch))


main()
