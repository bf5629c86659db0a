"""Reads the header of a GGUF file without an inference engine."""

import os
import struct
from collections.abc import Collection, Mapping
from typing import Any, BinaryIO

from foreword.errors import InputError
from foreword.types import frozen

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_KEYS, MAX_KEY_BYTES, MAX_TEXT_BYTES, MAX_ITEMS = 100_000, 1_000, 16_000_000, 10_000_000
TEXT_TYPE, LIST_TYPE = 8, 9
NUMBER_FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
CONTROL_TOKEN_TYPE = 3  # the type of control tokens, which have a meaning in the chat template
MIN_CONTROL_TOKEN_CHARS = 3  # minimum characters of a control token; shorter ones are plain characters that were tagged
KV_VALUE_BYTES = 2  # bytes per value in the engine's KV cache


@frozen(eq=True)
class GgufHeader:
    """The parsed values of a header, by their GGUF names."""

    values: Mapping[str, Any]

    @property
    def trained_window(self) -> int:
        """The trained context length; 0 if not given."""
        return self._number("context_length")

    @property
    def token_bytes(self) -> int:
        """The KV-cache bytes per token; 0 if the header lacks the values."""
        heads = self._number("attention.head_count")
        cached = self._number("attention.head_count_kv") or heads
        wide = self._number("embedding_length") // heads if heads else 0
        key = self._number("attention.key_length") or wide
        value = self._number("attention.value_length") or wide
        return self._number("block_count") * cached * (key + value) * KV_VALUE_BYTES

    @property
    def control(self) -> tuple[str, ...]:
        """The control tokens: texts that the engine treats as template markers anywhere."""
        tokens = self.values.get("tokenizer.ggml.tokens", ())
        kinds = self.values.get("tokenizer.ggml.token_type", ())
        marks = (token for token, kind in zip(tokens, kinds, strict=False) if kind == CONTROL_TOKEN_TYPE)
        return tuple(token for token in marks if len(token) >= MIN_CONTROL_TOKEN_CHARS and not token.isspace())

    def _number(self, name: str) -> int:
        found = self.values.get(f"{self.values.get('general.architecture')}.{name}")
        # Some models have one number per layer; use the largest.
        found = max(found, default=0) if isinstance(found, list) else found
        return int(found) if isinstance(found, int | float) and found > 0 else 0


def read_header(path: str, *, until: Collection[str] = ()) -> GgufHeader:
    """Read a header up to the first name with one of these prefixes; raise InputError if it is not GGUF."""
    try:
        with open(path, "rb") as file:
            return GgufHeader(values=GgufReader(file).read(tuple(until)))
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{path} cannot be used as a model: {words}; name a GGUF file") from None


def read_sizes(path: str) -> GgufHeader:
    """Read the size values of a header, without the vocabulary if it follows them."""
    header = read_header(path, until=("tokenizer.",))
    return header if header.trained_window else read_header(path)


class GgufReader:
    """Reads a header sequentially; checks every length against the file size."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size

    def read(self, until: tuple[str, ...]) -> dict[str, Any]:
        """Read the values by name."""
        if self._take(4) != MAGIC:
            raise ValueError("it is not a GGUF file")
        version, count = self._number("<I"), 0
        if version not in VERSIONS:
            raise ValueError(f"GGUF version {version} is not supported")
        self._number("<Q")  # number of tensors
        count = self._bounded(MAX_KEYS, "names")
        values: dict[str, Any] = {}
        for _ in range(count):
            name = self._text(MAX_KEY_BYTES)
            if until and name.startswith(until):
                break
            values[name] = self._value(self._number("<I"))
        return values

    def _value(self, kind: int) -> Any:
        if kind == TEXT_TYPE:
            return self._text(MAX_TEXT_BYTES)
        if kind == LIST_TYPE:
            inner = self._number("<I")
            count = self._bounded(MAX_ITEMS, "items")
            if inner == TEXT_TYPE:
                return [self._text(MAX_TEXT_BYTES) for _ in range(count)]
            return self._numbers(inner, count)
        return self._numbers(kind, 1)[0]

    def _numbers(self, kind: int, count: int) -> list[Any]:
        if kind not in NUMBER_FORMATS:
            raise ValueError(f"its header has a value of unknown type {kind}")
        code = NUMBER_FORMATS[kind]
        return list(struct.unpack(f"<{count}{code[1]}", self._take(count * struct.calcsize(code))))

    def _text(self, most: int) -> str:
        return self._take(self._bounded(most, "bytes in a text")).decode("utf-8", "replace")

    def _bounded(self, most: int, what: str) -> int:
        count = self._number("<Q")
        if count > most:
            raise ValueError(f"its header claims {count:,} {what}")
        return count

    def _number(self, code: str) -> int:
        number: int = struct.unpack(code, self._take(struct.calcsize(code)))[0]
        return number

    def _take(self, count: int) -> bytes:
        if count > self._size:  # check before allocating
            raise ValueError("it is truncated")
        data = self._file.read(count)
        if len(data) < count:
            raise ValueError("it is truncated")
        return data
