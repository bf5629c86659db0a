"""Writes a file anew, whole or not at all."""

import os
import shutil
from contextlib import suppress
from secrets import token_hex


def rewrite(place: str, text: str) -> None:
    """Put another text in the place of a file's, with the rights that it had."""
    draft = f"{place}.{token_hex(4)}.new"
    try:
        with open(draft, "x", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(place, draft)
        os.replace(draft, place)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
