"""Hosts: the names under which a request may ask for us; any other is a page somewhere that points its name at us."""

from ipaddress import ip_address

from foreword.config.schema import HttpServer
from foreword.errors import InputError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - named to be told apart


def list_hosts(settings: HttpServer) -> frozenset[str]:
    """List the names that are served: the loopback, the address that is listened on, and those of the configuration."""
    bound = () if settings.host in ANYWHERE else (settings.host,)
    return frozenset(name.lower() for name in (*LOOPBACK, *bound, *settings.hosts))


def read_host(header: str) -> str:
    """Read the name in a Host header, without its port; nothing where it has none."""
    text = header.strip().lower()
    if text.startswith("["):
        name, bracket, port = text[1:].partition("]")
        return name if bracket and (not port or is_port(port)) else ""
    name, colon, port = text.partition(":")
    return name.removesuffix(".") if not colon or port.isdecimal() else ""


def is_port(text: str) -> bool:
    """Whether a text is a port with its colon."""
    return text.startswith(":") and text[1:].isdecimal()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_address(settings: HttpServer) -> None:
    """Refuse an address that others can reach unless it is asked for."""
    if not settings.public and not is_loopback(settings.host):
        raise InputError(
            f"{settings.host} can be reached by others; if that is meant, say --public, "
            "or public: true under server in foreword.yaml"
        )
