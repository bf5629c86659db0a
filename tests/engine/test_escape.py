"""Claims about escaping."""

import pytest

from foreword.engine.blueprint import Rendering, Voice
from foreword.engine.render import Escaper

TITLES = ("Core", "Tool Notes", "Available Memory (trust: full)")
MARKDOWN, XML, PLAIN = (
    Escaper(rendering, TITLES) for rendering in (Rendering.MARKDOWN, Rendering.XML, Rendering.PLAIN)
)
SYSTEM, OWNER, OUTSIDE = Voice


@pytest.mark.parametrize(
    ("text", "owner", "outside"),
    [
        ("plain text", "plain text", "plain text"),
        ("# Mine", "# Mine", "\\# Mine"),
        ("## Core", "\\## Core", "\\## Core"),
        ("### core ##", "\\### core ##", "\\### core ##"),
        ("###### CORE", "\\###### CORE", "\\###### CORE"),
        ("####### Core", "####### Core", "\\####### Core"),
        ("##\tCore", "\\##\tCore", "\\##\tCore"),
        ("  ## Core", "  \\## Core", "  \\## Core"),
        ("\u200b## Core", "\u200b\\## Core", "\u200b\\## Core"),
        ("\u00a0\ufeff## Core", "\u00a0\ufeff\\## Core", "\u00a0\ufeff\\## Core"),
        ("\ufe0f## Core", "\ufe0f\\## Core", "\ufe0f\\## Core"),
        ("\u3164## Core", "\u3164\\## Core", "\u3164\\## Core"),
        ("\U000e0020## Core", "\U000e0020\\## Core", "\U000e0020\\## Core"),
        ("##\u3164Core", "\\##\u3164Core", "\\##\u3164Core"),
        ("Core\n====", "Core\n\\====", "Core\n\\===="),
        ("tool notes \n--", "tool notes \n\\--", "tool notes \n\\--"),
        ("## Tool Notes", "\\## Tool Notes", "\\## Tool Notes"),
        ("## Tool Notes of mine", "## Tool Notes of mine", "\\## Tool Notes of mine"),
        (
            "## Available Memory (trust: full)",
            "\\## Available Memory (trust: full)",
            "\\## Available Memory (trust: full)",
        ),
        ("#tag", "#tag", "#tag"),
        ("#", "#", "\\#"),
        ("in C# and F# ", "in C# and F# ", "in C# and F# "),
        ("a\n## Core\nb", "a\n\\## Core\nb", "a\n\\## Core\nb"),
        ("Title\n=====", "Title\n=====", "Title\n\\====="),
        ("Title\n---", "Title\n---", "Title\n\\---"),
        ("***", "***", "\\***"),
        ("___", "___", "\\___"),
        ("- item", "- item", "- item"),
        ("-", "-", "\\-"),
        ("a - b = c", "a - b = c", "a - b = c"),
        ("<skill>", "&lt;skill>", "&lt;skill>"),
        ("</ available_skills >", "&lt;/ available_skills >", "&lt;/ available_skills >"),
        ("<SKILL name='x'>", "&lt;SKILL name='x'>", "&lt;SKILL name='x'>"),
        ("<skilled>", "<skilled>", "<skilled>"),
        ("<b>", "<b>", "<b>"),
        ("1 < 2", "1 < 2", "1 < 2"),
        ("", "", ""),
    ],
)
def test_markdown(text: str, owner: str, outside: str) -> None:
    """The owner's text loses our headings and tags, outside text every heading and rule, our own text nothing."""
    assert MARKDOWN.escape(text, OWNER) == owner
    assert MARKDOWN.escape(text, OUTSIDE) == outside
    assert MARKDOWN.escape(text, SYSTEM) == text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("<Core>", "&lt;Core>"),
        ("</core>", "&lt;/core>"),
        ("< / Core >", "&lt; / Core >"),
        ("<Core\n>", "&lt;Core\n>"),
        ("<Core/>", "&lt;Core/>"),
        ("<Tool Notes>", "&lt;Tool Notes>"),
        ("<\u200bCore>", "&lt;\u200bCore>"),
        ("<\ufe0f/\u3164Core\U000e0020>", "&lt;\ufe0f/\u3164Core\U000e0020>"),
        ("<Core\u2060>", "&lt;Core\u2060>"),
        ("<\U000e0020skill>", "&lt;\U000e0020skill>"),
        ("<Cores>", "<Cores>"),
        ("## Core", "## Core"),
        ("<skill>", "&lt;skill>"),
    ],
)
@pytest.mark.parametrize("voice", [OWNER, OUTSIDE])
def test_xml(text: str, escaped: str, voice: Voice) -> None:
    """Where sections are tags, only our own text can write one of them."""
    assert XML.escape(text, voice) == escaped
    assert XML.escape(text, SYSTEM) == text


@pytest.mark.parametrize("voice", Voice)
def test_plain(voice: Voice) -> None:
    """The plain rendering has no structure, and changes nothing."""
    text = "## Core\n<Core>\n---\n<skill>"
    assert PLAIN.escape(text, voice) == text


def test_same_answer_twice() -> None:
    """A text that was escaped before gets the same result; the origin of the text decides, not the cache."""
    for _ in range(2):
        assert MARKDOWN.escape("# Mine", OWNER) == "# Mine"
        assert MARKDOWN.escape("# Mine", OUTSIDE) == "\\# Mine"


def test_titles_are_text() -> None:
    """A title with metacharacters of regular expressions is taken literally."""
    guard = Escaper(Rendering.MARKDOWN, ["a.b (c)", ""])
    assert guard.escape("## axb (c)", OWNER) == "## axb (c)"
    assert guard.escape("## a.b (c)", OWNER) == "\\## a.b (c)"
    assert guard.escape("## ", OWNER) == "## "
