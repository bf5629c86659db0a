"""Claims about the facts of models."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.config.schema import ModelOverride
from foreword.tokens.image_tokens import estimate_image_tokens, read_image_header
from foreword.tokens.models import find_model, read_model_table
from foreword.types import Vocabulary


@pytest.mark.parametrize(
    ("model", "window", "provider"),
    [
        ("anthropic:claude-sonnet-5", 1_000_000, "anthropic"),
        ("anthropic:claude-sonnet-5-20260901", 1_000_000, "anthropic"),
        ("claude-sonnet-4-5", 200_000, ""),
        ("openai:gpt-5", 400_000, "openai"),
        ("openai:gpt-5.4", 1_050_000, "openai"),
        ("openai:gpt-5.4-mini-2026", 400_000, "openai"),
        ("openai:gpt-4", 8_192, "openai"),
        ("openai:gpt-4o-mini", 128_000, "openai"),
        ("google:gemini-2.5-pro", 1_048_576, "google"),
    ],
)
def test_longest_beginning(model: str, window: int, provider: str) -> None:
    """A model is known by the longest name that its own begins with; the provider comes before the colon."""
    facts = find_model(model, {})
    assert (facts.window, facts.provider, facts.assumed) == (window, provider, "")


@pytest.mark.parametrize("model", ["openai:nova-9", "nova-9", "my:own:thing"])
def test_unknown(model: str) -> None:
    """For an unknown model the assumed facts are named."""
    facts = find_model(model, {})
    assert facts.window == 128_000
    assert facts.assumed == f"nothing is known about model {model!r}; a window of 128,000 is assumed"
    assert facts.margin == 0.25


def test_nearest_name() -> None:
    """For an unknown model with nearly a known name, the nearest name is suggested."""
    assert find_model("anthropic:cluade-sonnet-5", {}).assumed == (
        "nothing is known about model 'anthropic:cluade-sonnet-5' (did you mean claude-sonnet-5?); "
        "a window of 128,000 is assumed"
    )


def test_no_model() -> None:
    """For a turn that names no model, the report says so and names the assumed window."""
    facts = find_model("", {})
    assert facts.assumed == "no model is named; a window of 128,000 is assumed"
    assert (facts.window, facts.margin) == (128_000, 0.25)


def test_local() -> None:
    """A model of a local engine is local, known or not."""
    assert find_model("local:anything", {}).local
    assert find_model("local:smollm2-135m", {}).local
    assert find_model("local:llama3:8b", {}).local
    assert find_model("local:llama3:8b", {}).provider == "local"
    assert not find_model("openai:gpt-5", {}).local


def test_override() -> None:
    """The user's facts win, by the full name before the bare one, and the other facts stay."""
    overrides = {
        "openai:gpt-5": ModelOverride(window=1000),
        "gpt-5": ModelOverride(window=2000, tokenizer=Vocabulary.CL100K, cache_minimum=0),
    }
    assert find_model("openai:gpt-5", overrides).window == 1000
    other = find_model("azure:gpt-5", overrides)
    assert (other.window, other.tokenizer, other.cache_minimum, other.factor) == (2000, Vocabulary.CL100K, 0, 1.0)


def test_override_of_unknown() -> None:
    """An unknown model is not assumed once the user gives its window; other facts are not enough."""
    assert find_model("x:new", {"new": ModelOverride(window=5)}).assumed == ""
    assert find_model("x:new", {"new": ModelOverride(factor=2)}).assumed


def test_vocabularies() -> None:
    """Exactly these models count with the older vocabulary."""
    older = [name for name, entry in read_model_table().models.items() if entry.tokenizer is Vocabulary.CL100K]
    assert older == ["gpt-4-turbo", "gpt-4", "gpt-3.5-turbo"]


def test_table_is_sane() -> None:
    """Every window is positive, no factor shrinks a count, and an estimated count has a margin of error."""
    for name, entry in read_model_table().models.items():
        assert entry.window >= 8_000, name
        assert entry.factor >= 1, name
        assert find_model(name, {}).margin > 0 or not name.startswith(("claude", "gemini", "grok", "mistral")), name


@pytest.mark.parametrize(
    ("shape", "size", "tokens"),
    [
        ("anthropic", (1_000, 1_000), 1_334),
        ("anthropic", (200, 200), 54),
        ("anthropic", (10_000, 10_000), 1_600),
        ("openai", (512, 512), 255),
        ("openai", (1_024, 1_024), 765),
        ("openai", (2_048, 4_096), 1_105),
        ("gemini", (384, 384), 258),
        ("gemini", (1_000, 700), 516),
    ],
)
def test_estimated_image_tokens(shape, size, tokens):
    """The tokens of an image follow the examples in the documentation of the providers."""
    assert estimate_image_tokens(shape, *size) == tokens


IMAGE_STARTS = (b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBPVP8 ", b"RIFF\0\0\0\0WEBPVP8L", b"")


@given(st.sampled_from(IMAGE_STARTS), st.binary(max_size=60))
def test_images_of_any_bytes(start, rest):
    """Bytes that begin as an image have a type and a size of at least one pixel, or are no image."""
    header = read_image_header(start + rest)
    assert header is None or (min(header.width, header.height) > 0 and header.media_type.startswith("image/"))


def test_sizes_of_images():
    """The size is read from every kind of WebP, and from a JPEG whose size follows other segments."""
    extended = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0" + bytes(4) + b"\x8f\x01\0" + b"\x2b\x01\0"
    lossless = b"RIFF\0\0\0\0WEBPVP8L\x0a\0\0\0\x2f" + (399 | 299 << 14).to_bytes(4, "little")
    lossy = b"RIFF\0\0\0\0WEBPVP8 \x0a\0\0\0" + b"\0\0\0\x9d\x01\x2a" + b"\x90\x01\x2c\x01"
    jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc2\0\x0b\x08\x01\x2c\x01\x90"
    for content in (extended, lossless, lossy, jpeg):
        header = read_image_header(content)
        assert header
        assert (header.width, header.height) == (400, 300), content
    assert read_image_header(b"\xff\xd8" + b"\xff" * 5_000_000) is None
