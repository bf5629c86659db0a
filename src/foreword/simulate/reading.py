"""Reading scenarios: from YAML, with every fault at once, or the one that ships with the package."""

from foreword.config.structure import settle, spell, structure
from foreword.errors import Fault, InputError
from foreword.shipped import read_shipped
from foreword.simulate.checking import check, judge_size
from foreword.simulate.scenario import Scenario

LIVING = "living"


def read_scenario(text: str, file: str) -> Scenario:
    """Read a scenario from YAML, or raise ConfigError with every fault."""
    from foreword.config.composer import compose

    structured = structure(compose(text, file), Scenario, file)
    further = [
        Fault(file=file, line=line, message=f"{spell(keys)} {message}")
        for keys, line, message in check(structured.places)
    ]
    scenario = settle(structured, further)
    if problem := judge_size(scenario):
        raise InputError(f"{file}: {problem}; play fewer turns, or smaller sections and results")
    return scenario


def find_living() -> Scenario:
    """Find the scenario that ships with the package."""
    return read_scenario(read_shipped("data", "scenarios", f"{LIVING}.yaml") or "", f"{LIVING}.yaml")
