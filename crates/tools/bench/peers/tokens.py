"""The peer `tiktoken`: GPT-2's byte pairs by the library of that name.

The library fetches its vocabulary on first use; where it cannot, the peer is absent.
"""

from pathlib import Path

from protocol import serve

import tiktoken


def prepare(work):
    kind, _, path = work.partition(" ")
    if kind != "encode":
        return None
    text = Path(path).read_text(encoding="utf-8")
    encoding = tiktoken.get_encoding("gpt2")
    return lambda: encoding.encode_ordinary(text)


serve("tiktoken", tiktoken.__version__, prepare)
