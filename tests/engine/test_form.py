"""Claims about forms: unknown values leave no trace, and known values appear unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.engine.sources.forms import Form, fill_form, read_form, split_form


def fill(form: str, **values: str) -> str:
    """Fill a form with these values."""
    return Form(form).fill(values)


@pytest.mark.parametrize(
    ("form", "values", "text"),
    [
        ("You are {name}.", {"name": "Ada"}, "You are Ada."),
        ("You are {name}.", {}, ""),
        ("You are {name}.", {"name": ""}, ""),
        ("Hello.\nYou are {name}.\nBye.", {}, "Hello.\nBye."),
        ("{a} and {b}", {"a": "1"}, ""),
        ("{a} and {b}", {"a": "1", "b": "2"}, "1 and 2"),
        ("{a}{a}", {"a": "1"}, "11"),
        ("No fields at all", {}, "No fields at all"),
        ("{Name} {na-me} {} { name }", {}, "{Name} {na-me} {} { name }"),
    ],
)
def test_lines(form: str, values: dict[str, str], text: str) -> None:
    """A line is there with all its fields, or not at all; braces around anything else are text."""
    assert fill(form, **values) == text


@pytest.mark.parametrize(
    ("form", "values", "text"),
    [
        ("{name|an assistant}", {}, "an assistant"),
        ("{name|an assistant}", {"name": ""}, "an assistant"),
        ("{name|an assistant}", {"name": "Ada"}, "Ada"),
        ("{name|}", {}, ""),
        ("{name|a|b}", {}, "a|b"),
        ("{name|Hm.}.", {}, "Hm."),
    ],
)
def test_defaults(form: str, values: dict[str, str], text: str) -> None:
    """A default appears only where the value is unknown."""
    assert fill(form, **values) == text


@pytest.mark.parametrize(
    ("form", "values", "text"),
    [
        ("{name}[ {emoji}].", {"name": "Ada"}, "Ada."),
        ("{name}[ {emoji}].", {"name": "Ada", "emoji": "*"}, "Ada *."),
        ("[{a} {b}]!", {"a": "1"}, "!"),
        ("[{a}][{b}]", {}, ""),
        ("[{a}][{b}]", {"b": "2"}, "2"),
        ("Top\n[{a}][{b}]\nEnd", {}, "Top\nEnd"),
        ("[plain]", {}, "plain"),
        ("[]", {}, ""),
        ("[{a|x}]", {}, "x"),
        ("open [ {a}", {"a": "1"}, "open [ 1"),
        ("close ] {a}", {"a": "1"}, "close ] 1"),
        ("open [ {a}\nnext", {}, "next"),
    ],
)
def test_groups(form: str, values: dict[str, str], text: str) -> None:
    """A group without one of its fields is left out of its line; a bracket without its other half is text."""
    assert fill(form, **values) == text


def test_groups_of_lines() -> None:
    """A group may span lines, blank ones too, and comes and goes as a whole."""
    form = "[Task {task}\n\nTitle: {title}][\nStatus: {status}]\nEnd"
    assert fill(form, task="1", title="T", status="open") == "Task 1\n\nTitle: T\nStatus: open\nEnd"
    assert fill(form, task="1", title="T") == "Task 1\n\nTitle: T\nEnd"
    assert fill(form, task="1", status="open") == "Status: open\nEnd"
    assert fill(form, task="1") == "End"


@pytest.mark.parametrize(
    ("form", "values", "text"),
    [
        ("[[{a}]", {"a": "1"}, "[1]"),
        ("[[note] {a}", {"a": "1"}, "[note] 1"),
        ("x[ [[{a}]", {"a": "1"}, "x [1"),
        ("x[ [[{a}]", {}, "x"),
        ("[[[{a}]]", {"a": "1"}, "[1]"),
        ("[[[{a}\n{b}]]", {"a": "1", "b": "2"}, "[1\n2]"),
        ("[[[{a}\n{b}]]", {"a": "1"}, "[]"),
    ],
)
def test_brackets(form: str, values: dict[str, str], text: str) -> None:
    """Two opening brackets are one bracket of the text, in a group as well as outside."""
    assert fill(form, **values) == text


@pytest.mark.parametrize(
    ("form", "values", "text"),
    [
        ("Your vibe: {vibe}.", {"vibe": "Calm."}, "Your vibe: Calm."),
        ("Your vibe: {vibe}.", {"vibe": "Calm"}, "Your vibe: Calm."),
        ("Your name is {name}[ {emoji}].", {"name": "J.R."}, "Your name is J.R."),
        ("Your name is {name}[ {emoji}].", {"name": "J.R.", "emoji": "*"}, "Your name is J.R. *."),
        ("[{a}].", {"a": "x."}, "x."),
        ("{a}. {b}.", {"a": "x.", "b": "y."}, "x. y."),
        ("{a}{b}", {"a": "x.", "b": ".y"}, "x..y"),
        ("{a}[{b}]", {"a": "x.", "b": ".y"}, "x..y"),
        ("Hm.[ {a}].", {}, "Hm.."),
    ],
)
def test_full_stop(form: str, values: dict[str, str], text: str) -> None:
    """A value that brings its own full stop has one, also where a group between them is left out."""
    assert fill(form, **values) == text


@pytest.mark.parametrize("text", ["", "\n", "\n\n\n", "[]", "{a}", "{a}\n{b}", "[{a}]\n[{b}]", "\n{a}\n"])
def test_nothing(text: str) -> None:
    """An empty form leaves nothing, not even a blank line."""
    assert fill(text) == ""


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("A\n\n{x}\n\nB", "A\n\nB"),
        ("A\n\n{x}\n{y}\n\nB", "A\n\nB"),
        ("A\n\n{x}\n\n{y}\n\nB", "A\n\nB"),
        ("{x}\n\nB", "B"),
        ("A\n\n{x}", "A"),
        ("A\n{x}\n\nB", "A\n\nB"),
        ("A\n\n\nB", "A\n\n\nB"),
    ],
)
def test_blank_lines(form: str, text: str) -> None:
    """A part that is left out removes the second of the blank lines around it; those of the form itself stay."""
    assert fill(form) == text


@pytest.mark.parametrize(
    "value", ["{b}", "{b|x}", "[{b}]", "[[", "]", "\\1", "{text}", "{}", "%s", "${b}", "{{ b }}", "a\nb {b}\n\nc"]
)
def test_values_are_not_forms(value: str) -> None:
    """A value is never expanded again, regardless of its content, and costs its line nothing."""
    assert fill("<{a}>[({a})]{b}", a=value, b="B") == f"<{value}>({value})B"


@given(st.dictionaries(st.sampled_from("abc"), st.text("ab.[]{}|\n ", max_size=8)))
def test_values_stay(values: dict[str, str]) -> None:
    """Every known value appears unchanged in the text, between the words of the form."""
    text = fill("<{a|-}|{b|-}|{c|-}>", **values)
    assert text == f"<{values.get('a') or '-'}|{values.get('b') or '-'}|{values.get('c') or '-'}>"


def test_names() -> None:
    """A form knows its fields in order, and the default of a slot's own text."""
    form = Form("{b} [{a}] {b}\n{text|none}")
    assert (form.names, form.default) == (("b", "a", "text"), "none")


def test_named_forms() -> None:
    """A form is known by the name of a built-in text; anything else is the form itself."""
    assert read_form("moltis/identity").names == ("name", "emoji", "creature", "vibe")
    assert fill_form("no/such-form", ()) == "no/such-form"
    assert fill_form("Hi {name}", ("Ada",)) == "Hi Ada"


@pytest.mark.parametrize(
    ("form", "values", "around"),
    [
        ("Channel: {channel}.\n{text}", ("web", ""), ("Channel: web.\n", "")),
        ("{text|none}\nThe end.", ("",), ("", "\nThe end.")),
        ("[{a} ]{text}", ("", ""), ("", "")),
        ("Before: {text} :after", ("",), ("Before: ", " :after")),
        ("Channel: {channel}.\n{text}", ("we\0b", ""), ("Channel: web.\n", "")),
        ("{text} and {text}", ("",), ("", " and ")),
    ],
)
def test_around_a_text(form: str, values: tuple[str, ...], around: tuple[str, str]) -> None:
    """A form surrounds a slot's text, which appears in one place, regardless of the values."""
    assert split_form(form, values) == around
