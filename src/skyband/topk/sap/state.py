"""The state of SAP: one record of named numbers, ranked lists, and tables of records."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.engine.plan import Setting
from skyband.kernels.answers import Ranked, ranked, roomier
from skyband.kernels.emission import Emission, emission
from skyband.kernels.jit import lean
from skyband.kernels.records import Record, fields, record
from skyband.kernels.work import counters
from skyband.order import Ints
from skyband.topk.ring import AT_ONCE, Ring, ring
from skyband.topk.sap.rank_test import EXACT, critical_values
from skyband.topk.sap.savl import Savl, savl, with_nodes

EQUAL, DYNAMIC, ENHANCED = 0, 1, 2  # values of mode

# values of unit_shape: how the objects of the current unit stand
MIXED, RISING, RANKED = 0, 1, 2

# values of front_stage: no object of the oldest partition has expired; some have, and its
# candidates are apart; its meaningful set is formed too
WHOLE, EXPIRING, FORMED = 0, 1, 2

# values of need: what room the kernel lacked when it stopped before a step, as kernels never
# allocate
ROOM_BEST, ROOM_PARTITIONS, ROOM_UNITS, ROOM_LISTS, ROOM_FRONT, ROOM_NODES, ROOM_LIST = range(1, 8)
ROOM_OUT = 8

NUMBERS = fields(
    # the query and the options
    "k",
    "window_size",
    "slide",
    "counted",
    "mode",
    "delay",  # 1: form meaningful sets as late as possible
    "use_savl",  # 1: form them as S-AVL, not as lists
    "amortise",  # 1: form the next one step by step while the front partition expires
    "rivals",  # eta * k: objects that the rank test compares with
    "keep",  # objects kept of a unit: k, or zeta* (enhanced)
    "most",  # objects held of a unit before a cut: max(2 zeta*, zeta_max)
    # the current unit and the current partition
    "unit_length",  # objects of a unit (count windows); of the current one (time windows)
    "longest",  # objects of a partition at most
    "settling",  # 1 while the threshold of the current unit is being found
    "safe_from",  # while this object is alive, those below the threshold are no answers
    "unit_from",  # first object of the current unit
    "unit_shape",
    "part_from",  # first object of the current partition
    "part_units",  # first unit of the current partition
    # rows of the tables in use: head .. tail
    "head",
    "tail",
    "units_head",
    "units_tail",
    "free_list",  # first free place for a unit's list, -1 if none
    # the front partition, and the meaningful set being formed
    "front_stage",
    "front_oldest",  # lower bound of the oldest object's number in the front list
    "next_unit",  # next unit of the front partition whose own S-AVL is due
    "forming",  # partition whose S-AVL is being formed
    "formed_from",  # its objects from here on are done
    "worst_seq",  # [o^k] the worst of its k best
    # the answer
    "leaders_oldest",  # lower bound of the oldest object's number among the leaders
    "dirty",  # 1 if the answer may differ from the one reported last
    # between steps
    "whole_step",  # 1 if the last step arrived in whole: units end only then
    "quiet_until",  # partitions have nothing to do until the window's first object is later
    "need",  # why the kernel stopped before a step: ROOM_*
    "needed",  # how much room it needs
    real=(
        "threshold",  # [tau] scores below it are not looked at
        "barrier",  # [F_theta] of the partition being formed
        "worst_score",  # [o^k] the score of worst_seq
    ),
)
PARTITION = fields(
    "begin",  # its objects: begin .. end
    "end",
    "candidates",  # how many of its best became candidates
    "units_from",  # its units: units_from .. units_upto
    "units_upto",
    "list_from",  # its meaningful list: list_from .. list_upto, -1 if not formed
    "list_upto",
)
UNIT = fields(
    "begin",  # its objects: begin .. end
    "end",
    "place",  # where its list begins, -1 if it is no k-unit
    "listed",  # objects of its list
    real=("best",),  # its best score
)


class Current(NamedTuple):
    """What most steps touch, and nothing else."""

    now: Record
    unit: Ranked  # [U^tau] best of the current unit, in no order until put_in_order
    fresh: Ranked  # new leaders, not yet merged; empty between steps
    leaders: Ranked  # best of all candidates: the first k are the answer
    work: Ints


class State(NamedTuple):
    """What SAP keeps; the paper's names are in brackets."""

    current: Current
    raw: Ring  # every score of the window
    best: Ranked  # [C] candidates of finished partitions, without the front one
    dominators: Ints  # how many candidates of later partitions dominate each of them
    front: Ranked  # [P_0^k] candidates of the partition whose objects are expiring
    part: Ranked  # [P_m^k] best of the current partition without its current unit
    partitions: Record  # finished partitions
    units: Record  # units on record
    lists: Ranked  # [L] lists of k-units, ``most`` objects each
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
    rivals = zeta = math.ceil(three_sigma(k))
    keep = zeta if mode == ENHANCED else k
    most = max(2 * zeta, math.ceil(zeta + 3 * math.sqrt(zeta))) if mode == ENHANCED else 2 * k
    delay = options.get("delay", True)
    use_savl = options.get("savl", True) and delay
    unit_length, longest = 1, 0
    if setting.counted:
        unit_length = unit_size(setting.size, setting.slide, k, options.get("partitions"))
        longest = int(setting.size / (1 + rivals / k))
    now = record(
        NUMBERS,
        k=k,
        window_size=setting.size,
        slide=setting.slide,
        counted=setting.counted,
        mode=mode,
        delay=delay,
        use_savl=use_savl,
        amortise=options.get("amortise", False) and use_savl,
        rivals=rivals,
        keep=keep,
        most=most,
        unit_length=unit_length,
        longest=longest,
        settling=1,
        unit_shape=RISING,
        free_list=-1,
        forming=-1,
        dirty=1,
        threshold=-np.inf,
        barrier=-np.inf,
        worst_score=-np.inf,
    )
    exact = k <= EXACT and mode != EQUAL
    width = k if not setting.counted else min(k, setting.size)
    current = Current(
        now,
        ranked(most),
        ranked(max(most, rivals)),
        ranked(k + max(2 * k, 16)),
        counters(),
    )
    return State(
        current,
        ring(min(setting.size + setting.slide, AT_ONCE) if setting.counted else 1),
        ranked(4 * width),
        np.zeros(4 * width, np.int64),
        ranked(3 * width + 64),
        ranked(width),
        np.zeros(8, PARTITION),
        np.zeros(8, UNIT),
        ranked(most),
        savl(4, k),
        ranked(1),
        ranked(max(2 * k, most) + 64),
        critical_values(k, rivals).copy() if exact else np.zeros(0, np.int64),
        emission(k, setting.changes),
    )


def unit_size(n: int, s: int, k: int, partitions: int | None = None) -> int:
    """Objects per unit: n over m* = ceil(sqrt(n / max(s, k))) parts; whole slides."""
    parts = partitions or math.ceil(math.sqrt(n / max(s, k)))
    whole = max(n // parts // s, 1) * s
    return min(whole, max(n // 2 // s, 1) * s)


@lean
def row_of(index: int, rows: NDArray[Any]) -> int:
    """Where a numbered row sits: the tables are rings with a power of two of rows."""
    return index & (len(rows) - 1)


def with_room(state: State) -> State:
    """The state with the room that the kernel asked for in ``need``."""
    now = state.current.now[0]
    need, needed = int(now.need), int(now.needed)
    if need == ROOM_BEST:
        dominators = np.zeros(2 * len(state.dominators) + needed, np.int64)
        dominators[: len(state.dominators)] = state.dominators
        state = state._replace(best=roomier(state.best, len(dominators)), dominators=dominators)
    elif need == ROOM_PARTITIONS:
        state = state._replace(partitions=_doubled(state.partitions, now.head, now.tail))
    elif need == ROOM_UNITS:
        state = state._replace(units=_doubled(state.units, now.units_head, now.units_tail))
    elif need == ROOM_LISTS:
        state = state._replace(lists=_more_lists(state))
    elif need == ROOM_FRONT:
        state = state._replace(front=roomier(state.front, 2 * needed))
    elif need == ROOM_NODES:
        state = state._replace(savl=with_nodes(state.savl, needed))
    elif need == ROOM_LIST:
        state = state._replace(meaningful=roomier(state.meaningful, 2 * needed))
    return state


def _doubled(rows: Record, head: int, tail: int) -> Record:
    """The rows ``head .. tail`` of a table in one of twice the size."""
    larger = np.zeros(2 * len(rows), rows.dtype)
    index = np.arange(head, tail)
    larger[index % len(larger)] = rows[index % len(rows)]
    return larger


def _more_lists(state: State) -> Ranked:
    """Room for more lists of k-units; free places are linked through their first number."""
    now, size = state.current.now[0], int(state.lists.size[0])
    most = int(now.most)
    lists = roomier(state.lists, max(2 * size, 4 * most))
    for place in range(size, len(lists.score) - most + 1, most):
        lists.seq[place] = now.free_list
        now.free_list = place
        lists.size[0] = place + most
    return lists
