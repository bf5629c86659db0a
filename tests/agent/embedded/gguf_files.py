"""Makes small GGUF headers."""

import struct

KINDS = {bool: (7, "<?"), int: (4, "<I"), float: (6, "<f")}


def text(value):
    """Write a text."""
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(one):
    """Write a value with its kind."""
    if isinstance(one, str):
        return struct.pack("<I", 8) + text(one)
    if isinstance(one, list):
        inner = 8 if isinstance(one[0], str) else 4
        items = b"".join(text(item) if inner == 8 else struct.pack("<I", item) for item in one)
        return struct.pack("<IIQ", 9, inner, len(one)) + items
    kind, code = KINDS[type(one)]
    return struct.pack("<I", kind) + struct.pack(code, one)


def header(values, version=3):
    """Write a header."""
    body = b"".join(text(name) + value(one) for name, one in values.items())
    return b"GGUF" + struct.pack("<IQQ", version, 0, len(values)) + body


SMALL = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.context_length": 4096,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.rope.freq_base": 1.5,
    "tokenizer.ggml.add_bos_token": True,
    "tokenizer.ggml.tokens": ["a", "<|end|>", "\n\n\n", "<x", "</s>"],
    "tokenizer.ggml.token_type": [1, 3, 3, 1, 3],
}
