"""Tools of one's own: `foreword.tool` on a function with type hints."""

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import foreword
from foreword.testing import make_workspace

FILES = {"foreword.yaml": "owner: alice\nusers: {alice: {trust: full}, bob: {trust: familiar}}\n"}


class Speed(Enum):
    """How fast."""

    SLOW = "slow"
    FAST = "fast"


@dataclass
class Stop:
    """A stop of a train."""

    city: str
    minutes: int = 0


class Ticket(BaseModel):
    """A ticket."""

    price: Annotated[int, Field(ge=1)]
    day: date


class Branch(BaseModel):
    """A branch with branches."""

    name: str
    branches: list["Branch"] = []


@foreword.tool(trust="familiar")
def find_train(  # noqa: D417 - the others need no description
    start: str,
    via: list[Stop],
    *,
    speed: Speed = Speed.SLOW,
    ticket: Ticket | None = None,
    seat: Literal["window", "aisle"] = "window",
    limit: Annotated[int, Field(ge=1, le=9)] = 3,
    from_: str = "now",
) -> dict[str, Any]:
    """Find the next train.

    It may be late.

    Args:
        start: The first city,
            as it is written on the ticket.
        via (list): The stops.
        from: The time of the start.

    Returns:
        What was understood.
    """
    assert isinstance(speed, Speed)
    assert ticket is None or isinstance(ticket, Ticket)
    return {"start": start, "via": via, "speed": speed, "ticket": ticket, "seat": seat, "limit": limit, "from": from_}


@pytest.fixture
def ws(tmp_path):
    """A workspace."""
    with make_workspace(tmp_path, FILES) as workspace:
        yield workspace


def call(ws, tool, user="alice", /, **arguments):
    """Call a tool of a turn."""
    turn = foreword.Turn(user=user, situation="dm", tools=foreword.Toolset([tool]))
    return ws.call(ws.assemble(turn), tool.name, arguments).text


def test_schema():
    """The name, the description and the schema come from the signature and the docstring."""
    assert (find_train.name, find_train.description) == ("find_train", "Find the next train. It may be late.")
    assert find_train.parameters == {
        "type": "object",
        "properties": {
            "start": {"type": "string", "description": "The first city, as it is written on the ticket."},
            "via": {
                "type": "array",
                "description": "The stops.",
                "items": {
                    "type": "object",
                    "description": "A stop of a train.",
                    "properties": {"city": {"type": "string"}, "minutes": {"type": "integer"}},
                    "required": ["city"],
                },
            },
            "speed": {"type": "string", "enum": ["slow", "fast"], "description": "How fast."},
            "ticket": {
                "type": "object",
                "description": "A ticket.",
                "properties": {
                    "price": {"type": "integer", "minimum": 1},
                    "day": {"type": "string", "format": "date"},
                },
                "required": ["price", "day"],
            },
            "seat": {"type": "string", "enum": ["window", "aisle"]},
            "limit": {"type": "integer", "minimum": 1, "maximum": 9},
            "from": {"type": "string", "description": "The time of the start."},
        },
        "required": ["start", "via"],
        "additionalProperties": False,
    }


def test_restructured_text():
    """A docstring may describe its parameters in reST."""

    @foreword.tool
    def add(first: int, second: int) -> int:
        """Add two numbers.

        :param first: One number,
            which may be negative.
        :param int second: The other.
        :return: The sum.
        """
        return first + second

    described = {name: about["description"] for name, about in add.parameters["properties"].items()}
    assert described == {"first": "One number, which may be negative.", "second": "The other."}
    assert add.description == "Add two numbers."


def test_a_type_that_contains_itself(ws):
    """A recursive type keeps its references."""

    @foreword.tool
    def count(tree: Branch) -> int:
        return 1 + sum(len(one.branches) for one in tree.branches)

    assert count.parameters["properties"]["tree"] == {"$ref": "#/$defs/Branch"}
    tree = {"name": "a", "branches": [{"name": "b", "branches": [{"name": "c"}]}]}
    assert call(ws, count, tree=tree) == "2"


def test_defaults_of_the_options():
    """Without options a tool needs full trust and changes nothing."""

    @foreword.tool
    def look() -> str:
        return "dark"

    found = (look.name, look.description, look.trust, look.changes, look.confirm, look.seconds, look.guidance)
    assert found == ("look", "", foreword.Trust.FULL, False, True, None, "")
    assert look.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


def test_options():
    """The options are those of `Tool`; a name and a description replace those of the function."""

    @foreword.tool(
        name="open-door",
        description="Open it.",
        trust="inner",
        changes=True,
        confirm=False,
        seconds=2,
        guidance="Knock.",
    )
    def unlock() -> None:
        """Turn the key."""

    found = (unlock.name, unlock.description, unlock.trust, unlock.changes, unlock.confirm, unlock.seconds)
    assert found == ("open-door", "Open it.", foreword.Trust.INNER, True, False, 2)


def test_arguments_are_converted(ws):
    """Arguments have the types of the hints, and those left out have the function's defaults."""
    given = {"start": "Ulm", "via": [{"city": "Bonn"}], "speed": "fast", "ticket": {"price": 3, "day": "2026-12-24"}}
    assert json.loads(call(ws, find_train, **given, limit=2.0, seat=None)) == {
        "start": "Ulm",
        "via": [{"city": "Bonn", "minutes": 0}],
        "speed": "fast",
        "ticket": {"price": 3, "day": "2026-12-24"},
        "seat": "window",
        "limit": 2,
        "from": "now",
    }
    assert json.loads(call(ws, find_train, start="Ulm", via=[], **{"from": "8:00"}))["from"] == "8:00"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "^'start', 'via' are missing$"),
        ({"start": "Ulm"}, "^'via' is missing$"),
        ({"start": 3, "via": []}, "^'start' is to be string, not 3$"),
        ({"start": "Ulm", "via": "Bonn"}, "^'via' is to be array"),
        ({"start": "Ulm", "via": [{"city": 7}]}, r"^'via\.0\.city': Input should be a valid string$"),
        ({"start": "Ulm", "via": [{}]}, r"^'via\.0\.city': "),
        ({"start": "Ulm", "via": [], "speed": "warp"}, "^'speed': Input should be 'slow' or 'fast'$"),
        ({"start": "Ulm", "via": [], "seat": "roof"}, "^'seat': "),
        ({"start": "Ulm", "via": [], "limit": 10}, "^'limit' is to be at least 1 and at most 9, not 10$"),
        ({"start": "Ulm", "via": [], "limit": True}, "^'limit' is to be integer, not true$"),
        ({"start": "Ulm", "via": [], "ticket": {"price": 0, "day": "2026-12-24"}}, r"^'ticket\.price': "),
        ({"start": "Ulm", "via": [], "colour": "red"}, "^unknown argument 'colour'; known: start, via, "),
        ({"start": "Ulm", "via": [], "from_": "8:00"}, "^unknown argument 'from_'"),
        ({"start": "Ulm", "via": [{"city": n} for n in range(50)]}, "; 47 more errors$"),
        ({"start": "Ulm" * 400_000, "via": []}, "^the arguments have 1,200,004 characters, 'start' alone 1,200,002; "),
        ({"start": "Ulm", "via": [], "x" * 1_000_000: 1}, "^unknown argument 'x{60}'; "),
    ],
)
def test_wrong_arguments(ws, arguments, words):
    """An error names the argument."""
    with pytest.raises(foreword.InputError, match=words):
        call(ws, find_train, **arguments)


def test_types_that_run_code(ws):
    """An error in the code of a hint's type is an error of the arguments."""

    @dataclass
    class Even:
        number: int

        def __post_init__(self):
            if self.number == 3:
                raise foreword.InputError("3 is odd")
            _ = 1 / (self.number % 2 - 1)

    @foreword.tool
    def show(even: Even) -> int:
        return even.number

    with pytest.raises(foreword.InputError, match="3 is odd"):
        call(ws, show, even={"number": 3})
    with pytest.raises(foreword.InputError, match=r"^the arguments cannot be read \(ZeroDivisionError\)$"):
        call(ws, show, even={"number": 5})
    assert call(ws, show, even={"number": 2}) == "2"


def test_other_arguments(ws):
    """A function with `**others` takes unknown arguments, except those with the names of its own parameters."""

    @foreword.tool
    def show(run: foreword.ToolRun, city: str, from_: int = 1, **others: object) -> Any:
        return [run.turn.user, city, from_, others]

    assert "additionalProperties" not in show.parameters or show.parameters["additionalProperties"] is True
    assert (
        call(ws, show, city="Ulm", day="today", run=1, from_=7, self=2) == '["alice","Ulm",1,{"day":"today","self":2}]'
    )


def test_a_method(ws):
    """A method of an object can be a tool."""

    class Shop:
        def __init__(self, price):
            self.price = price

        def sell(self, item: str) -> str:
            return f"{item}: {self.price}"

    sell = foreword.tool(Shop(3).sell)
    assert list(sell.parameters["properties"]) == ["item"]
    assert call(ws, sell, item="milk") == "milk: 3"


def test_without_pydantic():
    """Without pydantic, a declaration says what to install."""
    script = (
        "import sys\nsys.modules['pydantic'] = None\nimport foreword\n"
        "try: foreword.tool(name='look')(lambda: 1)\nexcept foreword.InputError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "foreword.tool needs the package pydantic: pip install 'foreword[gateway]'\n"


def test_the_run(ws):
    """A parameter with the hint `ToolRun` gets the call, and the model does not see it."""

    @foreword.tool(trust="familiar")
    def greet(word: str, run: foreword.ToolRun) -> foreword.ToolAnswer:
        return run.answer(f"{word}, {run.turn.user}: {run.level}")

    @foreword.tool(trust="familiar")
    def sign(run: "foreword.ToolRun") -> str:
        return run.turn.user

    assert list(greet.parameters["properties"]) == ["word"]
    assert call(ws, greet, "bob", word="Hello") == "Hello, bob: familiar"
    assert call(ws, sign, "bob") == "bob"


def test_trust(ws):
    """A tool above the clearance of a turn cannot be called."""

    @foreword.tool
    def look() -> str:
        return "dark"

    with pytest.raises(foreword.UnknownName):
        call(ws, look, "bob")
    assert call(ws, look) == "dark"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("dark", "dark"),
        ("", ""),
        (None, ""),
        (3, "3"),
        ({"a": [1, None, "é"]}, '{"a":[1,null,"é"]}'),
        (Stop(city="Ulm"), '{"city":"Ulm","minutes":0}'),
        (Ticket(price=3, day=date(2026, 12, 24)), '{"price":3,"day":"2026-12-24"}'),
        ([Speed.FAST, date(2026, 12, 24)], '["fast","2026-12-24"]'),
        (float("nan"), "NaN"),
    ],
)
def test_returned_values(ws, value, text):
    """A text is returned as it is, nothing for None, and everything else as JSON."""

    @foreword.tool
    def give() -> Any:
        return value

    assert call(ws, give) == text


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize("value", [object(), CYCLE, b"\xff", lambda: 1, {"deep": [object()]}])
def test_values_that_are_no_json(ws, value):
    """A value that cannot be written as JSON is an error that names its type."""

    @foreword.tool
    def give() -> Any:
        return value

    with pytest.raises(foreword.ToolError, match=f"it returned a value of type {type(value).__name__} that cannot be"):
        call(ws, give)


def no_hint(city):
    """Look."""
    return city


def one_without_hint(city: str, day):
    """Look."""
    return city, day


def any_number(*cities: str):
    """Look."""
    return cities


def by_place(city: str, /):
    """Look."""
    return city


def unknown_hint(city: "Nowhere"):  # noqa: F821 - the claim is about such a hint
    """Look."""
    return city


def no_schema(city: asyncio.Lock):
    """Look."""
    return city


def météo(city: str):  # noqa: PLC2401 - the claim is about such a name
    """Look."""
    return city


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (no_hint, "the parameter 'city' of tool 'no_hint' has no type hint"),
        (one_without_hint, "the parameter 'day' of tool 'one_without_hint' has no type hint"),
        (any_number, r"the parameter '\*cities: str' of tool 'any_number' cannot be given by name"),
        (by_place, "the parameter 'city: str' of tool 'by_place' cannot be given by name"),
        (unknown_hint, "the type hints of tool 'unknown_hint' cannot be resolved: name 'Nowhere' is not defined"),
        (no_schema, "a type hint of tool 'no_schema' has no JSON Schema"),
        (météo, "'météo' is not a name that every provider accepts"),
        (lambda: 1, "'<lambda>' is not a name that every provider accepts"),
        (partial(no_hint, "Ulm"), "only functions and methods can be tools"),
        (3, "only functions and methods can be tools"),
    ],
)
def test_functions_that_are_no_tools(function, words):
    """A function without hints or with a refused name is no tool; the error says what to change."""
    with pytest.raises(foreword.InputError, match=words):
        foreword.tool(function)


@pytest.mark.parametrize("name", ["find train", "a.b", "7up", "-x", "x" * 65, "a/b", "é", "\n"])
def test_refused_names(name):
    """A name that some provider refuses is refused at once."""
    with pytest.raises(foreword.InputError, match="is not a name that every provider accepts"):
        foreword.tool(name=name)(by_place)


def test_unknown_trust():
    """An unknown level of trust is refused with a suggestion."""
    with pytest.raises(foreword.UnknownName, match="familar"):
        foreword.tool(name="look", trust="familar")(lambda: "dark")


def test_two_tools_with_one_name():
    """Two tools of one name are refused."""
    tools = [foreword.tool(name="look")(lambda: 1), foreword.tool(name="look")(lambda: 2)]
    with pytest.raises(foreword.InputError, match="two tools have the same name: look"):
        foreword.Toolset(tools)


def test_names_of_parameters(ws):
    """Parameters may have any name, also those of pydantic's methods."""

    @foreword.tool
    def show(self_: str, json: str, *, model_config: int, schema: bool, copy: list[str], id: str = "") -> str:  # noqa: A002
        return f"{self_} {json} {model_config} {schema} {copy} {id}"

    given = {"self_": "a", "json": "b", "model_config": 1, "schema": True, "copy": ["c"], "id": "d"}
    assert list(show.parameters["properties"]) == list(given)
    assert call(ws, show, **given) == "a b 1 True ['c'] d"


def test_guidance(ws):
    """The guidance of a tool is in the prompt of a turn that offers it."""

    @foreword.tool(trust="inner", guidance="Ask for the city first.")
    def look(city: str) -> str:
        return city

    def read(user):
        return ws.assemble(foreword.Turn(user=user, situation="dm", tools=foreword.Toolset([look]))).prompt.text

    assert "- look: Ask for the city first." in read("alice")
    assert "Ask for the city" not in read("bob")
