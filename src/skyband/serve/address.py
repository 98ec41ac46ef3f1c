"""Where a page is served: an address of this machine, and who may read there."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass

from skyband.errors import QueryError

LOOPBACK = "127.0.0.1"
_ADDRESS = re.compile(r"(?:(?P<host>\[[^\]]+\]|[^:\[\]]+):)?(?P<port>\d+)")


@dataclass(frozen=True)
class Address:
    """A host and a port; port 0 is any that is free."""

    host: str
    port: int

    @classmethod
    def parsed(cls, text: str | int, option: str = "--serve") -> Address:
        """The address that a text such as ``8080`` or ``0.0.0.0:8080`` means."""
        match = _ADDRESS.fullmatch(str(text).strip())
        if match is None or int(match["port"]) > 65_535:
            raise QueryError(
                f"{option} is {str(text)!r}",
                "[HOST:]PORT",
                f"{option} 8080, or {option} 0 for any port that is free",
            )
        return cls((match["host"] or LOOPBACK).strip("[]"), int(match["port"]))

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def url(self) -> str:
        """The address of the page for a browser on this machine."""
        host = LOOPBACK if self.host == "0.0.0.0" else self.host
        host = "::1" if host == "::" else host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def bound(self, option: str = "--serve") -> tuple[socket.socket, Address]:
        """A socket that listens here, and the address with the port that it got.

        It is bound before anything else starts: a port that is taken is an error at once.
        """
        try:
            family, kind, protocol, _, place = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listener = socket.socket(family, kind, protocol)
        except OSError as error:
            raise self._refused(option, error) from None
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            listener.listen(1024)
        except OSError as error:
            listener.close()
            raise self._refused(option, error) from None
        return listener, Address(self.host, listener.getsockname()[1])

    def _refused(self, option: str, error: OSError) -> QueryError:
        return QueryError(
            f"{option}: nobody can listen on {self.host}:{self.port}: {error.strerror or error}",
            "an address of this machine, and a port that is free",
            f"{option} {'' if self.is_loopback else self.host + ':'}0 takes any that is free",
        )
