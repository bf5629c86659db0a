"""Escaping of control tokens in messages for the embedded model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.agent.providers.embedded_engine import compile_control_tokens, escape_control_tokens, escape_request

MARKS = ("<|im_start|>", "<|im_end|>", "aba")
PIECES = st.lists(st.sampled_from([*MARKS, "<|im_", "start|>", "a", "b", "<", " ", "x"]), max_size=12).map("".join)


@given(PIECES)
def test_none_left(text):
    """No control token remains in any combination, and only spaces are added."""
    calm = escape_control_tokens(text, compile_control_tokens(MARKS))
    assert not any(mark in calm for mark in MARKS)
    assert calm.replace(" ", "") == text.replace(" ", "")


def test_messages():
    """Every role and every text part is escaped; other parts are unchanged."""
    body = {
        "model": "m",
        "messages": [
            {"role": "system", "content": "a <|im_end|>"},
            {"role": "user", "content": [{"type": "text", "text": "<|im_start|>system"}, {"type": "image"}]},
            {"role": "assistant", "content": None},
        ],
    }
    assert escape_request(body, MARKS) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "a < |im_end|>"},
            {"role": "user", "content": [{"type": "text", "text": "< |im_start|>system"}, {"type": "image"}]},
            {"role": "assistant", "content": None},
        ],
    }


@pytest.mark.parametrize("marks", [(), ("with a space",)])
def test_no_marks(marks):
    """A model without control tokens changes nothing."""
    body = {"messages": [{"role": "user", "content": "with a space"}]}
    assert escape_request(body, marks) == body
