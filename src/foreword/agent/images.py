"""The images of people: checked by their bytes, and stored once as files that messages refer to by their hash."""

import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256

from foreword.agent.conversation import ImagePart
from foreword.errors import InputError
from foreword.tokens.image_tokens import estimate_image_tokens, read_image_header
from foreword.tokens.models import ModelFacts
from foreword.types import frozen

IMAGE_FOLDER = "images"  # in the state folder
IMAGE_MARKER = "[image]"  # stands for an image in the text of its message
UNANSWERED_IMAGE = "[image left out: its message was not answered]"
MAX_IMAGES = 8  # of one message
MAX_IMAGE_BYTES = 5_000_000
FILE_MODE, FOLDER_MODE = 0o600, 0o700
GEMINI_PROVIDERS = ("google", "google-gla", "google-vertex", "gemini")


@frozen(eq=True)
class Image:
    """An image that arrives with a message, and the reference to it."""

    part: ImagePart
    content: bytes


def make_image(content: bytes) -> Image:
    """Check the bytes of an image; raise InputError if it is too large or no PNG, JPEG, GIF or WebP."""
    if len(content) > MAX_IMAGE_BYTES:
        raise InputError(f"the image has {len(content):,} bytes; at most {MAX_IMAGE_BYTES:,} are accepted")
    header = read_image_header(content)
    if header is None:
        raise InputError("this is no PNG, JPEG, GIF or WebP image")
    part = ImagePart(
        media_type=header.media_type,
        sha256=sha256(content).hexdigest(),
        width=header.width,
        height=header.height,
    )
    return Image(part=part, content=content)


def count_image_tokens(facts: ModelFacts, images: Iterable[ImagePart]) -> int:
    """Estimate the tokens of images for a model; 0 for one that takes none, which gets a note instead."""
    if not facts.images:
        return 0
    shape = "gemini" if facts.provider in GEMINI_PROVIDERS else facts.provider
    return sum(estimate_image_tokens(shape, image.width, image.height) for image in images)


class ImageFolder:
    """The stored images of a workspace: one file for each, named by its hash."""

    def __init__(self, state: str) -> None:
        self._path = os.path.join(state, IMAGE_FOLDER)

    def store(self, images: Sequence[Image]) -> None:
        """Store images durably, before a message that refers to them is accepted."""
        os.makedirs(self._path, FOLDER_MODE, exist_ok=True)
        for image in images:
            self._write(os.path.join(self._path, image.part.sha256), image.content)
        folder = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _write(self, path: str, content: bytes) -> None:
        draft = f"{path}.{os.getpid()}-{threading.get_ident()}.new"
        try:
            with open(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, FILE_MODE), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)

    def read(self, name: str) -> bytes | None:
        """Return an image by its hash; None if its file is missing or damaged."""
        try:
            with open(os.path.join(self._path, name), "rb") as file:
                content = file.read()
        except OSError:
            return None
        return content if sha256(content).hexdigest() == name else None
