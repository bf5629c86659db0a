"""The header of a GGUF file: what a model says about itself, read without any engine."""

import os
import struct
from collections.abc import Collection, Mapping
from typing import Any, BinaryIO

from foreword.errors import InputError
from foreword.frozen import frozen

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_KEYS, LONGEST_KEY, LONGEST_TEXT, MOST_ITEMS = 100_000, 1_000, 16_000_000, 10_000_000
TEXT, LIST = 8, 9
NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
CONTROL = 3  # the type of a token that means something to the template and is no text
SHORTEST = 3  # characters of a control token; a shorter one is a plain sign that a vocabulary has marked so
HALF = 2  # bytes of a number in the engine's memory of a conversation


class Broken(ValueError):
    """The file is no GGUF, or ends too early."""


@frozen(eq=True)
class Header:
    """What was read of a header, by the names that the format has."""

    values: Mapping[str, Any]

    @property
    def trained(self) -> int:
        """The window it was trained with; 0 where it does not say."""
        return self._number("context_length")

    @property
    def token_bytes(self) -> int:
        """The bytes that one token of a conversation takes in memory; 0 where the file does not say enough."""
        heads = self._number("attention.head_count")
        kept = self._number("attention.head_count_kv") or heads
        wide = self._number("embedding_length") // heads if heads else 0
        key = self._number("attention.key_length") or wide
        value = self._number("attention.value_length") or wide
        return self._number("block_count") * kept * (key + value) * HALF

    @property
    def control(self) -> tuple[str, ...]:
        """The texts that the engine would take for marks of the template, wherever they stand."""
        tokens = self.values.get("tokenizer.ggml.tokens", ())
        kinds = self.values.get("tokenizer.ggml.token_type", ())
        marks = (token for token, kind in zip(tokens, kinds, strict=False) if kind == CONTROL)
        return tuple(token for token in marks if len(token) >= SHORTEST and not token.isspace())

    def _number(self, name: str) -> int:
        found = self.values.get(f"{self.values.get('general.architecture')}.{name}")
        # Some models have another number for every layer; the largest is on the safe side.
        found = max(found, default=0) if isinstance(found, list) else found
        return int(found) if isinstance(found, int | float) and found > 0 else 0


def read_header(path: str, *, until: Collection[str] = ()) -> Header:
    """Read the header of a file, as far as the first of these beginnings of names; refuse what is no GGUF."""
    try:
        with open(path, "rb") as file:
            return Header(values=Reader(file).read(tuple(until)))
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{path} cannot be used as a model: {words}; name a GGUF file") from None


def read_sizes(path: str) -> Header:
    """Read the part of a header that says how large the model is, and not its vocabulary if that stands behind."""
    header = read_header(path, until=("tokenizer.",))
    return header if header.trained else read_header(path)


class Reader:
    """Reads a header from its beginning; every length is checked against what the file can hold."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size

    def read(self, until: tuple[str, ...]) -> dict[str, Any]:
        """Read the values by name."""
        if self._take(4) != MAGIC:
            raise Broken("it does not begin as a GGUF file does")
        version, count = self._number("<I"), 0
        if version not in VERSIONS:
            raise Broken(f"it is of version {version} of the format, which is not known here")
        self._number("<Q")  # how many tensors follow
        count = self._bounded(MOST_KEYS, "names")
        values: dict[str, Any] = {}
        for _ in range(count):
            name = self._text(LONGEST_KEY)
            if until and name.startswith(until):
                break
            values[name] = self._value(self._number("<I"))
        return values

    def _value(self, kind: int) -> Any:
        if kind == TEXT:
            return self._text(LONGEST_TEXT)
        if kind == LIST:
            inner = self._number("<I")
            count = self._bounded(MOST_ITEMS, "items")
            if inner == TEXT:
                return [self._text(LONGEST_TEXT) for _ in range(count)]
            return self._numbers(inner, count)
        return self._numbers(kind, 1)[0]

    def _numbers(self, kind: int, count: int) -> list[Any]:
        if kind not in NUMBERS:
            raise Broken(f"its header holds a value of kind {kind}, which does not exist")
        code = NUMBERS[kind]
        return list(struct.unpack(f"<{count}{code[1]}", self._take(count * struct.calcsize(code))))

    def _text(self, most: int) -> str:
        return self._take(self._bounded(most, "bytes in a text")).decode("utf-8", "replace")

    def _bounded(self, most: int, what: str) -> int:
        count = self._number("<Q")
        if count > most:
            raise Broken(f"its header claims {count:,} {what}")
        return count

    def _number(self, code: str) -> int:
        number: int = struct.unpack(code, self._take(struct.calcsize(code)))[0]
        return number

    def _take(self, count: int) -> bytes:
        if count > self._size:  # before anything of that size is asked for
            raise Broken("it ends too early")
        data = self._file.read(count)
        if len(data) < count:
            raise Broken("it ends too early")
        return data
