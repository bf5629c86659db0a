"""Claims about the map of the source tree: names, errors, and what tests import."""

import ast
import builtins
import re
from collections import defaultdict
from pathlib import Path

import foreword
from foreword import errors

SOURCE = Path(foreword.__file__).parent
TESTS = Path(__file__).parents[1]
ALLOWED = TESTS / "architecture" / "internal_imports.txt"
PUBLIC = {"foreword", "foreword.testing", "foreword.cli.main"}  # the library, its fakes, and the command
NOUNS = {"housekeeping", "pairing", "testing"}  # nouns of the field that end like verbs
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def list_classes():
    """Yield every class of the source with its file."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield node, path.relative_to(SOURCE)


def find_repeated(pairs):
    """Return the names that occur more than once, each with its places."""
    places = defaultdict(list)
    for name, place in pairs:
        places[name].append(str(place))
    return {name: found for name, found in places.items() if len(found) > 1}


def imports_internals(path):
    """Return whether a file imports a module of Foreword that is not public."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else names
        if any(name.split(".")[0] == "foreword" and name not in PUBLIC for name in names):
            return True
    return False


def list_internal_tests():
    """List the test files that import internals."""
    return sorted(str(path.relative_to(TESTS)) for path in TESTS.rglob("*.py") if imports_internals(path))


def test_module_names_are_unique():
    """Every module and package name is used once."""
    modules = [(path.parent.name if path.name == "__init__.py" else path.stem, path) for path in TREES]
    assert find_repeated((name, path.relative_to(SOURCE)) for name, path in modules if path.parent != SOURCE) == {}


def test_module_names_are_nouns():
    """No module is named by a gerund or a participle."""
    names = {path.stem for path in TREES} - NOUNS
    assert [name for name in sorted(names) if re.search(r"(ing|ed)$", name)] == []


def test_class_names_are_unique():
    """Every class name is used once."""
    assert find_repeated((node.name, path) for node, path in list_classes()) == {}


def test_errors_are_drawn():
    """Every exception that another module uses is in the tree that `errors.py` draws."""
    drawn = set(re.findall(r"[├└│ ─]*\b([A-Z]\w+)", errors.__doc__ or ""))
    bases = {node.name: {ast.unparse(base).split(".")[-1] for base in node.bases} for node, _ in list_classes()}
    raised = {
        name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)
    }
    while found := {name for name, of in bases.items() if of & raised} - raised:
        raised |= found
    words = {path.relative_to(SOURCE): set(re.findall(r"\w+", path.read_text(encoding="utf-8"))) for path in TREES}
    for node, place in list_classes():
        if node.name in raised and place.parts[0] != "testing":
            users = [path for path, used in words.items() if path != place and node.name in used]
            assert node.name in drawn or not users, f"{node.name} of {place} is used in {users[0]}"


def test_tests_import_internals():
    """The list of test files that import internals only shrinks; the others use the public surface."""
    assert list_internal_tests() == ALLOWED.read_text(encoding="utf-8").split()
