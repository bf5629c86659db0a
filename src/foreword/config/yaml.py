"""Parses YAML text into nodes, with size and depth limits. Import lazily: only this module needs yaml."""

import re
from collections.abc import Iterator
from typing import Any, NoReturn

import yaml

from foreword.config.structure import MappingNode, Node, ScalarNode, SequenceNode
from foreword.errors import ConfigError, ConfigFault

MAX_NODES = 100_000
MAX_DEPTH = 50

_PREFIX = "tag:yaml.org,2002:"
_TAGS = {_PREFIX + name for name in ("str", "int", "float", "bool", "null", "seq", "map")}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Characters that YAML forbids; checked here because libyaml reports them without a line.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_COLON = re.compile(r":(?:\s|$)")
_NO_COLON = ("a line without 'key: value'", "write a colon and a space after the key")


def parse_nodes(text: str, file: str) -> Node:
    """Parse the single document of this text; raise ConfigError with the line of the error."""
    if found := _FORBIDDEN.search(text):
        line = text.count("\n", 0, found.start()) + 1
        _refuse(file, line, "there is a control character here", "delete it")
    loader = _LOADER(text)
    try:
        return _Composer(loader, file).compose()
    except yaml.MarkedYAMLError as error:
        if mistake := _translate(error, text.splitlines()):
            _refuse(file, *mistake)
        # libyaml reports unclosed brackets and quotes on the line after the last one.
        last = text.rstrip("\n").count("\n")
        line = min(error.problem_mark.line if error.problem_mark else last, last) + 1
        begin = error.context_mark.line + 1 if error.context_mark else line
        context = f" {error.context} from line {begin}" if error.context and begin < line else ""
        _refuse(file, line, f"this is not valid YAML: {error.problem}{context}")
    finally:
        loader.dispose()


def _translate(error: yaml.MarkedYAMLError, lines: list[str]) -> tuple[int, str, str] | None:
    """Return line, message and remedy for common mistakes; None for others."""
    mark, problem = error.problem_mark, error.problem or ""
    if problem == "could not find expected ':'" and error.context_mark:
        return error.context_mark.line + 1, *_NO_COLON
    if mark is None or mark.line >= len(lines):
        return None
    line, sign = lines[mark.line], lines[mark.line][mark.column : mark.column + 1]
    if sign and ("cannot start any token" in problem or "tab character" in problem):
        tab = ("a tab cannot indent", "use spaces")
        return mark.line + 1, *(tab if sign == "\t" else (f"a value cannot begin with {sign}", "put it in quotes"))
    if problem.startswith("mapping values are not allowed"):
        if _COLON.search(line[: mark.column]):
            return mark.line + 1, "a second colon in one line", "put the value in quotes"
        return _explain_columns(mark.line, lines)
    return _explain_columns(mark.line, lines) if "<document start>" in problem else None


def _explain_columns(at: int, lines: list[str]) -> tuple[int, str, str] | None:
    """Explain a key that libyaml did not expect: the first line is not a key, or this line has another column."""
    first = next((at for at, line in enumerate(lines) if line.strip() and line.lstrip()[0] not in "#%-"), 0)
    if lines[first].lstrip()[:1] in ("{", "["):
        return None
    if first <= at and not _COLON.search(lines[first]):  # libyaml reads it as multi-line text
        return first + 1, *_NO_COLON
    return at + 1, "this line is not indented like the lines above it", "begin the keys of a table in one column"


class _Composer:
    """Builds nodes from parser events; yaml.compose overflows the C stack on deep nesting."""

    def __init__(self, loader: Any, file: str) -> None:
        self._loader, self._file = loader, file
        self._anchors: dict[str, Node | None] = {}

    def compose(self) -> Node:
        self._loader.get_event()
        if self._loader.check_event(yaml.StreamEndEvent):
            _refuse(self._file, 1, "the file is empty")
        self._loader.get_event()
        root = self._compose_node(1)
        self._loader.get_event()
        if not self._loader.check_event(yaml.StreamEndEvent):
            line = self._loader.peek_event().start_mark.line + 1
            _refuse(self._file, line, "a second document begins here", "keep one document in the file")
        return root

    def _compose_node(self, depth: int) -> Node:
        event = self._loader.get_event()
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            return self._follow(str(event.anchor), line, depth)
        self._bound_depth(depth, line)
        if event.tag not in _TAGS and event.tag not in (None, "!"):
            _refuse(self._file, line, f"the tag {event.tag} is not supported", "remove it")
        if event.anchor:
            # None marks an anchor whose value is still open; an alias to it is recursive.
            self._anchors[event.anchor] = None
        node = self._compose_value(event, line, depth)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _compose_value(self, event: Any, line: int, depth: int) -> Node:
        if isinstance(event, yaml.ScalarEvent):
            tag = event.tag
            if tag not in _TAGS:
                tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
            return ScalarNode(line=line, text=event.value, tag=tag.removeprefix(_PREFIX))
        is_list = isinstance(event, yaml.SequenceStartEvent)
        children = tuple(self._compose_children(yaml.SequenceEndEvent if is_list else yaml.MappingEndEvent, depth))
        size = 1 + sum(child.size for child in children)
        height = 1 + max((child.height for child in children), default=0)
        if size > MAX_NODES:
            _refuse(self._file, line, f"this has more than {MAX_NODES:,} values, with aliases expanded")
        if is_list:
            return SequenceNode(line=line, items=children, size=size, height=height)
        pairs = tuple(zip(children[::2], children[1::2], strict=True))
        return MappingNode(line=line, entries=pairs, size=size, height=height)

    def _compose_children(self, end: type, depth: int) -> Iterator[Node]:
        while not self._loader.check_event(end):
            yield self._compose_node(depth + 1)
        self._loader.get_event()

    def _follow(self, anchor: str, line: int, depth: int) -> Node:
        if anchor not in self._anchors:
            _refuse(self._file, line, f"the alias *{anchor} has no anchor &{anchor} above it")
        node = self._anchors[anchor]
        if node is None:
            _refuse(self._file, line, f"the alias *{anchor} contains itself")
        self._bound_depth(depth + node.height - 1, line)
        return node

    def _bound_depth(self, depth: int, line: int) -> None:
        if depth > MAX_DEPTH:
            _refuse(self._file, line, f"this is nested more than {MAX_DEPTH} levels deep")


def _refuse(file: str, line: int, message: str, remedy: str = "") -> NoReturn:
    raise ConfigError([ConfigFault(file=file, line=line, message=message, remedy=remedy)])
