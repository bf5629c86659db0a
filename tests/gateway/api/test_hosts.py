"""Claims about hosts: a name that nobody listed is not served, and no address is public by accident."""

import pytest

from foreword.config.schema import HttpServer
from foreword.errors import InputError
from foreword.gateway.api.hosts import check_address, list_hosts, read_host


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost", "localhost"),
        ("LOCALHOST:8707", "localhost"),
        ("localhost.", "localhost"),
        ("[::1]:80", "::1"),
        ("[::1]", "::1"),
        ("evil.example", "evil.example"),
        ("localhost:80:80", ""),
        ("localhost:evil", ""),
        ("[::1", ""),
        ("[::1]evil", ""),
        ("", ""),
    ],
)
def test_read_host(header, name):
    """A name is read without its port, and what is no host is none."""
    assert read_host(header) == name


def test_listed():
    """The loopback, the address itself and what is listed are served; an address of all is no name."""
    served = list_hosts(HttpServer(host="0.0.0.0", hosts=("Agents.Example",)))
    assert served == {"localhost", "127.0.0.1", "::1", "agents.example"}
    assert "192.168.1.7" in list_hosts(HttpServer(host="192.168.1.7"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org"])
def test_public(host):
    """An address that others can reach has to be asked for."""
    with pytest.raises(InputError, match="--public"):
        check_address(HttpServer(host=host))
    check_address(HttpServer(host=host, public=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback(host):
    """The loopback is nobody else's."""
    check_address(HttpServer(host=host))
