"""Facts about images: their type and size, read from the bytes, and the input tokens that providers count for them."""

import math

from foreword.types import frozen

PNG_START = b"\x89PNG\r\n\x1a\n"
JPEG_START = b"\xff\xd8\xff"
GIF_STARTS = (b"GIF87a", b"GIF89a")
MAX_JPEG_SEGMENTS = 1_000  # before the size; a metadata segment has up to 64 kB, so most images have fewer than 20
JPEG_SIZE_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # the segments that have width and height


@frozen(eq=True)
class ImageHeader:
    """The type and the size of an image."""

    media_type: str
    width: int
    height: int


def read_image_header(content: bytes) -> ImageHeader | None:
    """Return the type and size of a PNG, JPEG, GIF or WebP image by its bytes; None for anything else."""
    if content.startswith(PNG_START) and content[12:16] == b"IHDR":
        kind, width, height = "png", read_number(content, 16, 4), read_number(content, 20, 4)
    elif content.startswith(GIF_STARTS):
        kind, width, height = "gif", read_little(content, 6, 2), read_little(content, 8, 2)
    elif content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        kind, (width, height) = "webp", read_webp_size(content)
    elif content.startswith(JPEG_START):
        kind, (width, height) = "jpeg", read_jpeg_size(content)
    else:
        return None
    return ImageHeader(media_type=f"image/{kind}", width=width, height=height) if width and height else None


def read_number(content: bytes, at: int, count: int) -> int:
    """Read a big-endian number; 0 if the bytes end before it."""
    return int.from_bytes(content[at : at + count], "big") if len(content) >= at + count else 0


def read_little(content: bytes, at: int, count: int) -> int:
    """Read a little-endian number; 0 if the bytes end before it."""
    return int.from_bytes(content[at : at + count], "little") if len(content) >= at + count else 0


def read_webp_size(content: bytes) -> tuple[int, int]:
    """Return width and height of a WebP image: extended, lossless or lossy; zeros if they cannot be read."""
    chunk = content[12:16]
    if chunk == b"VP8X" and len(content) >= 30:
        return read_little(content, 24, 3) + 1, read_little(content, 27, 3) + 1
    if chunk == b"VP8L" and len(content) >= 25:
        bits = read_little(content, 21, 4)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if chunk == b"VP8 ":
        return read_little(content, 26, 2) & 0x3FFF, read_little(content, 28, 2) & 0x3FFF
    return 0, 0


def read_jpeg_size(content: bytes) -> tuple[int, int]:
    """Return width and height of a JPEG image; zeros if they are in none of its first segments."""
    at = 2
    for _ in range(MAX_JPEG_SEGMENTS):
        marker = content[at + 1 : at + 2]
        if content[at : at + 1] != b"\xff" or not marker:
            break
        if marker[0] in JPEG_SIZE_MARKERS:
            return read_number(content, at + 7, 2), read_number(content, at + 5, 2)
        at += 1 if marker == b"\xff" else 2 + read_number(content, at + 2, 2)  # a marker may follow fill bytes
    return 0, 0


def estimate_image_tokens(shape: str, width: int, height: int) -> int:
    """Estimate the input tokens of an image by the published rule of a provider, named by its wire shape.

    Anthropic counts a token for 750 pixels, after scaling to 1,568 pixels at the long side. Gemini counts 258 for a
    tile of 768 pixels. OpenAI, whose rule also serves for all others, counts 85 and 170 for a tile of 512 pixels, after
    scaling to 2,048 pixels at the long side and 768 at the short side.
    """
    long, short = max(width, height), min(width, height)
    if shape == "anthropic":
        scale = min(1.0, 1_568 / long)
        return min(1_600, math.ceil(long * scale * short * scale / 750))
    if shape == "gemini":
        return 258 * (1 if long <= 384 else math.ceil(long / 768) * math.ceil(short / 768))
    scale = min(1.0, 2_048 / long, 768 / short)
    return 85 + 170 * math.ceil(long * scale / 512) * math.ceil(short * scale / 512)
