"""Masters: which of them are clusters, and whether one is there."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from skyband.errors import SkybandError

_PATIENCE = 5.0  # seconds to wait for a connection


def is_cluster(master: str | None) -> bool:
    """Whether a master has executors that are not this process, nor behind a Connect server."""
    return master is not None and not master.startswith(("local", "sc://"))


def require_master(master: str) -> None:
    """Refuse a standalone master that nobody listens at: Spark would try for a minute."""
    if not master.startswith("spark://"):
        return
    reason = ""
    for place in master.removeprefix("spark://").split(","):
        address = urlsplit(f"//{place}")
        try:
            socket.create_connection((address.hostname, address.port), _PATIENCE).close()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
        else:
            return
    raise SkybandError(
        f"no Spark master answers at {master}: {reason}",
        "a running master",
        "start it, or check its host and port",
    )
