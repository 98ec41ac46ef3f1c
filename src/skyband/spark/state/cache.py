"""What a Python worker remembers between micro-batches: never the only copy of anything."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class EngineCache(Generic[V]):
    """Maintains engines by name, up to so many bytes; the least recently used goes first.

    ``least`` engines stay however large they are.

    Complexity: O(1) per call and engine that goes.
    """

    def __init__(self, most: int = 512 << 20, least: int = 0) -> None:
        self._most = most  # bytes
        self._least = least
        self._bytes = 0
        self._engines: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._engines)

    def __len__(self) -> int:
        return len(self._engines)

    def keep(self, name: Hashable, engine: V, size: int) -> None:
        """Remember an engine of so many bytes."""
        self.take(name)
        self._engines[name] = engine, size
        self._bytes += size
        while self._bytes > self._most and len(self._engines) > self._least:
            self._bytes -= self._engines.popitem(last=False)[1][1]

    def get(self, name: Hashable) -> V | None:
        """An engine by its name; it stays in the cache, as the one used last."""
        if name not in self._engines:
            return None
        self._engines.move_to_end(name)
        return self._engines[name][0]

    def take(self, name: Hashable) -> V | None:
        """An engine by its name, which is forgotten until it is kept again."""
        engine, size = self._engines.pop(name, (None, 0))
        self._bytes -= size
        return engine

    def clear(self) -> None:
        """Forget all engines."""
        self._engines.clear()
        self._bytes = 0
