"""Claims about disarming: no text holds a mark of the template afterwards, and everything else stays as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.agent.providers.embedded_engine import compile_control_tokens, escape_control_tokens, escape_request

MARKS = ("<|im_start|>", "<|im_end|>", "aba")
PIECES = st.lists(st.sampled_from([*MARKS, "<|im_", "start|>", "a", "b", "<", " ", "x"]), max_size=12).map("".join)


@given(PIECES)
def test_none_left(text):
    """Whatever is put together, no mark is left, and only spaces were added."""
    calm = escape_control_tokens(text, compile_control_tokens(MARKS))
    assert not any(mark in calm for mark in MARKS)
    assert calm.replace(" ", "") == text.replace(" ", "")


def test_messages():
    """Every role and every part is disarmed; what is no text passes through."""
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
    """A model without marks changes nothing."""
    body = {"messages": [{"role": "user", "content": "with a space"}]}
    assert escape_request(body, marks) == body
