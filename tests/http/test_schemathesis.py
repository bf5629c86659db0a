"""The OpenAPI document matches the server: schemathesis finds no deviation."""

import json
import os
import subprocess
import sys

import pytest
from served import serve_workspace

from foreword.http.app import make_app

SOAK = bool(os.environ.get("FOREWORD_SOAK"))
# Well-formed but impossible values are 422 (an invalid time, a fork beyond the end); too long is 413. Chat completions
# answer 400, as OpenAI does, to a feature that the model lacks (response_format, a forced tool, an attachment).
CONFIG = """\
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "404", "409", "422"]
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "404", "405", "413", "415", "422"]
[[operations]]
include-path = "/v1/chat/completions"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "401", "404", "409", "422"]
"""


def narrow(document):
    """Restrict `model` to the existing agents, so that generated requests reach them."""
    document["components"]["schemas"]["ChatRequest"]["properties"]["model"]["enum"] = ["reid", "ada"]
    return document


@pytest.mark.parametrize(
    ("user", "phases", "examples"),
    [("bob", "fuzzing", 4)]
    if not SOAK
    else [("bob", "coverage,fuzzing,stateful", 100), ("alice", "coverage,fuzzing,stateful", 100)],
)
def test_no_deviation(tmp_path, user, phases, examples):
    """No generated request, valid or not, gets a response that the document does not declare."""
    work = tmp_path / "work"
    work.mkdir()
    document = narrow(make_app().openapi())
    (work / "openapi.json").write_text(json.dumps(document))
    (work / "schemathesis.toml").write_text(CONFIG)
    command = os.path.join(os.path.dirname(sys.executable), "schemathesis")
    with serve_workspace(tmp_path / "ws") as served:
        run = subprocess.run(
            [
                *(command, "--config-file", "schemathesis.toml", "run", "openapi.json", "--url", served.url),
                *("--header", f"Authorization: Bearer {served.make_token(user)}", "--phases", phases),
                *("--max-examples", str(examples), "--seed", "1", "--generation-database", "none", "--no-color"),
            ],
            cwd=work,
            capture_output=True,
            text=True,
            check=False,
        )
    output = "\n".join(line[:300] for line in run.stdout.splitlines())
    assert run.returncode == 0, output + run.stderr
    assert f" {sum(map(len, document['paths'].values()))} passed" in output
