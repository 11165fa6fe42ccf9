"""Compares the command `gpt` with the transformers library, using model folders that one of the two has written.

This script isn't run automatically. It needs torch and transformers: python check_with_transformers.py PATH/OF/gpt
It downloads nothing. The models are small and have random weights, and their tokenizers are trained on the short story that is part of `gpt`.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, ByteLevelBPETokenizer
from transformers import (
    AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2DoubleHeadsModel, GPT2ForSequenceClassification,
    GPT2LMHeadModel, PreTrainedTokenizerFast, logging, pipeline,
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


def write_folder(
    folder, *, size=512, kind=GPT2LMHeadModel, shard=None, dtype=torch.float32, added=(), eos="<|end|>",
    several=False, **config,
):
    """Writes a model folder with transformers. The tokenizer is trained on the story, and has its own end-of-text token."""
    trained = ByteLevelBPETokenizer()
    trained.train([str(STORY)], vocab_size=size - 1 - len(added), special_tokens=[eos], show_progress=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, eos_token=eos, bos_token=eos)
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in added])
    torch.manual_seed(len(str(config)))
    end = tokenizer.eos_token_id
    sizes = {"vocab_size": len(tokenizer), "n_positions": 64, "n_embd": 32, "n_layer": 3, "n_head": 4, **config}
    model = kind(GPT2Config(bos_token_id=end, eos_token_id=end, pad_token_id=end, **sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    if several:
        ids = torch.tensor([tokenizer(TEXTS[0]).input_ids])
        greedy = model.generate(ids, max_new_tokens=8, do_sample=False, pad_token_id=end, eos_token_id=None)
        model.generation_config.eos_token_id = [end, int(greedy[0, ids.shape[1] + 4])]
    model.to(dtype).save_pretrained(folder, **({"max_shard_size": shard} if shard else {}))
    tokenizer.save_pretrained(folder)


def compare(folder, reference=None, texts=TEXTS):
    """Compares the token IDs, the logits and the texts of greedy decoding between `gpt` and transformers.

    Returns the largest difference between two logits, relative to the largest logit.
    If transformers would ignore the weights in the folder and use random ones, pass an equivalent folder as `reference`, which it reads instead.
    """
    tokenizer = AutoTokenizer.from_pretrained(reference or folder)
    model = AutoModelForCausalLM.from_pretrained(reference or folder, dtype=torch.float32).eval()
    worst = 0
    for text in texts:
        ids = tokenizer(text).input_ids
        ours = json.loads(gpt("tokenize", "--json", "-m", folder, text))
        assert ours["tokens"] == ids, (folder, text, ours["tokens"], ids)
        ids = ids[:40]
        listed = ",".join(map(str, ids))
        with torch.no_grad():
            theirs = model(torch.tensor([ids])).logits[0, -1]
        seen = json.loads(gpt("inspect", "--json", "--top", 2000, "-m", folder, "--tokens", listed))
        logits = {token["id"]: token["logit"] for token in seen["tokens"][-1]["next"]}
        differences = [abs(logit - theirs[id].item()) for id, logit in logits.items()]
        worst = max(worst, max(differences) / theirs.abs().max().item())
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
        # For an ID without a token, one of the two prints U+FFFD and the other prints nothing.
        if all(id < len(tokenizer) for id in kept):
            decoded = tokenizer.decode(kept, clean_up_tokenization_spaces=False)
            assert decoded == report["text"], (folder, decoded, report["text"])
    assert worst <= 1e-4, (folder, worst)
    return worst


def from_transformers(scratch):
    """Checks that `gpt` gives the same results as transformers for ten folders that transformers has written."""
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


def edit_json(path, **changes):
    """Sets the values of keys in a JSON file. The value None removes a key."""
    values = json.loads(path.read_text()) if path.exists() else {}
    values = {key: value for key, value in {**values, **changes}.items() if value is not None}
    path.write_text(json.dumps(values))


def edit_tensors(folder, edit):
    path = folder / "model.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in edit(load_file(path)).items()}, path, {"format": "pt"})


def edit_tokenizer(folder, edit):
    path = folder / "tokenizer.json"
    values = json.loads(path.read_text())
    edit(values)
    path.write_text(json.dumps(values))


def prefixed(prefix):
    return lambda folder: edit_tensors(folder, lambda tensors: {prefix + name: t for name, t in tensors.items()})


def more_tensors(**shapes):
    more = {name.replace("__", "."): torch.randn(shape) for name, shape in shapes.items()}
    return lambda folder: edit_tensors(folder, lambda tensors: {**tensors, **more})


def only_head(folder):
    def edit(tensors):
        tensors["lm_head.weight"] = tensors.pop("transformer.wte.weight")
        return tensors
    edit_tensors(folder, edit)


def with_head(change):
    def edit(tensors):
        return {**tensors, "lm_head.weight": tensors["transformer.wte.weight"] + change}
    return lambda folder: edit_tensors(folder, edit)


def config_of(**changes):
    return lambda folder: edit_json(folder / "config.json", **changes)


def tokenizer_config_of(**changes):
    return lambda folder: edit_json(folder / "tokenizer_config.json", **changes)


def dotted_shards(folder):
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"] = {name: "./" + shard for name, shard in index["weight_map"].items()}
    path.write_text(json.dumps(index))


def post_processor(**part):
    return lambda folder: edit_tokenizer(folder, lambda json: json.update(post_processor=part))


def template(single):
    ids = {"<|end|>": {"id": "<|end|>", "ids": [0], "tokens": ["<|end|>"]}}
    parts = [{"Sequence": {"id": "A", "type_id": 0}} if part == "$A" else {"SpecialToken": {"id": part, "type_id": 0}}
             for part in single]
    return post_processor(type="TemplateProcessing", single=parts, pair=parts, special_tokens=ids)


def hole(folder):
    def edit(json):
        last = dict(json["added_tokens"][-1], id=json["added_tokens"][-1]["id"] + 7, content="<|far|>")
        json["added_tokens"].append(last)
    edit_tokenizer(folder, edit)


def without_tokenizer_json(folder):
    values = json.loads((folder / "tokenizer.json").read_text())
    model = values["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    lines = [" ".join(pair) for pair in model["merges"]]
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(lines) + "\n")
    (folder / "tokenizer.json").unlink()
    edit_json(folder / "tokenizer_config.json", tokenizer_class="GPT2Tokenizer", added_tokens_decoder=None)


def class_in_config(folder):
    edit_tokenizer(folder, lambda json: json["pre_tokenizer"].update(add_prefix_space=True))
    (folder / "tokenizer_config.json").unlink()
    edit_json(folder / "config.json", tokenizer_class="PreTrainedTokenizerFast")


def pickle(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def not_a_number(folder):
    def edit(tensors):
        tensors["transformer.ln_f.bias"][3] = float("nan")
        return tensors
    edit_tensors(folder, edit)


# The options with which a folder is written, a function that changes the folder afterwards, and a part of the error message
# if `gpt` must reject the folder.
FORMS = {
    "gelu_fast": ({"activation_function": "gelu_fast"}, None, None),
    "gelu_python": ({"activation_function": "gelu_python"}, None, None),
    "gelu_pytorch_tanh": ({"activation_function": "gelu_pytorch_tanh"}, None, None),
    "silu": ({"activation_function": "silu"}, None, "activation_function is \"silu\""),
    "quick_gelu": ({"activation_function": "quick_gelu"}, None, "activation_function is \"quick_gelu\""),
    "F64": ({"dtype": torch.float64}, None, None),
    "F16": ({"dtype": torch.float16}, None, None),
    "./ before shards": ({"shard": "40KB"}, dotted_shards, None),
    "default layers": ({"n_layer": 12, "n_head": 12, "n_embd": 48}, config_of(n_layer=None, n_head=None), None),
    "default positions": ({"n_positions": 1024}, config_of(n_positions=None), None),
    "default vocabulary": ({"vocab_size": 50257}, config_of(vocab_size=None), None),
    "general names": ({}, config_of(
        n_embd=None, hidden_size=32, n_layer=None, num_hidden_layers=3, n_head=None, num_attention_heads=4), None),
    "double heads": ({"kind": GPT2DoubleHeadsModel}, None, None),
    "classifier": ({"kind": GPT2ForSequenceClassification}, None, None),
    "value head": ({}, more_tensors(v_head__summary__weight=(1, 32), v_head__summary__bias=(1,)), None),
    "fewer layers": ({}, config_of(n_layer=2), None),
    "rates of 1": ({"attn_pdrop": 1.0, "resid_pdrop": 1.0, "embd_pdrop": 1.0}, None, None),
    "upcast attention": ({"reorder_and_upcast_attn": True}, None, None),
    "n_inner 37, eps 1e-3": ({"n_inner": 37, "layer_norm_epsilon": 1e-3}, None, None),
    "masks": ({}, more_tensors(transformer__h__0__attn__bias=(1, 1, 64, 64), transformer__h__0__attn__masked_bias=()), None),
    "only the head": ({}, only_head, None),
    "head as embedding": ({}, with_head(0), None),
    "other head": ({}, with_head(0.3), None),
    "_orig_mod.": ({}, prefixed("_orig_mod."), None),
    "module.": ({}, prefixed("module."), None),
    "module._orig_mod.": ({}, prefixed("module._orig_mod."), None),
    "no prefix": ({}, lambda folder: edit_tensors(folder, lambda tensors: {
        name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}), None),
    "cross attention": ({}, config_of(add_cross_attention=True), "add_cross_attention"),
    "pickle": ({}, pickle, "a pickle"),
    "not a number": ({}, not_a_number, "element 3 is NaN"),
    "add_bos_token": ({}, tokenizer_config_of(add_bos_token=True), None),
    "GPT2, add_bos_token": ({}, tokenizer_config_of(add_bos_token=True, tokenizer_class="GPT2Tokenizer"), None),
    "add_eos_token": ({}, tokenizer_config_of(add_eos_token=True), None),
    "template with bos": ({}, template(["<|end|>", "$A"]), None),
    "template, both ends": ({}, template(["<|end|>", "$A", "<|end|>"]), None),
    "GPT2, template": ({}, lambda folder: (
        template(["<|end|>", "$A"])(folder), tokenizer_config_of(tokenizer_class="GPT2Tokenizer")(folder)), None),
    "Roberta's processor": ({}, post_processor(
        type="RobertaProcessing", sep=["<|end|>", 0], cls=["<|end|>", 0], trim_offsets=True,
        add_prefix_space=False), None),
    "ByteLevel's processor": ({}, post_processor(
        type="ByteLevel", add_prefix_space=True, trim_offsets=False, use_regex=True), None),
    "hole in added ids": ({"added": ["<|user|>"]}, hole, None),
    "letters of bytes": ({"added": ["\u0111em", "\u00e9t\u00e9"]}, None, None),
    "vocab and merges": ({}, without_tokenizer_json, None),
    "class in config.json": ({}, class_in_config, None),
    "WordPiece's class": ({}, tokenizer_config_of(tokenizer_class="BertTokenizer"), "tokenizer_class is \"BertTokenizer\""),
    "NFC": ({}, lambda folder: edit_tokenizer(folder, lambda json: json.update(normalizer={"type": "NFC"})),
            "the normalizer is NFC"),
    "digits alone": ({}, lambda folder: edit_tokenizer(folder, lambda json: json.update(pre_tokenizer={
        "type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, json["pre_tokenizer"]],
    })), "the pre-tokenizer is Sequence"),
}


def in_forms_of_others(scratch):
    """Checks variants of model folders that are in use: `gpt` must give the same results as transformers, or explain why it can't."""
    wrong = []
    for name, (written, change, refused) in FORMS.items():
        folder = scratch / "form"
        shutil.rmtree(folder, ignore_errors=True)
        write_folder(folder, **written)
        reference = None
        if name.endswith("."):
            reference = scratch / "reference"
            shutil.copytree(folder, reference, dirs_exist_ok=True)
        if change:
            change(folder)
        try:
            if refused:
                gpt("tokenize", "-m", folder, TEXTS[0])
            told = f"logits within {compare(folder, reference):.1e} of the largest; ids and text equal"
        except RuntimeError as error:
            told = f"refused: {str(error).removeprefix(f'error: {folder}/')}"
        except AssertionError as error:
            told = f"WRONG: {error}"
        if told.startswith("logits") == bool(refused) or (refused or "") not in told:
            wrong.append(name)
        print(f"{name:22} {told}", flush=True)
    assert not wrong, wrong


def in_the_books_layout(scratch):
    """Checks folders in the book's layout, which transformers can't read, with and without a separate output layer."""
    written = scratch / "written"
    write_folder(written)
    ids = "5,17,42,8,99"
    for name, edit in {
        "book": lambda tensors: tensors,
        "book, only the head": lambda tensors: {
            ("out_head.weight" if old == "tok_emb.weight" else old): tensor for old, tensor in tensors.items()},
        "book, twin head": lambda tensors: {**tensors, "out_head.weight": tensors["tok_emb.weight"].clone()},
        "book, _orig_mod.": lambda tensors: {"_orig_mod." + old: tensor for old, tensor in tensors.items()},
    }.items():
        folder = scratch / "book"
        shutil.rmtree(folder, ignore_errors=True)
        gpt("convert", written, folder, "--layout", "book")
        edit_tensors(folder, edit)
        ours, theirs = (gpt("inspect", "--json", "-m", model, "--tokens", ids) for model in (folder, written))
        assert json.loads(ours)["tokens"] == json.loads(theirs)["tokens"], name
        print(f"{name:22} the same logits")


def to_transformers(scratch):
    """Checks that transformers can load all checkpoints of `gpt train` and the output of `gpt convert`."""
    for tokenizer, options in {
        "bpe:400": [], "chars": ["--tied"], "gpt2": ["--qkv-bias"], "bpe:300": ["--tied", "--qkv-bias"],
    }.items():
        run = scratch / tokenizer.replace(":", "")
        printed = gpt("train", "--tokenizer", tokenizer, "--n-layers", 2, "--emb-dim", 32, "--max-steps", 20,
            "--eval-iters", 1, "--save-interval", 10, "--keep", 2, *options, "--out-dir", run)
        gpt("convert", run, f"{run}-converted")
        checkpoints = sorted((run / "checkpoints").iterdir())
        named = json.loads(re.search(r"AutoModelForCausalLM.from_pretrained\((.*)\)", printed)[1])
        assert pathlib.Path(named) == checkpoints[-1], (named, checkpoints)
        for folder in (*checkpoints, pathlib.Path(f"{run}-converted")):
            _, info = GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
            assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
            # A vocabulary of characters can't encode characters that the story doesn't contain.
            texts = TEXTS[:1] if tokenizer == "chars" else TEXTS
            loaded = AutoTokenizer.from_pretrained(folder)
            for text in texts:
                ids = json.loads(gpt("tokenize", "--json", "-m", run, text))["tokens"]
                assert loaded(text).input_ids == ids, (folder, text)
                assert loaded.decode(ids, clean_up_tokenization_spaces=False) == text, (folder, text)
            written = pipeline("text-generation", model=str(folder), device="cpu")(
                TEXTS[0], max_new_tokens=12, do_sample=False, clean_up_tokenization_spaces=False,
            )[0]["generated_text"]
            ours = gpt("generate", "--temp", 0, "-n", 12, "-m", folder, TEXTS[0])[:-1]
            assert written == ours, (folder, written, ours)
        print(f"{tokenizer:20} loads with AutoTokenizer, AutoModelForCausalLM and pipeline; greedy text equal")


def main():
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as scratch:
        for check in (from_transformers, in_forms_of_others, in_the_books_layout, to_transformers):
            check(pathlib.Path(scratch))


main()
