"""Headers of GGUF files."""

import struct

import pytest
from gguf_files import SMALL, header
from hypothesis import given
from hypothesis import strategies as st

from foreword.agent.providers.embedded_weights import make_engine_settings
from foreword.agent.providers.model_clients import ModelClients
from foreword.config.schema import ModelOverride
from foreword.errors import InputError
from foreword.tokens.gguf import read_header, read_sizes
from foreword.tokens.models import find_model


def write(folder, data):
    """Write a file and return its path."""
    path = folder / "model.gguf"
    path.write_bytes(data)
    return str(path)


def test_read(tmp_path):
    """Window, memory per token and control tokens are read from a header."""
    known = read_header(write(tmp_path, header(SMALL)))
    assert known.trained_window == 4_096
    assert known.token_bytes == 2 * 2 * (16 + 16) * 2  # blocks, heads, key and value, bytes
    assert known.control == ("<|end|>", "</s>")


def test_sizes_anywhere(tmp_path):
    """The sizes are found after the vocabulary as well."""
    turned = dict(reversed(SMALL.items()))
    assert read_sizes(write(tmp_path, header(turned))).trained_window == 4_096


def test_window_of_a_file(tmp_path):
    """The configured window has priority over the file's; a missing value is assumed and reported."""
    path = write(tmp_path, header(SMALL))
    facts = find_model(f"local:{path}", {})
    assert (facts.window, facts.local, facts.native_tools, facts.assumed) == (4_096, True, False, "")
    assert find_model(f"local:{path}", {f"local:{path}": ModelOverride(window=1_000)}).window == 1_000
    large = {**SMALL, "llama.context_length": 1_000_000, "llama.block_count": 1_000}
    assert 1_000 < find_model(f"local:{write(tmp_path, header(large))}", {}).window < 100_000
    silent = find_model(f"local:{write(tmp_path, header({'general.architecture': 'x'}))}", {})
    assert "names no window; one of 4,096 is assumed" in silent.assumed
    assert "No such file" in find_model("local:/nowhere/x.gguf", {}).assumed


def test_room_of_a_file(tmp_path):
    """A small model gets all slots and room for cached conversations; a large one gets one slot and none."""
    setups = [
        make_engine_settings(
            find_model(f"local:{write(tmp_path, header({**SMALL, 'llama.block_count': blocks}))}", {}), {}
        )
        for blocks in (2, 3_000)
    ]
    assert [(setup.slots, setup.spill_mb > 0) for setup in setups] == [(4, True), (1, False)]


BROKEN = {
    "empty": (b"", "it is truncated"),
    "other": (b"PK\3\4 and more", "it is not a GGUF file"),
    "version": (header(SMALL, version=9), "version 9"),
    "cut": (header(SMALL)[:100], "it is truncated"),
    "many": (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "claims 1,152,921,504,606,846,976 names"),
    "long": (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 40), "bytes in a text"),
    "kind": (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"x" + struct.pack("<I", 99), "unknown type 99"),
    "list": (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"x" + struct.pack("<IIQ", 9, 4, 9_000_000), "truncated"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken(tmp_path, name):
    """A broken file is refused with its path and reason, and its claimed sizes allocate no memory."""
    data, words = BROKEN[name]
    path = write(tmp_path, data)
    with pytest.raises(InputError, match=words) as caught:
        ModelClients({}, {}).find(f"local:{path}")
    assert path in str(caught.value)


@given(st.binary(max_size=40), st.integers(min_value=0, max_value=400))
def test_damaged(tmp_path_factory, noise, at):
    """Any header is either read or refused."""
    whole = header(SMALL)
    path = write(tmp_path_factory.mktemp("gguf"), whole[:at] + noise + whole[at + len(noise) :])
    try:
        known = read_header(path)
        assert known.trained_window >= 0
        assert known.token_bytes >= 0
        assert isinstance(known.control, tuple)
    except InputError:
        pass


@pytest.mark.parametrize("name", ["local:models/x.gguf", "local:x.gguf"])
def test_whole_paths(name):
    """A relative path is refused."""
    with pytest.raises(InputError, match="not an absolute path"):
        ModelClients({}, {}).find(name)


def test_unknown_name():
    """An unknown model name is refused with the known ones."""
    with pytest.raises(InputError, match="unknown local model 'smolm'; did you mean 'smollm2'"):
        ModelClients({}, {}).find("local:smolm")
