"""Claims about counts by paragraph."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foreword.tokens.count import PARAGRAPH, WHOLE_TEXT_VOCABULARIES, Counter, count_tokens
from foreword.types import Vocabulary

WORDS = st.sampled_from(
    ["word", " two", ".", "\n", "\n\n", "/", "## ", "- ", "\t", "  ", "é", "漢字", "🪶", "`", "</x>", "1,204", "\r\n"]
)


@pytest.mark.parametrize("vocabulary", [one for one in Vocabulary if one not in WHOLE_TEXT_VOCABULARIES])
@given(st.lists(WORDS, max_size=80).map("".join))
@example("Read on.\n\n/")
@example("The path:\n\n/usr")
def test_no_token_crosses_a_paragraph(vocabulary: Vocabulary, text: str) -> None:
    """The tokens of a text are the tokens of its paragraphs.

    Seen to fail when a paragraph could begin with a slash, which o200k joins to the sign and the line breaks before it.
    """
    assert sum(count_tokens(vocabulary, part) for part in PARAGRAPH.split(text)) == count_tokens(vocabulary, text)


@pytest.mark.parametrize("vocabulary", [Vocabulary.O200K, Vocabulary.GEMMA3, *sorted(WHOLE_TEXT_VOCABULARIES, key=str)])
@given(st.lists(WORDS, min_size=400, max_size=800).map("".join))
def test_long_texts(vocabulary: Vocabulary, text: str) -> None:
    """A long text has the same count whether it is counted by paragraph or at once."""
    assert Counter(vocabulary).count(text) == count_tokens(vocabulary, text)
