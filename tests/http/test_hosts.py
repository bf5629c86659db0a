"""Host names: only listed hosts are served, and a public listen address must be explicit."""

import pytest

from foreword.config.schema import HttpServer
from foreword.errors import InputError
from foreword.http.middleware import check_listen_address, list_allowed_hosts, parse_host_header


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
    """A Host header is parsed without its port; an invalid one is empty."""
    assert parse_host_header(header) == name


def test_listed():
    """Loopback, listen address and listed hosts are allowed; a wildcard address is not a host name."""
    served = list_allowed_hosts(HttpServer(host="0.0.0.0", hosts=("Agents.Example",)))
    assert served == {"localhost", "127.0.0.1", "::1", "agents.example"}
    assert "192.168.1.7" in list_allowed_hosts(HttpServer(host="192.168.1.7"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org"])
def test_public(host):
    """A public listen address needs `public`."""
    with pytest.raises(InputError, match="--public"):
        check_listen_address(HttpServer(host=host))
    check_listen_address(HttpServer(host=host, public=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback(host):
    """A loopback address needs no `public`."""
    check_listen_address(HttpServer(host=host))
