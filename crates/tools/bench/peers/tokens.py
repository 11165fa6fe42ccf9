"""The peers `tiktoken` and `tokenizers`, which encode a text file with GPT-2's vocabulary.

The text is divided into parts, which the threads encode in parallel. The workload `tokenize FILE
FOLDER` reads the vocabulary from FOLDER/tokenizer.json, so nothing is downloaded.

The first argument is the library.
"""

import json
import os
import sys

from protocol import serve, threads

LIBRARY = sys.argv[1]
os.environ["RAYON_NUM_THREADS"] = str(threads())
# GPT-2's pattern in the form that tiktoken uses.
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""


def parts(path, length):
    """Yields parts of a text. Each part consists of whole lines, with about `length` characters."""
    part, size = [], 0
    with open(path, encoding="utf-8") as file:
        for line in file:
            part.append(line)
            size += len(line)
            if size >= length:
                yield "".join(part)
                part, size = [], 0
    yield "".join(part)


def byte_of_characters():
    """Returns the byte for each of the characters with which GPT-2's files represent bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + i): byte for i, byte in enumerate(hidden)}


if LIBRARY == "tiktoken":
    import tiktoken as library

    def prepare(work):
        _, file, folder = work.split()
        with open(f"{folder}/tokenizer.json", encoding="utf-8") as vocabulary:
            ids = json.load(vocabulary)["model"]["vocab"]
        byte = byte_of_characters()
        ranks = {bytes(byte[c] for c in token): id for token, id in ids.items() if token != "<|endoftext|>"}
        encoding = library.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})
        texts = list(parts(file, 1 << 20))
        return lambda: encoding.encode_ordinary_batch(texts, num_threads=threads())
else:
    import tokenizers as library

    def prepare(work):
        _, file, folder = work.split()
        tokenizer = library.Tokenizer.from_file(f"{folder}/tokenizer.json")
        texts = list(parts(file, 1 << 12))
        return lambda: tokenizer.encode_batch_fast(texts, add_special_tokens=False)


serve(LIBRARY, library.__version__, prepare)
