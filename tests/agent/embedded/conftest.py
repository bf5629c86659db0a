"""Shared fixtures of the embedded model's tests."""

import os
import tempfile

import pytest

from foreword.agent.providers.embedded_weights import fetch_weights, find_weights, show_progress_bar

# Outside the folders of one run: the weights are fetched once on a machine, by whichever process comes first.
WEIGHTS = os.path.join(tempfile.gettempdir(), "foreword-test-weights")


@pytest.fixture(scope="session")
def weights():
    """The path of the real weights."""
    return fetch_weights(find_weights("smollm2"), WEIGHTS, show_progress_bar)


@pytest.fixture
def environ(weights):
    """An environment without any key, in which the weights are there."""
    return {"FOREWORD_CACHE": os.path.dirname(weights)}
