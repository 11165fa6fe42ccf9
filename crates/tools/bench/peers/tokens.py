"""The peers `tiktoken` and `tokenizers`: GPT-2's vocabulary on a text file, in parts of lines for all threads.

The first argument is the library. tiktoken's tables and tokenizers' model are those that each library downloads or has cached.
"""

import os
import sys

from protocol import serve, threads

LIBRARY = sys.argv[1]
os.environ["RAYON_NUM_THREADS"] = str(threads())


def batches(path, bytes_each):
    """Lines together in parts of about so many bytes."""
    part, size = [], 0
    with open(path, encoding="utf-8") as file:
        for line in file:
            part.append(line)
            size += len(line)
            if size >= bytes_each:
                yield "".join(part)
                part, size = [], 0
    yield "".join(part)


if LIBRARY == "tiktoken":
    import tiktoken

    encoding, version = tiktoken.get_encoding("gpt2"), tiktoken.__version__

    def prepare(work):
        if not work.startswith("tokenize "):
            return None
        text = list(batches(work.split(maxsplit=1)[1], 1 << 20))
        return lambda: encoding.encode_ordinary_batch(text, num_threads=threads())
else:
    import tokenizers

    tokenizer, version = tokenizers.Tokenizer.from_pretrained("gpt2"), tokenizers.__version__

    def prepare(work):
        if not work.startswith("tokenize "):
            return None
        text = list(batches(work.split(maxsplit=1)[1], 1 << 12))
        return lambda: tokenizer.encode_batch_fast(text, add_special_tokens=False)


serve(LIBRARY, version, prepare)
