"""Claims about providers in a configuration: addresses are taken, and bad ones are faults with their line."""

import pytest

from foreword.config.load import load_config
from foreword.errors import ConfigError

HEAD = "owner: alice\nusers: {alice: {trust: full}}\nproviders:\n"


@pytest.mark.parametrize("url", ["https://proxy.example", "http://[::1]:8000/v1", "http://localhost:11434/v1"])
def test_taken(url):
    """A web address is taken unchanged."""
    assert load_config(f"{HEAD}  anthropic: {{base_url: '{url}'}}\n").providers["anthropic"].base_url == url


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("shed: {base_url: shed.local}", "providers.shed.base_url must be an address that begins with http://"),
        ("shed: {base_url: 'ftp://shed'}", "must be an address that begins with http://"),
        ("shed: {base_url: ''}", "must be an address that begins with http://"),
        ("shed: {base_url: 'http://'}", "names a host"),
        ("shed: {base_url: 'http://a b'}", "without spaces"),
        ("shed: {base_url: 'http://host:port'}", "its host or its port cannot be read"),
        ("shed: {base_url: 'http://[::1'}", "its host or its port cannot be read"),
        ("shed: {base_url: 'https://me:hush@host/v1'}", "put the key into .env"),
        ("shed: {base_url: 'https://host/v1?key=hush'}", "put the key into .env"),
        ("shed: {}", "providers.shed is empty; set base_url or diagnostics"),
        ("shed: {url: 'http://host'}", "providers.shed.url is not a known key"),
        ("local: {base_url: 'http://host'}", "providers.local is the embedded model, which has no address"),
        ("'My Shed': {base_url: 'http://host'}", "is not a usable name"),
    ],
)
def test_faults(line, words):
    """A bad address is a fault with its line, and a key in it is not repeated."""
    with pytest.raises(ConfigError) as caught:
        load_config(f"{HEAD}  {line}\n")
    fault = next(fault for fault in caught.value.faults if words in fault.message)
    assert fault.line == 4
    assert "hush" not in str(caught.value)
