"""A state store, timers and a task that treat a stateful processor as Spark's engine does.

What Spark does, and a simpler fake would hide:
  - the rows of a batch come first, then the timers at or before the watermark, in order of time
  - the expired timers are listed once: one that is set meanwhile waits for the next batch
  - the timer that fired is deleted after its handler: setting the same moment again is lost
  - values are checked against the declared layout, and what is read back is a copy
  - every task makes a new handle and calls ``init``; a task that fails leaves nothing behind
"""

from __future__ import annotations

from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
)

_PYTHON = {
    BinaryType: bytes,
    BooleanType: bool,
    DoubleType: float,
    IntegerType: int,
    LongType: int,
    StringType: str,
}
_BOUNDS = {IntegerType: 1 << 31, LongType: 1 << 63}


class Store:
    """What a checkpoint holds: a value per key, and timers."""

    def __init__(self, values=(), timers=()):
        self.values = dict(values)
        self.timers = set(timers)

    def copy(self):
        return Store(self.values, self.timers)


class FakeHandle:
    """The part of StatefulProcessorHandle that the pane path uses; ``key`` is the implicit key."""

    def __init__(self, store):
        self.store = store
        self.key = None

    def getValueState(self, name, schema, ttlDurationMs=None):  # noqa: N802
        assert ttlDurationMs is None, "event time knows no TTL"
        return FakeValueState(self, name, schema)

    def getMapState(self, name, user_key, value, ttlDurationMs=None):  # noqa: N802
        assert ttlDurationMs is None, "event time knows no TTL"
        return FakeMapState(self, name, user_key, value)

    def registerTimer(self, expiry):  # noqa: N802
        assert type(expiry) is int, expiry
        assert -(1 << 63) <= expiry < 1 << 63, expiry
        self.store.timers.add((expiry, self.key))

    def deleteTimer(self, expiry):  # noqa: N802
        self.store.timers.discard((expiry, self.key))

    def listTimers(self):  # noqa: N802
        return iter(sorted(at for at, key in self.store.timers if key == self.key))


class FakeValueState:
    """One value per key, in a declared layout."""

    def __init__(self, handle, name, schema):
        self._handle, self._name, self._fields = handle, name, schema.fields

    def exists(self):
        return (self._name, self._handle.key) in self._handle.store.values

    def get(self):
        value = self._handle.store.values.get((self._name, self._handle.key))
        return None if value is None else tuple(_thawed(part) for part in value)

    def update(self, value):
        assert type(value) is tuple, type(value)
        check_layout(value, self._fields)
        self._handle.store.values[self._name, self._handle.key] = tuple(map(_frozen, value))

    def clear(self):
        self._handle.store.values.pop((self._name, self._handle.key), None)


class FakeMapState:
    """Values by a key of the processor's own, beside the implicit one, in declared layouts."""

    def __init__(self, handle, name, user_key, value):
        self._handle, self._name = handle, name
        self._key, self._value = user_key.fields, value.fields

    def _place(self, key):
        check_layout(key, self._key)
        return (self._name, key), self._handle.key

    def getValue(self, key):  # noqa: N802
        return self._handle.store.values.get(self._place(key))

    def updateValue(self, key, value):  # noqa: N802
        check_layout(value, self._value)
        self._handle.store.values[self._place(key)] = value

    def removeKey(self, key):  # noqa: N802
        del self._handle.store.values[self._place(key)]


def check_layout(values, fields):
    """Plain Python values of the declared types, None only where that is declared."""
    assert len(values) == len(fields)
    for value, field in zip(values, fields, strict=True):
        _check(value, field.dataType, field.nullable, field.name)


def _check(value, type_, nullable, name):
    if value is None:
        assert nullable, f"{name} is None"
    elif isinstance(type_, ArrayType):
        assert type(value) is list, f"{name} is a {type(value)}"
        expected = _PYTHON[type(type_.elementType)]
        for element in value:
            if type(element) is not expected:
                _check(element, type_.elementType, type_.containsNull, name)
    else:
        assert type(value) is _PYTHON[type(type_)], f"{name} is {value!r}"
        bound = _BOUNDS.get(type(type_))
        assert bound is None or -bound <= value < bound, f"{name} is {value!r}"


def _frozen(part):
    return tuple(part) if type(part) is list else part


def _thawed(part):
    return list(part) if type(part) is tuple else part


def run_task(processor, store, groups, watermark):
    """One batch: the rows of each key in ``groups``, then expired timers; yields (key, row)."""
    handle = FakeHandle(store)
    processor.init(handle)
    times = TimerValues(-1, watermark)
    for key, rows in groups:
        handle.key = key
        for row in processor.handleInputRows(key, iter(rows), times):
            yield key, row
    expired = [timer for timer in store.timers if timer[0] <= watermark]
    for at, key in sorted(expired, key=lambda timer: (timer[0], repr(timer[1]))):
        handle.key = key
        for row in processor.handleExpiredTimer(
            key=key, timerValues=times, expiredTimerInfo=ExpiredTimerInfo(at)
        ):
            yield key, row
        handle.deleteTimer(at)
    handle.key = None
    processor.close()
