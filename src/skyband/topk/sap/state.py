"""The state of SAP in flat arrays, and the places of its numbers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.engine.algorithm import Setting
from skyband.kernels.emission import Emission, emission
from skyband.kernels.jit import lean
from skyband.kernels.ranked import Ranked, ranked, roomier
from skyband.kernels.work import counters
from skyband.order import Floats, Ints
from skyband.topk.ring import AT_ONCE, Ring, ring
from skyband.topk.sap.rank_test import EXACT, critical_values
from skyband.topk.sap.savl import Savl, savl, with_nodes

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
FRONT = 21  # front partition: 1 its objects began to expire, 2 its meaningful set is formed
NEXT_FROM = 23  # S-AVL under way: objects from here on are done
NEXT_UNIT = 24  # front partition: next unit whose own S-AVL is due
SAFE_FROM = 25  # while this object is alive, objects below the threshold cannot be answers
LEADERS_OLDEST = 26  # lower bound of the oldest object's number in the view
FREE_LIST = 27  # first free place for a unit's list, -1 if none
DIRTY = 28  # 1 if the answer may differ from the one reported last
WHOLE = 29  # 1 if the last step was taken in whole: units end only then
FORMING = 30  # partition whose S-AVL NEXT_FROM speaks of
WORST = 31  # the worst of its k best: its number; its score is threshold[2]
NEED = 32  # why the kernel stopped before a step: see ROOM_*
NEEDED = 33  # how much room it needs
QUIET = 34  # partitions have nothing to do before an object above this one is the first
UNIT_SHAPE = 35  # how the unit's objects stand: MIXED, RISING or RANKED
FRONT_OLDEST = 36  # lower bound of the oldest object's number in the front list
NUMBERS = 37
MIXED, RISING, RANKED = 0, 1, 2

# kernels never allocate: before a step they check for room, and else stop and say what they need
ROOM_BEST, ROOM_TABLE, ROOM_UNITS, ROOM_LISTS, ROOM_FRONT, ROOM_NODES, ROOM_LIST = range(1, 8)
ROOM_OUT = 8

# columns of State.table (finished partitions) and State.units
BEGIN, END, KEPT, UNITS_FROM, UNITS_UPTO, LIST_FROM, LIST_UPTO = 0, 1, 2, 3, 4, 5, 6
PLACE, LISTED = 2, 3


class Now(NamedTuple):
    """What most steps touch, and nothing else."""

    numbers: Ints
    threshold: Floats  # [tau] scores below it are not looked at; [F_theta] and [o^k] of FORMING
    unit: Ranked  # [U^tau] best of the current unit, in no order until put_in_order
    fresh: Ranked  # new leaders, not yet merged; empty between steps
    leaders: Ranked  # best of all candidates: the first k are the answer
    work: Ints


class State(NamedTuple):
    """What SAP keeps; the paper's names are in brackets."""

    now: Now
    raw: Ring  # every score of the window
    best: Ranked  # [C] candidates of finished partitions, without the front one
    dominators: Ints  # how many candidates of later partitions dominate each of them
    front: Ranked  # [P_0^k] candidates of the partition whose objects are expiring
    part: Ranked  # [P_m^k] best of the current partition without its current unit
    table: NDArray[np.int64]  # finished partitions
    units: NDArray[np.int64]  # units on record
    unit_best: Floats  # the best score of each unit
    lists: Ranked  # [L] lists of k-units, MOST objects each
    savl: Savl  # [M_0] S-AVLs: front and next partition, and two k-units
    meaningful: Ranked  # [M_i] as plain lists, where S-AVL is not used
    buffer: Ranked  # scratch
    critical: Ints  # exact critical values of the rank test
    memory: Emission


def three_sigma(k: int) -> float:
    """The solution x of (x - k) / sqrt(x) = 3: eta * k, and zeta*."""
    root = (3.0 + math.sqrt(9.0 + 4.0 * k)) / 2.0
    return root * root


def new_state(setting: Setting, mode: int) -> State:
    """SAP before the first object."""
    options = setting.options
    k = setting.k
    many = zeta = math.ceil(three_sigma(k))
    keep = zeta if mode == ENHANCED else k
    most = max(2 * zeta, math.ceil(zeta + 3 * math.sqrt(zeta))) if mode == ENHANCED else 2 * k
    numbers = np.zeros(NUMBERS, np.int64)
    numbers[[K, SIZE, SLIDE, COUNTED]] = k, setting.size, setting.slide, setting.counted
    numbers[[MODE, DELAY]] = mode, options.get("delay", True)
    numbers[SAVL] = options.get("savl", True) and options.get("delay", True)
    numbers[AMORTISE] = options.get("amortise", False) and numbers[SAVL]
    numbers[[MANY, KEEP, MOST, SETTLING]] = many, keep, most, 1
    numbers[[FORMING, FREE_LIST, DIRTY, UNIT_SHAPE]] = -1, -1, 1, RISING
    unit = 1
    if setting.counted:
        unit = unit_size(setting.size, setting.slide, k, options.get("partitions"))
        numbers[LONGEST] = int(setting.size / (1 + many / k))
    numbers[UNIT] = unit
    exact = k <= EXACT and mode != EQUAL
    width = k if not setting.counted else min(k, setting.size)
    now = Now(
        numbers,
        np.array([-np.inf, -np.inf, -np.inf]),
        ranked(most),
        ranked(max(most, many)),
        ranked(k + max(2 * k, 16)),
        counters(),
    )
    return State(
        now,
        ring(min(setting.size + setting.slide, AT_ONCE) if setting.counted else 1),
        ranked(4 * width),
        np.zeros(4 * width, np.int64),
        ranked(3 * width + 64),
        ranked(width),
        np.zeros((8, 7), np.int64),
        np.zeros((8, 4), np.int64),
        np.zeros(8),
        ranked(most),
        savl(4, k),
        ranked(1),
        ranked(max(2 * k, most) + 64),
        critical_values(k, many).copy() if exact else np.zeros(0, np.int64),
        emission(k, setting.changes),
    )


def unit_size(n: int, s: int, k: int, partitions: int | None = None) -> int:
    """Objects per unit: n over m* = ceil(sqrt(n / max(s, k))) parts; whole slides."""
    parts = partitions or math.ceil(math.sqrt(n / max(s, k)))
    whole = max(n // parts // s, 1) * s
    return min(whole, max(n // 2 // s, 1) * s)


@lean
def row_of(index: int, rows: NDArray[np.int64]) -> int:
    """Where a numbered row sits: the tables are rings with a power of two of rows."""
    return index & (len(rows) - 1)


def with_room(state: State) -> State:
    """The state with the room that the kernel asked for in NEED."""
    need = int(state.now.numbers[NEED])
    amount = int(state.now.numbers[NEEDED])
    if need == ROOM_BEST:
        longer = np.zeros(2 * len(state.dominators) + amount, np.int64)
        longer[: len(state.dominators)] = state.dominators
        state = state._replace(best=roomier(state.best, len(longer)), dominators=longer)
    elif need == ROOM_TABLE:
        state = state._replace(
            table=_stretched(state.table, state.now.numbers[HEAD], state.now.numbers[TAIL])
        )
    elif need == ROOM_UNITS:
        low, high = state.now.numbers[UNITS_HEAD], state.now.numbers[UNITS_TAIL]
        best = _stretched(state.unit_best[:, None], low, high)[:, 0]
        state = state._replace(
            units=_stretched(state.units, low, high), unit_best=np.ascontiguousarray(best)
        )
    elif need == ROOM_LISTS:
        state = state._replace(lists=_more_lists(state))
    elif need == ROOM_FRONT:
        state = state._replace(front=roomier(state.front, 2 * amount))
    elif need == ROOM_NODES:
        state = state._replace(savl=with_nodes(state.savl, amount))
    elif need == ROOM_LIST:
        state = state._replace(meaningful=roomier(state.meaningful, 2 * amount))
    return state


def _stretched(rows: NDArray[Any], low: int, high: int) -> NDArray[Any]:
    """Twice as many rows; row ``i`` sits at ``i`` modulo their number."""
    larger = np.zeros((2 * len(rows), rows.shape[1]), rows.dtype)
    index = np.arange(low, high)
    larger[index % len(larger)] = rows[index % len(rows)]
    return larger


def _more_lists(state: State) -> Ranked:
    """Room for more lists of k-units; free places are linked through their first number."""
    most, held = int(state.now.numbers[MOST]), int(state.lists.size[0])
    lists = roomier(state.lists, max(2 * held, 4 * most))
    for place in range(held, len(lists.score) - most + 1, most):
        lists.seq[place] = state.now.numbers[FREE_LIST]
        state.now.numbers[FREE_LIST] = place
        lists.size[0] = place + most
    return lists
