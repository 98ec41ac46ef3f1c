"""The state of SAP in flat arrays, and the places of its numbers."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels.emission import Emission, emission
from skyband.kernels.jit import jit
from skyband.kernels.ranked import Ranked, ranked
from skyband.kernels.ranktest import EXACT, critical_values
from skyband.kernels.ring import Ring, ring
from skyband.kernels.savl import Savl, savl
from skyband.kernels.work import counters
from skyband.order import Floats, Ints
from skyband.topk.algorithm import Setting

EQUAL, DYNAMIC, ENHANCED = 0, 1, 2

# places in State.numbers
K, SIZE, SLIDE, COUNTED = 0, 1, 2, 3
MODE, DELAY, SAVL, AMORTISE = 4, 5, 6, 7
UNIT = 8  # objects of a unit (count windows); of the current unit (time windows)
LONGEST = 9  # objects of a partition at most
MANY = 10  # eta * k: objects that the rank test compares with
KEEP = 11  # objects kept of a unit: k, or zeta* (enhanced)
MOST = 12  # objects kept before a cut: max(2 zeta*, zeta_max)
SETTLING = 13  # 1 while the threshold of the current unit is being found
UNIT_FROM = 14  # first object of the current unit
PART_FROM = 15  # first object of the current partition
PART_UNITS = 16  # first unit of the current partition
HEAD, TAIL = 17, 18  # finished partitions: rows HEAD .. TAIL of the table
UNITS_HEAD, UNITS_TAIL = 19, 20  # units on record
FRONT = 21  # 1 once the front partition's objects began to expire
NEXT_FROM = 23  # amortised formation: objects from here on are done, -1 if none is under way
NEXT_UNIT = 24  # front partition: next unit whose own S-AVL is due
SAFE_FROM = 25  # while this object is alive, objects below the threshold cannot be answers
LEADERS_OLDEST = 26  # lower bound of the oldest object's number in the view
FREE_LIST = 27  # first free place for a unit's list, -1 if none
DIRTY = 28  # 1 if the answer may differ from the one reported last
NUMBERS = 29

# columns of State.table (finished partitions) and State.units
BEGIN, END, KEPT, UNITS_FROM, UNITS_UPTO, LIST_FROM, LIST_UPTO = 0, 1, 2, 3, 4, 5, 6
PLACE, LISTED = 2, 3


class State(NamedTuple):
    """What SAP keeps; the paper's names are in brackets."""

    numbers: Ints
    threshold: Floats  # [tau] scores below it are not looked at in this unit; [F_theta] of next
    raw: Ring  # every score of the window
    best: Ranked  # [C] candidates of finished partitions, without the front one
    dominators: Ints  # how many candidates of later partitions dominate each of them
    front: Ranked  # [P_0^k] candidates of the partition whose objects are expiring
    part: Ranked  # [P_m^k] best of the current partition without its current unit
    unit: Ranked  # [U^tau] best of the current unit
    fresh: Ranked  # new objects, not yet merged anywhere
    leaders: Ranked  # best of all of the above: its first k are the answer
    table: NDArray[np.int64]  # finished partitions
    units: NDArray[np.int64]  # units on record
    unit_best: Floats  # the best score of each unit
    lists: Ranked  # [L] lists of k-units, MOST objects each
    savl: Savl  # [M_0] S-AVLs: front and next partition, and two k-units
    meaningful: Ranked  # [M_i] as plain lists, where S-AVL is not used
    buffer: Ranked  # scratch
    critical: Ints  # exact critical values of the rank test
    memory: Emission
    work: Ints


def three_sigma(k: int) -> float:
    """The solution x of (x - k) / sqrt(x) = 3: eta * k, and zeta*."""
    root = (3.0 + math.sqrt(9.0 + 4.0 * k)) / 2.0
    return root * root


def new_state(setting: Setting, mode: int) -> State:
    """SAP before the first object."""
    options = setting.options
    k = setting.k
    many = math.ceil(three_sigma(k))
    zeta = math.ceil(three_sigma(k))
    keep = zeta if mode == ENHANCED else k
    most = max(2 * zeta, math.ceil(zeta + 3 * math.sqrt(zeta))) if mode == ENHANCED else 2 * k
    numbers = np.zeros(NUMBERS, np.int64)
    numbers[[K, SIZE, SLIDE, COUNTED]] = k, setting.size, setting.slide, setting.counted
    numbers[[MODE, DELAY]] = mode, options.get("delay", True)
    numbers[SAVL] = options.get("savl", True) and options.get("delay", True)
    numbers[AMORTISE] = options.get("amortise", False) and numbers[SAVL]
    numbers[[MANY, KEEP, MOST, SETTLING]] = many, keep, most, 1
    numbers[[NEXT_FROM, FREE_LIST, DIRTY]] = -1, -1, 1
    unit = 1
    if setting.counted:
        unit = unit_size(setting.size, setting.slide, k, options.get("partitions"))
        numbers[LONGEST] = int(setting.size / (1 + many / k))
    numbers[UNIT] = unit
    exact = k <= EXACT and mode != EQUAL
    width = k if not setting.counted else min(k, setting.size)
    return State(
        numbers,
        np.array([-np.inf, -np.inf]),
        ring(setting.size + setting.slide if setting.counted else 1),
        ranked(2 * width),
        np.zeros(2 * width, np.int64),
        ranked(width),
        ranked(width),
        ranked(most),
        ranked(max(most, many)),
        ranked(k + max(k // 2, 16)),
        np.zeros((8, 7), np.int64),
        np.zeros((8, 4), np.int64),
        np.zeros(8),
        ranked(most),
        savl(4, k),
        ranked(1),
        ranked(2 * width),
        critical_values(k, many).copy() if exact else np.zeros(0, np.int64),
        emission(k, setting.changes),
        counters(),
    )


def unit_size(n: int, s: int, k: int, partitions: int | None = None) -> int:
    """Objects per unit: n over m* = ceil(sqrt(n / max(s, k))) parts, whole slides, half of n at most."""
    parts = partitions or math.ceil(math.sqrt(n / max(s, k)))
    whole = max(n // parts // s, 1) * s
    return min(whole, max(n // 2 // s, 1) * s)


@jit
def row_of(index: int, rows: NDArray[np.int64]) -> int:
    """Where a numbered row sits: the tables are rings with a power of two of rows."""
    return index & (len(rows) - 1)


@jit
def with_table(state: State, table: NDArray[np.int64]) -> State:
    """The state with another partition table."""
    return State(
        state.numbers, state.threshold, state.raw, state.best, state.dominators, state.front,
        state.part, state.unit, state.fresh, state.leaders, table, state.units, state.unit_best,
        state.lists, state.savl, state.meaningful, state.buffer, state.critical, state.memory,
        state.work,
    )  # fmt: skip


@jit
def with_units(
    state: State, units: NDArray[np.int64], unit_best: Floats, lists: Ranked
) -> State:
    """The state with other unit records."""
    return State(
        state.numbers, state.threshold, state.raw, state.best, state.dominators, state.front,
        state.part, state.unit, state.fresh, state.leaders, state.table, units, unit_best,
        lists, state.savl, state.meaningful, state.buffer, state.critical, state.memory,
        state.work,
    )  # fmt: skip


@jit
def with_best(state: State, best: Ranked, dominators: Ints) -> State:
    """The state with another candidate list."""
    return State(
        state.numbers, state.threshold, state.raw, best, dominators, state.front,
        state.part, state.unit, state.fresh, state.leaders, state.table, state.units,
        state.unit_best, state.lists, state.savl, state.meaningful, state.buffer, state.critical,
        state.memory, state.work,
    )  # fmt: skip


@jit
def with_meaningful(
    state: State, stacks: Savl, meaningful: Ranked, buffer: Ranked, front: Ranked
) -> State:
    """The state with other meaningful sets."""
    return State(
        state.numbers, state.threshold, state.raw, state.best, state.dominators, front,
        state.part, state.unit, state.fresh, state.leaders, state.table, state.units,
        state.unit_best, state.lists, stacks, meaningful, buffer, state.critical,
        state.memory, state.work,
    )  # fmt: skip
