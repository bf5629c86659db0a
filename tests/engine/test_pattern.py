"""Claims about templates: a small part of Jinja that reaches nothing, grows within bounds, and is fast."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

import pytest

from foreword.engine.sources.template_language import (
    MAX_OUTPUT_CHARS,
    MAX_TEMPLATE_CHARS,
    MAX_TEMPLATE_STEPS,
    InvalidTemplate,
    parse_template,
)

KNOWN = {"name": "Ada", "mode": "full"}
THINGS = {"extensions": ["one", "two"], "RULES": ["rule"], "EMPTY": []}
PATIENCE = 180  # seconds for all of them, on a machine that is busy with other things; a hang is for ever


def fill(text: str, known: Mapping[str, str] = KNOWN, things: Mapping[str, Sequence[str]] = THINGS) -> list[str]:
    """Fill a template in: its literal text unchanged, and each item in angle brackets."""
    named = {name: [(f"the {thing}", (thing,)) for thing in found] for name, found in things.items()}
    return [
        piece if isinstance(piece, str) else f"<{piece[0]}>"
        for piece in parse_template(text, known).expand_parts(named, ())[0]
    ]


def write(text: str, **known: str) -> str:
    """Fill a template in, as one text."""
    return "".join(fill(text, {**KNOWN, **known}))


def refuse(text: str) -> InvalidTemplate:
    """Return the error of a refused template."""
    with pytest.raises(InvalidTemplate) as caught:
        fill(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Hello {{ name }}.", "Hello Ada."),
        ("{{name}}{{ name|upper }}{{ name | lower | title }}", "AdaADAAda"),
        ("{{ name|length }} {{ extensions|length }} {{ EMPTY|count }}", "3 2 0"),
        ("{{ nobody|default('x') }} {{ nobody|d('y') }} {{ EMPTY|default('z', true) }}", "x y z"),
        ("{{ ' a '|trim }}|{{ 'aB'|capitalize }}", "a|Ab"),
        ("{{ 'abc'|first }}{{ 'abc'|last }}{{ extensions|first }}", "ac<one>"),
        ("{% if name %}a{% elif mode %}b{% else %}c{% endif %}", "a"),
        ("{% if nobody %}a{% elif mode == 'full' %}b{% else %}c{% endif %}", "b"),
        ("{% if EMPTY %}a{% endif %}{% if RULES %}b{% endif %}{% if not EMPTY %}c{% endif %}", "bc"),
        ("{% if nobody is defined %}a{% endif %}{% if name is defined and name is string %}b{% endif %}", "b"),
        ("{{ 'a' if mode == 'full' else 'b' }}{{ name[0] }}{{ name[9] }}{{ [1, 2][1] }}", "aA2"),
        (
            "{% for one in extensions %}{{ loop.index }}/{{ loop.length }} {{ one }};{% endfor %}",
            "1/2 <one>;2/2 <two>;",
        ),
        (
            "{% for one in extensions %}{{ one.name }}: {{ one.instructions }} {% endfor %}",
            "the one: <one> the two: <two> ",
        ),
        ("{% for one in EMPTY %}a{% else %}none{% endfor %}", "none"),
        ("{% for one in extensions if not loop %}{{ one }}{% endfor %}", "<one><two>"),
        ("{% for a in 'xy' %}{% for b in 'ab' %}{{ a }}{{ b }} {% endfor %}{% endfor %}", "xa xb ya yb "),
        ("{% raw %}{{ name }} {% if %}{% endraw %}", "{{ name }} {% if %}"),
        ("a{# {{ name }} {% nonsense %} #}b", "ab"),
        ("a \n {{- name -}} \n b", "aAdab"),
        ("a\n{%- if name %}\nb\n{%- endif %}\nc", "a\nb\nc"),
        ("{{ '{{ name }}' }} { } }} %}", "{{ name }} { } }} %}"),
        ("no variables", "no variables"),
        ("", ""),
    ],
)
def test_what_there_is(text: str, written: str) -> None:
    """There are variables, conditions, loops, a few filters and tests, raw text, comments, and white space control."""
    assert write(text) == written


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{% include 'SYSTEM.md' %}", "include"),
        ("{% import 'SYSTEM.md' as x %}", "import"),
        ("{% from 'SYSTEM.md' import x %}", "fromimport"),
        ("{% extends 'SYSTEM.md' %}", "extends"),
        ("{% block a %}{{ self.a() }}{% endblock %}", "block"),
        ("{% macro a() %}{{ a() }}{% endmacro %}", "macro"),
        ("{% for x in extensions recursive %}{{ loop(x) }}{% endfor %}", "for"),
        ("{% call name() %}{% endcall %}", "callblock"),
        ("{% set a = 1 %}", "assign"),
        ("{% set a %}b{% endset %}", "assignblock"),
        ("{% with a = 1 %}{% endwith %}", "with"),
        ("{% filter upper %}a{% endfilter %}", "filterblock"),
        ("{{ name() }}", "call"),
        ("{{ ''.format(name) }}", "call"),
        ("{{ name ~ name }}", "concat"),
        ("{{ 1 + 1 }}", "add"),
        ("{{ 'a' * 9 }}", "mul"),
        ("{{ 9 ** (9 ** 9) }}", "pow"),
        ("{{ -name }}", "neg"),
        ("{{ name[0:2] }}", "slice"),
        ("{{ {'a': 1} }}", "dict"),
        ("{{ nobody|default(default_value=1) }}", "keyword"),
        ("{{ self }}", "self"),
    ],
)
def test_what_there_is_not(text: str, word: str) -> None:
    """A template that could include, call, define, compute or grow is refused with the line and the word for it."""
    fault = refuse(f"one\n\n{text}")
    assert str(fault) == f"uses {word}, and there is only if, for and {{{{ name }}}} in line 3"
    assert fault.line == 3


@pytest.mark.parametrize("name", ["format", "attr", "map", "join", "replace", "list", "tojson", "safe", "counted_"])
def test_no_other_filters(name: str) -> None:
    """A filter that is not listed does not exist."""
    assert str(refuse(f"{{{{ name|{name} }}}}")) == f"is not a usable template: No filter named '{name}'. in line 1"


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__ }}",
        "{{ ''.__class__.__mro__[1].__subclasses__ }}",
        "{{ name.__class__ }}",
        "{{ name['__class__'] }}",
        "{{ name[mode] }}{{ name['upper'] }}",
        "{{ name.upper }}{{ name.format }}{{ name.format_map }}{{ name.index }}",
        "{{ 1 .real }}{{ true.numerator }}{{ [].append }}{{ ().count }}",
        "{{ extensions.__init__ }}{{ extensions.__init__.__globals__ }}",
        "{{ extensions._parts }}{{ extensions['_sign'] }}{{ extensions.of }}",
        "{{ extensions.__dict__ }}{{ extensions[0] }}{{ extensions['__class__'] }}",
        "{% for one in extensions %}{{ one._sign }}{{ one.of }}{{ one.__class__ }}{% endfor %}",
        "{% for one in 'a' %}{{ loop.cycle }}{{ loop.changed }}{{ loop._iterable }}{{ loop.__class__ }}{% endfor %}",
        "{{ nobody.a.b['c'].__class__ }}",
        "{{ range }}{{ lipsum }}{{ cycler }}{{ namespace }}{{ dict }}{{ joiner }}{{ super }}{{ caller }}{{ varargs }}",
        "{{ context }}{{ environment }}{{ config }}{{ request }}{{ g }}{{ resolve }}{{ missing }}{{ Undefined }}",
        "{{ __builtins__ }}{{ __import__ }}{{ l_0_name }}{{ open }}{{ eval }}",
        "{{ loop }}{{ _steps }}{{ steps }}",
    ],
)
def test_no_way_out(text: str) -> None:
    """Nothing can be reached from a value in any way; the result is empty."""
    assert fill(text) == []


@pytest.mark.parametrize(
    "text", ["{{ [extensions, name] }}", "{{ (name, [RULES]) }}", "{% for x in 'ab' %}{{ loop }}{% endfor %}"]
)
def test_same_bytes(text: str) -> None:
    """A template writes the same bytes in every process: they never contain the address of an object."""
    assert " at 0x" not in "".join(fill(text))
    assert " object " not in "".join(fill(text))


def test_things_in_their_places() -> None:
    """A variable comes back as its items, in their places between the words of the template."""
    assert fill("a {{ RULES }} b{{ extensions }}{{ name }}") == ["a ", "<rule>", " b", "<one>", "<two>", "Ada"]


def test_named_twice() -> None:
    """An item is placed once, where it is named first; a plain value as often as it is named."""
    assert fill("{{ RULES }}{{ name }}{{ RULES }}{{ name }}") == ["<rule>", "AdaAda"]
    assert fill("{% for e in extensions %}{{ e }}{{ e.instructions }},{% endfor %}{{ extensions }}.") == [
        *("<one>", ",", "<two>", ",."),
    ]
    assert fill("{{ extensions|last }}{{ extensions }}") == ["<two>", "<one>"]


@pytest.mark.parametrize("how", ["upper", "title", "trim", "lower", "capitalize", "default('x')"])
def test_filtered_things(how: str) -> None:
    """A filter does not reach into the items of a variable."""
    assert fill(f"a {{{{ RULES|{how} }}}} b") == ["a ", "<rule>", " b"]


@pytest.mark.parametrize(
    "value", ["{{ RULES }}", "{% raw %}", "{# #}", "\0", "\0001\0", "a\0b\0", "x{{ name }}\n{% if %}"]
)
def test_values_are_not_templates(value: str) -> None:
    """A value that looks like a template, or like an item's placeholder, is written unchanged; a NUL is no text."""
    plain = value.replace("\0", "")
    assert fill("<{{ name }}> {{ RULES }} end", {"name": value}) == [f"<{plain}> ", "<rule>", " end"]


@pytest.mark.parametrize("label", ["\0", "\0000\0", "a\0b", ""])
def test_labels_are_not_templates(label: str) -> None:
    """The name of an item cannot refer to another item, nor hide the text after it."""
    pattern = parse_template("{% for e in all %}{% if e %}[{{ e.name }}] {{ e }}{% endif %} {% endfor %}end", {})
    pieces = pattern.expand_parts({"all": [(label, ("first",)), ("second", ("second",))]}, ())[0]
    plain = label.replace("\0", "")
    assert pieces == [f"[{plain}] ", ("first",), " [second] ", ("second",), " end"]


@pytest.mark.parametrize("text", ["{{ '\\x00' }}", "a\n{{ '\\0001\\0' }}", "{% if '\\u0000' %}{% endif %}", "a\0b"])
def test_no_signs_of_its_own(text: str) -> None:
    """A template cannot write an item's placeholder, neither in a text nor as an escape."""
    assert str(refuse(text)).startswith("writes a NUL, which is no text in line ")


def test_names() -> None:
    """A template names what it mentions anywhere, but not what its own loops define."""
    text = "{{ a.b }}{% if c %}{% for d in e %}{{ d }}{{ loop.index }}{{ f|d(g) }}{% endfor %}{% endif %}"
    pattern = parse_template(text + "{% raw %}{{ h }}{% endraw %}{# {{ i }} #}", {})
    assert pattern.names == {"a", "c", "e", "f", "g"}


def test_unknown_variables() -> None:
    """An unknown variable is empty, and so is everything in it."""
    assert fill("a{{ nobody }}b{{ nobody.x[0].y|upper }}{% for x in nobody %}c{% endfor %}") == ["ab"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{{", 1),
        ("a\n{{ }}", 2),
        ("a\n\n{% if %}", 3),
        ("a\nb {% endif %}", 2),
        ("a\n{% if name %}\nb\n", 2),
        ("{% for x in y %}\n\n{% endif %}", 3),
        ("a\n{% nonsense %}", 2),
        ("a\n{{ name | }}", 2),
        ("\n\n\n{{ name|nope }}", 4),
        ("\n{{ name is nope }}", 2),
        ("a\n{{ 'x }}", 2),
        ("a\n{# never closed", 2),
        ("\n{% raw %} never closed", 2),
        ("a\n{{ name }", 2),
    ],
)
def test_line_of_a_fault(text: str, line: int) -> None:
    """A template that cannot be read is refused with the line that is wrong."""
    fault = refuse(text)
    assert str(fault).startswith("is not a usable template: ")
    assert str(fault).endswith(f" in line {line}")
    assert fault.line == line


def test_fault_further_down() -> None:
    """The line of a fault is moved down for a template that begins further down in its file; no line stays no line."""
    assert str(refuse("a\n{{ }}").below(3)).endswith(" in line 5")
    assert str(InvalidTemplate("is long").below(3)) == "is long"
    assert InvalidTemplate("is long", None).line == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{% for x in 5 %}{% endfor %}", "cannot be filled in: 'int' object is not iterable"),
        ("{{ extensions < 3 }}", "cannot be filled in: "),
        ("{% for a, b in extensions %}{% endfor %}", "cannot be filled in: "),
        ("{{ 'a' > 1 }}", "cannot be filled in: "),
    ],
)
def test_failing_templates(text: str, words: str) -> None:
    """A template that parses but fails during rendering is refused like any other."""
    assert str(refuse(text)).startswith(words)


LOOP = "{% for a in '" + "a" * 9_000 + "' %}"
ENDLESS = {
    "power": "{{ 9 ** (9 ** 9) }}",
    "power-in-a-condition": "{% if 9 ** (9 ** 9) > 1 %}{% endif %}",
    "product": "{{ 'a' * 9999999999 }}",
    "nested-loops": LOOP.replace("9_000", "300") * 3 + "x" + "{% endfor %}" * 3,
    "long-literal": "{% for a in '" + "a" * 100_000 + "' %}{% endfor %}",
    "long-list": "{% for a in [" + "1," * 20_000 + "] %}{% endfor %}",
    "quiet-loops": "{% for a in extensions %}" * 18 + LOOP * 2 + "{% endfor %}" * 20,
    "much-output": LOOP + "x" * 1_000 + "{% endfor %}",
    "long-steps": LOOP + "{% if a == 'b' %}{% endif %}" * 900 + "{% endfor %}",
    "long-steps-of-filters": LOOP + "{{ a|title|title|title }}" * 400 + "{% endfor %}",
    "filtered-constant": "{{ '" + "ab " * 40_000 + "'" + "|title" * 80 + "|length }}",
    "filtered-value": "{{ x|default('" + "ab " * 40_000 + "')" + "|title" * 80 + "|length }}",
    "filters-in-a-loop": LOOP + "{% if x|d('" + "ab " * 20_000 + "')|title == 'x' %}{% endif %}{% endfor %}",
    "search-in-a-loop": LOOP + "{% if 'ab' in x|d('" + "a" * 150_000 + "') %}{% endif %}{% endfor %}",
    "four-megabytes": "x" * 4_000_000,
    "four-megabytes-of-variables": "{{a}}" * 800_000,
    "many-variables": "{{a}}" * 9_000,
    "parentheses": "{{ " + "(" * 10_000 + "1" + ")" * 10_000 + " }}",
    "some-parentheses": "{{ " + "(" * 90 + "1" + ")" * 90 + " }}",
    "lists": "{{ " + "[" * 10_000 + "]" * 10_000 + " }}",
    "conditions": "{% if a %}" * 9_000 + "{% endif %}" * 9_000,
    "some-conditions": "{% if a %}" * 150 + "{% endif %}" * 150,
    "loops": "{% for a in b %}" * 5_000 + "{% endfor %}" * 5_000,
    "some-loops": "{% for a in b %}" * 25 + "{% endfor %}" * 25,
    "elifs": "{% if a %}" + "{% elif b %}" * 9_000 + "{% endif %}",
    "negations": "{{ " + "not " * 10_000 + "name }}",
    "some-negations": "{{ " + "not " * 300 + "name }}",
    "alternatives": "{{ " + "x or " * 5_000 + "name }}",
    "choices": "{{ " + "a if b else " * 3_000 + "c }}",
    "filters": "{{ name" + "|upper" * 5_000 + " }}",
    "attributes": "{{ nobody" + ".a" * 5_000 + " }}",
    "some-attributes": "{{ nobody" + ".a" * 200 + " }}",
    "digits": "{{ " + "9" * 5_000 + " }}",
    "hexadecimal-digits": "{{ 0x" + "f" * 150_000 + " }}",
    "braces": "{" * 199_000,
    "comments": "{#" * 90_000,
    "raw-blocks": "{% raw %}" * 20_000,
    "open-string": "{{ '" + "\\'" * 90_000,
    "spaces": "{%" + " " * 199_000,
}
SLOW = {
    "slow-negations": ("{{ " + "not " * 150 + "name }}") * 30,
    "slow-filters": ("{{ name" + "|upper" * 60 + " }}") * 70,
    "slow-attributes": ("{{ nobody" + ".a" * 60 + " }}") * 70,
    "slow-conditions": ("{% if a %}" * 90 + "{% endif %}" * 90) * 20,
    "slow-comparisons": "{{ " + "1 < " * 2_000 + "2 }}",
    "slow-white-space": (" " * 5_000 + "{%- if name %}{% endif %}x") * 35,
    "slow-backslashes": "{{ '" + "\\\\" * 90_000 + "' }}",
    "slow-values-in-a-loop": "{% for a in '" + "a" * 9_000 + "' %}{{ a }}{{ loop.length }}{% endfor %}",
}


@pytest.fixture(scope="module")
def said() -> Mapping[str, str]:
    """The result of every odd template, from a process that must end by itself; a hang leaves its result out."""
    script = (
        "import json, sys\nfrom foreword.engine.sources.template_language import InvalidTemplate, parse_template\n"
        "for name, text in json.load(sys.stdin).items():\n"
        "    try:\n        parsed = parse_template(text, {'name': 'Ada'})\n"
        "        parsed.expand_parts({'extensions': [('a', 1), ('b', 2)]}, ())\n"
        "    except InvalidTemplate as fault:\n        said = str(fault)\n"
        "    else:\n        said = 'filled'\n"
        "    print(json.dumps([name, said]), flush=True)\n"
    )
    command, given = [sys.executable, "-c", script], json.dumps({**ENDLESS, **SLOW})
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=PATIENCE, text=True, check=False)
        lines = done.stdout
    except subprocess.TimeoutExpired as late:
        lines = (late.stdout or b"").decode()
    return dict(json.loads(line) for line in lines.splitlines())


@pytest.mark.parametrize("name", ENDLESS)
def test_endless(said: Mapping[str, str], name: str) -> None:
    """A template that would grow, nest or run without end is refused quickly."""
    assert name in said
    assert said[name] != "filled"
    assert len(said[name]) < 300


@pytest.mark.parametrize("name", SLOW)
def test_slow(said: Mapping[str, str], name: str) -> None:
    """An odd template within all bounds is filled in quickly."""
    assert said.get(name) == "filled"


def weigh(text: str) -> float:
    """Measure the time to parse a template that is not cached."""
    times = []
    for at in range(3):
        before = time.process_time()
        parse_template(f"{text}{at}", {})
        times.append(time.process_time() - before)
    return min(times)


def test_nesting_takes_no_longer() -> None:
    """Nested parts take no longer than the same ones side by side: no level repeats earlier work."""
    assert weigh("{{ " + "not " * 150 + "name }}") < 3 * weigh("{% if not name %}a{% endif %}" * 150)


def test_bounds() -> None:
    """The bounds are exact: the last character, step and letter is accepted, the next one is not."""
    assert len(write("x" * MAX_TEMPLATE_CHARS)) == MAX_TEMPLATE_CHARS
    assert str(refuse("x" * (MAX_TEMPLATE_CHARS + 1))) == "has 200,001 characters; a template has at most 200,000"
    most = "a" * MAX_TEMPLATE_STEPS
    assert write(f"{{% for a in '{most}' %}}b{{% endfor %}}") == "b" * MAX_TEMPLATE_STEPS
    assert str(refuse(f"{{% for a in '{most}a' %}}b{{% endfor %}}")) == "takes more than 10,000 steps"
    step = "x" * (MAX_OUTPUT_CHARS // 100)
    assert len(write(f"{{% for a in '{'a' * 100}' %}}{step}{{% endfor %}}")) == MAX_OUTPUT_CHARS
    assert (
        str(refuse(f"{{% for a in '{'a' * 100}' %}}{step}{{% endfor %}}x")) == "writes more than 1,000,000 characters"
    )


def test_steps_of_one_filling() -> None:
    """Steps are counted from zero each time a template is filled in, and over all of its loops."""
    half = "{% for a in '" + "a" * 5_000 + "' %}{% endfor %}"
    for _ in range(3):
        assert write(half + half) == ""
    assert str(refuse(half + half + "{% for a in 'a' %}{% endfor %}")) == "takes more than 10,000 steps"


def test_no_inner_filter() -> None:
    """A template cannot call what counts its loops, whose printed form would be another one in each process.

    Seen to fail while that filter had a name that can be written.
    """
    with pytest.raises(InvalidTemplate, match="counted"):
        parse_template("{{ name|counted(1) }}", {"name": "Ada"})
