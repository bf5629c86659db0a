"""Claims about how YAML becomes frozen dataclasses."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.config.schema import Config
from foreword.config.structure import convert_node, parse_yaml
from foreword.config.yaml import MAX_DEPTH, parse_nodes
from foreword.errors import ConfigError, ConfigFault
from foreword.types import Placement, Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A person with a name."""

    name: str
    trust: Trust = Trust.PUBLIC


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One field of every type that a file can hold."""

    title: str = ""
    count: int = 0
    factor: float = 0.0
    ready: bool = False
    nothing: None = None
    ceiling: Trust | None = None
    placement: Placement = Placement.SYSTEM
    switch: Literal["on", "off", 3] = "on"
    tags: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    author: Person | str | None = None
    number: int | str = 0
    people: tuple[Person, ...] = ()
    child: "Sample | None" = None


def find_faults(text: str, kind: type = Sample) -> tuple[ConfigFault, ...]:
    """Find the faults of a text that has some."""
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, kind, "sample.yaml")
    return caught.value.faults


def find_fault(text: str, kind: type = Sample) -> ConfigFault:
    """Find the only fault of a text."""
    (fault,) = find_faults(text, kind)
    return fault


def test_every_type() -> None:
    """Every supported type is read from its plain YAML form."""
    text = """
title: Hello
count: 0x10
factor: 2
ready: yes
nothing: null
ceiling: full
placement: tail
switch: off
tags: [a, b]
limits: {x: 1_000}
author: {name: Ann, trust: inner}
number: "5"
people:
  - name: Bo
child:
  title: inner
"""
    assert parse_yaml(text, Sample, "sample.yaml") == Sample(
        title="Hello",
        count=16,
        factor=2.0,
        ready=True,
        ceiling=Trust.FULL,
        placement=Placement.TAIL,
        switch="off",
        tags=("a", "b"),
        limits={"x": 1000},
        author=Person(name="Ann", trust=Trust.INNER),
        number="5",
        people=(Person(name="Bo"),),
        child=Sample(title="inner"),
    )


def test_number_type() -> None:
    """An integer becomes a float where a float is wanted."""
    assert type(parse_yaml("factor: 2", Sample, "sample.yaml").factor) is float


def test_null() -> None:
    """Null is None where None is allowed and a fault where it is not."""
    assert parse_yaml("author: ~", Sample, "sample.yaml").author is None
    assert str(find_fault("title:")) == "sample.yaml:1: title must be text, not nothing (give it a value)"
    assert find_fault("tags:").remedy == "write [] if it is empty"


@pytest.mark.parametrize(("text", "author"), [("author: Ann", "Ann"), ("author: {name: Ann}", Person(name="Ann"))])
def test_union(text: str, author: Person | str) -> None:
    """The kind of node selects the member of a union."""
    assert parse_yaml(text, Sample, "sample.yaml").author == author


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("title: 12", "title must be text, not the number 12", 'quote it: "12"'),
        ("title: no", "title must be text, not the boolean no", 'quote it: "no"'),
        ("title: 2024-05-01", "title must be text, not the date 2024-05-01", 'quote it: "2024-05-01"'),
        ("count: many", "count must be a whole number, not the text 'many'", ""),
        ("count: 1.5", "count must be a whole number, not the number 1.5", ""),
        ("count: 010", "count must be a whole number, not the number 010", ""),
        ("factor: .inf", "factor must be a number, not the number .inf", ""),
        ("ready: 1", "ready must be true or false, not the number 1", ""),
        ("tags: a", "tags must be a list, not the text 'a'", ""),
        ("author: [a]", "author must be text or a mapping, not a list", ""),
        ("limits: {x: {}}", "limits.x must be a whole number, not a mapping", ""),
        ("people: [{name: 1}]", "people[0].name must be text, not the number 1", 'quote it: "1"'),
        (
            "placement: tial",
            "placement must be one of system, tail, nested, not the text 'tial'",
            "did you mean 'tail'?",
        ),
        ("switch: 4", "switch must be one of on, off, 3, not the number 4", ""),
        ("limits: {1: 1}", "a key in limits must be text, not the number 1", 'quote it: "1"'),
        ("limits: {[a]: 1}", "a key in limits must be text, not a list", ""),
        ("child: {<<: {count: 1}}", "a merge key (<<) in child is not supported", "write the keys out"),
    ],
)
def test_wrong_type(text: str, message: str, remedy: str) -> None:
    """A value of the wrong type is a fault with the expected type, the actual value and how to correct it."""
    fault = find_fault(text)
    assert (fault.line, fault.message, fault.remedy) == (1, message, remedy)


def test_trust_by_number() -> None:
    """A level of trust is written as its word and never as its number."""
    fault = find_fault("name: Ann\ntrust: 3", Person)
    assert fault.message == "trust must be one of public, familiar, inner, full, not the number 3"


def test_unknown_key() -> None:
    """An unknown key is a fault on its own line with the nearest valid name."""
    fault = find_fault("title: a\nchild:\n  cuont: 1")
    assert str(fault) == "sample.yaml:3: child.cuont is not a known key; did you mean 'count'?"


def test_missing_key() -> None:
    """A missing required field is a fault on the line where its mapping is named."""
    fault = find_fault("people:\n  - name: Ann\n  - trust: full")
    assert (fault.line, fault.message) == (3, "people[1].name is missing")
    assert find_fault("\n{}", Person) == ConfigFault(file="sample.yaml", line=2, message="name is missing")


def test_duplicate_key() -> None:
    """A key that is given twice is a fault on the line of the second."""
    fault = find_fault("limits:\n  a: 1\n  b: 2\n  a: 3")
    assert str(fault) == "sample.yaml:4: limits.a is given twice (the first is on line 2)"


def test_all_faults_at_once() -> None:
    """All faults are reported together, in the order of the file."""
    faults = find_faults("people: [{}]\ntitle: 1\ntitel: a\ncount: b")
    assert [fault.line for fault in faults] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "the file is empty"),
        ("# only a comment\n", 1, "the file is empty"),
        ("- a", 1, "the file must be a mapping, not a list"),
        ("\nhello", 2, "the file must be a mapping, not the text 'hello'"),
        ("a: 1\n---\nb: 2", 2, "a second document begins here"),
        ("title: a\ncount: \x07", 2, "there is a control character here"),
        ("title: \ud800", 1, "there is a control character here"),
        ("title: !thing a", 1, "the tag !thing is not supported"),
        ("title: *a", 1, "the alias *a has no anchor &a above it"),
        ("\nchild: &a {child: *a}", 2, "the alias *a contains itself"),
    ],
)
def test_broken_file(text: str, line: int, message: str) -> None:
    """A file that cannot be read at all is one fault with its line."""
    fault = find_fault(text)
    assert (fault.line, fault.message) == (line, message)


@pytest.mark.parametrize(
    ("text", "line", "end"),
    [
        ("count: 1\ntags: [a,\n", 2, ""),
        ("tags: [a,\n  b\ncount: 1\n", 3, " while parsing a flow sequence from line 1"),
        ('title: "a\n\n', 1, ""),
    ],
)
def test_broken_yaml(text: str, line: int, end: str) -> None:
    """Broken YAML is one fault, on a line that exists, with the line where the broken thing begins."""
    fault = find_fault(text)
    assert fault.message.startswith("this is not valid YAML: ")
    assert fault.message.endswith(end)
    assert fault.line == line


@pytest.mark.parametrize(
    ("text", "line", "message", "remedy"),
    [
        ("# me\n\ntitle a\n\n# more\ncount: 1\n", 3, "a line without 'key: value'", "a colon and a space"),
        ("title a\ncount: 1\n", 1, "a line without 'key: value'", "a colon and a space"),
        ("count: 1\ntitle a\ntags: []\n", 2, "a line without 'key: value'", "a colon and a space"),
        ("child:\n\ttitle: a\n", 2, "a tab cannot indent", "use spaces"),
        ("count: 1\n\ttitle: a", 2, "a tab cannot indent", "use spaces"),
        ("title: @a\n", 1, "a value cannot begin with @", "put it in quotes"),
        ("title: a: b\n", 1, "a second colon in one line", "put the value in quotes"),
        ("count: 1\n title: a", 2, "this line is not indented like the lines above it", "in one column"),
        (" count: 1\ntitle: a", 2, "this line is not indented like the lines above it", "in one column"),
    ],
)
def test_common_mistakes(text: str, line: int, message: str, remedy: str) -> None:
    """A common mistake is named in plain words, on its own line, with its remedy."""
    fault = find_fault(text)
    assert (fault.line, fault.message) == (line, message)
    assert remedy in fault.remedy


def test_anchor() -> None:
    """An alias has the value of its anchor."""
    sample = parse_yaml("people: [&a {name: Ann}, *a]", Sample, "sample.yaml")
    assert sample.people == (Person(name="Ann"), Person(name="Ann"))


def test_alias_bomb() -> None:
    """A few lines of aliases cannot grow into more values than the bound."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 12)]
    assert "more than 100,000 values" in find_fault("\n".join(lines)).message


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_deep_nesting(opening: str) -> None:
    """Deep nesting is refused, where yaml.compose would crash the interpreter."""
    assert "levels deep" in find_fault(opening * 100_000).message


def test_deep_aliases() -> None:
    """Nesting that is only reached through aliases is bounded too."""
    lines = ["a0: &a0 [x]", *(f"a{level}: &a{level} [*a{level - 1}]" for level in range(1, MAX_DEPTH))]
    assert "levels deep" in find_fault("\n".join(lines)).message


def test_places() -> None:
    """The line of every written value is known, even when the whole is faulty."""
    structured = convert_node(parse_nodes("title: a\nchild:\n  count: b", "sample.yaml"), Sample, "sample.yaml")
    assert structured.value is None
    assert structured.values["title",].value == "a"
    assert (structured.values["child", "count"].line, structured.values["child", "count"].value) == (3, None)


def test_odd_key() -> None:
    """A message is short and on one line for any key."""
    fault = find_fault('"a\\n' + "b" * 200 + '": 1')
    assert "\n" not in fault.message
    assert len(fault.message) < 250


def test_unsupported_hint() -> None:
    """A dataclass with a hint that no file can hold is the programmer's mistake."""

    @dataclass(frozen=True)
    class Odd:
        value: set[str]

    with pytest.raises(TypeError, match="not a type that a file can hold"):
        parse_yaml("value: 1", Odd, "odd.yaml")


def test_import_is_light() -> None:
    """Importing the configuration does not import yaml."""
    code = "import foreword.config, sys; print('yaml' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


PIECES = [
    "owner",
    "users",
    "title",
    "child",
    ": ",
    "\n",
    "  ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    "&a",
    "*a",
    "!",
    "<<",
    '"',
]


@given(st.text() | st.lists(st.sampled_from(PIECES) | st.text(max_size=3)).map("".join))
def test_arbitrary_text(text: str) -> None:
    """Any text either parses or raises ConfigError with at least one fault."""
    for kind in (Sample, Config):
        try:
            parse_yaml(text, kind, "sample.yaml")
        except ConfigError as error:
            assert error.faults  # noqa: PT017
