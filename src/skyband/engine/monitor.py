"""The life of a batch, whatever the family: take rows, close steps, run the algorithm, report."""

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal

import numpy as np
from numpy.typing import NDArray

from skyband.engine.changes import Changes
from skyband.engine.columns import Dropped
from skyband.engine.family import Family, Q
from skyband.engine.ids import Ids
from skyband.engine.inlet import Inlet
from skyband.engine.open_rankings import OpenRankings
from skyband.engine.plan import Explanation, Plan, Setting
from skyband.engine.results import Ranked
from skyband.engine.rows import Rows
from skyband.engine.snapshot import Saved, describe, dump, join, load, part, require_same
from skyband.engine.steps import Steps, TimeSteps, count_steps, open_count_steps
from skyband.engine.updates import Updates
from skyband.errors import DataError, QueryError, SnapshotError
from skyband.order import Bools, Ints, shared_ranks
from skyband.query import RankBy
from skyband.windows import FOREVER, CountWindow, TimeWindow

if TYPE_CHECKING:
    from typing import Self

    from skyband.engine.algorithm import Algorithm
    from skyband.kernels.answers import Out


class BaseMonitor(ABC, Generic[Q]):
    """Answers one continuous query over the rows that are pushed into it.

    A family's monitor derives from this: its ``push`` makes :class:`Rows` of what people push and
    hands them to :meth:`_take`.

    Parameters: the query; the algorithm (``"auto"`` lets the planner choose); for time windows an
    optional ``delay``: with it the watermark follows the newest time at that distance, without it
    the caller passes ``watermark=`` to ``push``. ``options`` are the algorithm's own. ``steps``
    replaces the arithmetic of time windows, for those who lay several streams one after another.
    """

    family: ClassVar[Family[Any]]

    def __init__(
        self,
        query: Q,
        algorithm: str = "auto",
        *,
        delay: Any = None,
        options: Mapping[str, Any] | None = None,
        steps: TimeSteps | None = None,
    ) -> None:
        family = self.family
        self.query: Q = family.check(query)
        if options is not None and not isinstance(options, Mapping):
            raise QueryError(
                f"options are {options!r}", "options by name", "write options={'name': value}"
            )
        self._options = dict(options or {})
        window = self.query.window
        self._counted = isinstance(window, CountWindow)
        self._timed = isinstance(window, TimeWindow) and window.unit == "us"
        self._inlet = Inlet(
            query.window, delay, self._pruned_to(), self._ties(), self._oldest_first()
        )
        self._panes = self._inlet.waiting.panes
        self.plan: Plan = family.plan(query, algorithm, self._options)
        self._algorithm = self._new_algorithm()
        self._steps = steps or TimeSteps(self._panes, farewell=query.emit == "changes")
        self._ids: Ids | None = None if self._counted else Ids(timed=True)
        compares = query.emit == "changes" and self._changes_by != "kernel"
        self._changes = self._new_changes() if compares else None
        self._updates = Updates() if query.emit == "updates" else None
        k = self._pruned_to()
        runs_ahead = k is None or self._panes.together or self._oldest_first()
        keeps_open = self._updates is not None and not runs_ahead
        self._open = OpenRankings(self._panes, k or 0) if keeps_open else None

    @property
    def _changes_by(self) -> Literal["kernel", "row", "id"]:
        """Who compares rankings, see :class:`Family`."""
        return self.family.changes

    def _new_changes(self) -> Changes:
        """What compares rankings, where the engine does."""
        carried = len(getattr(self.query, "also", ()))
        by_id = self._changes_by == "id"
        return Changes(by_id, self._rank_by, self._oldest_first(), carried)

    def _pruned_to(self) -> int | None:
        """How many rows of a pane can be answers, if others need not wait."""
        return self.query.k if self.family.prunes and not self._shares_ranks else None

    def _oldest_first(self) -> bool:
        """Whether of equal scores the oldest rank first, not the newest."""
        return bool(getattr(self.query, "ties", "newest") == "oldest")

    @property
    def _rank_by(self) -> RankBy:
        """How ranks count."""
        rank_by: RankBy = getattr(self.query, "rank_by", "row_number")
        return rank_by

    @property
    def _shares_ranks(self) -> bool:
        """Whether objects of equal score share a rank, so that a window may rank more than k."""
        return self._rank_by != "row_number"

    def _ties(self) -> Any:
        """How rows of equal time follow each other."""
        return self.family.ties

    def _new_algorithm(self) -> Algorithm:
        """The planned algorithm; it has seen nothing yet."""
        built: Algorithm = self.family.build(self.plan, self._setting(), self.query)
        return built

    def _setting(self) -> Setting:
        """What the algorithm must know of the query."""
        query, window = self.query, self.query.window
        return Setting(
            k=min(query.k, window.size) if self._counted else query.k,
            size=window.slide if self._panes.together else window.size,
            slide=window.slide,
            counted=self._counted,
            together=self._panes.together,
            changes=query.emit == "changes" and self._changes_by == "kernel",
            oldest_first=self._oldest_first(),
            options=self._options,
            rank_by=self._rank_by,
        )

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm at work."""
        return self._algorithm

    @property
    def dropped(self) -> Dropped:
        """Rows that were not ranked, by reason."""
        return self._inlet.dropped

    @property
    def watermark(self) -> int | None:
        """Time before which no further row is expected (time windows), None before the first."""
        return self._inlet.watermark.known

    @property
    def delay(self) -> int | None:
        """How far the watermark stays behind the newest time, None if the caller moves it."""
        return self._inlet.watermark.delay

    @property
    def answered(self) -> int | None:
        """The last window, by number, that was answered or passed over (time windows), or None."""
        return self._steps.done

    @property
    def arrived(self) -> int:
        """Rows pushed so far."""
        return self._inlet.arrived

    def finish(self) -> Ranked:
        """Let the watermark pass everything: answer the windows that are still open.

        Time windows only; a count window that is not complete is never answered.
        """
        final = self._nothing() if self._counted else self._close(FOREVER)
        return self._with_updates(final, self._no_rows())

    def _take(self, rows: Rows, null: Bools | None, times: Any, watermark: Any) -> Ranked:
        """Take in a batch and return the windows that it completes.

        ``rows`` have scores, columns of the family and perhaps ids; ``null`` says which scores are
        NULL. Raises :class:`DataError` before anything is taken in.
        """
        inlet = self._inlet
        if self._counted:
            inlet.check_counted(times, watermark)
            return self._with_updates(self._take_counted(rows, null), rows)
        rows, missing, until = inlet.placed(rows, times, watermark)
        rows = inlet.take(rows, (null,), missing)
        return self._with_updates(self._close(until), rows)

    def _take_counted(self, rows: Rows, null: Bools | None) -> Ranked:
        window, inlet = self.query.window, self._inlet
        assert isinstance(window, CountWindow)
        self._check_ids(rows)
        steps = count_steps(self._panes, inlet.arrived, rows.size, window.full)
        self._before(rows, steps)
        algorithm = self._algorithm
        in_passing = algorithm.counts_unranked
        if not in_passing:
            inlet.count_unranked(rows.score, null)
        before = algorithm.unranked if in_passing else 0
        inlet.arrived += rows.size
        ranked = self._feed(rows, steps)
        if in_passing:
            nulls = 0 if null is None else int(np.count_nonzero(null))
            inlet.count_reasons(nulls, self._algorithm.unranked - before - nulls)
        return ranked

    def _check_ids(self, rows: Rows) -> None:
        """Refuse rows of a count window with ids after rows without, or the other way round."""
        if rows.id is not None and self._ids is None:
            if self._inlet.arrived:
                raise DataError(
                    "ids after a batch without ids",
                    "ids always or never",
                    "push ids from the start",
                )
            self._ids = Ids(timed=False)
        elif rows.id is None and self._ids is not None and rows.size:
            raise DataError("no ids after a batch with ids", "ids always or never", "push ids")

    def _before(self, rows: Rows, steps: Steps) -> None:
        """Rows were accepted and are about to be fed: a family may choose its algorithm now."""

    def _close(self, until: int | None) -> Ranked:
        """Advance the watermark and answer the windows that end at or before it."""
        inlet, panes = self._inlet, self._panes
        at = inlet.watermark.move(until)
        closed = panes.first_window(panes.until(inlet.waiting.newest) if at == FOREVER else at) - 1
        if self._steps.done is not None and closed <= self._steps.done:
            inlet.waiting.settle()
            return self._nothing()
        rows = inlet.waiting.release(panes.end(closed)) or self._no_rows()
        inlet.waiting.settle()
        assert rows.time is not None
        steps = self._steps.cut(rows.time, closed)
        self._before(rows, steps)
        return self._feed(rows, steps)

    def _with_updates(self, final: Ranked, rows: Rows) -> Ranked:
        """Windows that are final, and the rankings so far of those that are open, if asked for.

        ``rows`` are those that the push has brought, and that may be ranked.
        """
        updates = self._updates
        if updates is None:
            return final
        if rows.time is not None:
            updates.newest = max(updates.newest, int(rows.time.max(initial=-FOREVER)))
        if self._open is not None:
            return updates.joined(final, self._reported(self._so_far(self._open, rows)))
        so_far = self.run_ahead(updates.newest, self.query.open_windows == "current")
        return updates.joined(final, so_far.only(updates.changed(so_far)))

    def _so_far(self, rankings: OpenRankings, rows: Rows) -> Ranked:
        """The rankings so far that these rows change, where only the k best rows matter."""
        panes, window = self._panes, self.query.window
        assert self._updates is not None
        place, first, current = rows.time, 0, 0
        if isinstance(window, CountWindow):
            place = np.arange(self.arrived - rows.size, self.arrived, dtype=np.int64)
            current = panes.first_window(self.arrived)
            if window.full:
                current = max(current, -(-window.size // window.slide))
            first = current
        else:
            assert self._steps.done is not None
            first, current = self._steps.done + 1, panes.first_window(self._updates.newest)
        assert place is not None
        changed = rankings.insert(rows.score, place, place if rows.id is None else rows.id, first)
        if self.query.open_windows == "current":
            new = current != rankings.current and current in rankings.entries.window
            changed = changed[changed == current] if not new else np.array([current])
            rankings.current = current
        entries, offsets = rankings.of(changed)
        start = panes.starts(changed)
        return Ranked(
            window_start=np.maximum(start, 0) if self._counted else start,
            window_end=panes.ends(changed),
            offsets=offsets,
            score=entries.score,
            id=entries.id,
            time=None if self._counted else entries.place,
            timed=self._timed,
        )

    def run_ahead(self, newest: int, current: bool, arriving: Rows | None = None) -> Ranked:
        """The rankings so far of the windows that are open and have begun, by end.

        Of windows whose rows leave together only those up to the ``current`` one, which ends first
        after the newest row: those that follow hold the same rows. ``arriving`` rows of a time
        window count as if they waited here. A copy runs ahead; this monitor stays as it is.
        """
        ahead = copy.copy(self)
        if self._counted:
            window = self.query.window
            assert isinstance(window, CountWindow)
            rows = self._no_rows()._replace(time=None)
            steps = open_count_steps(self._panes, self.arrived, window.full, current)
        else:
            panes = self._panes
            final = panes.last_window(newest)
            if current or panes.together:
                final = panes.first_window(newest)
            waiting = self._inlet.waiting.fork()
            if arriving is not None:
                waiting.add(arriving, ordered=True)
            # all time ends with the last row that is ranked, which may not be the newest of all
            if len(waiting):
                final = min(final, panes.first_window(panes.until(waiting.newest)) - 1)
            elif panes.until(newest) < FOREVER:
                return self._nothing()
            if newest == -FOREVER or (self._steps.done is not None and final <= self._steps.done):
                return self._nothing()
            rows = waiting.release(panes.end(final)) or self._no_rows()
            assert rows.time is not None
            ahead._steps = copy.copy(self._steps)
            steps = ahead._steps.cut(rows.time, final)
        if not len(steps.window):
            return self._nothing()
        ahead._algorithm, ahead._ids = self._algorithm.fork(), copy.copy(self._ids)
        ahead._fork_family_state()
        ranked = ahead._answered(rows, steps)
        # in a step that is not answered a pane may stay open: so all are, and one is taken
        return ranked.only(steps.window == steps.window.max()) if current else ranked

    def _fork_family_state(self) -> None:
        """Replace by copies what the family's monitor keeps besides: this one runs ahead."""

    def pass_over(self, until: int) -> None:
        """Answer no window that ends at or before a time: who asked has its answer already.

        Before the first row of a time window; rows from before that time count all the same.
        """
        closed = self._panes.first_window(until) - 1
        self._steps.done = closed if self._steps.done is None else max(closed, self._steps.done)

    def _nothing(self) -> Ranked:
        """No window at all, with the columns that windows have."""
        nothing = Ranked.empty(self.query.window, self.query.emit == "changes")
        return self._reported(replace(nothing, ranks=nothing.id) if self._shares_ranks else nothing)

    def _reported(self, ranked: Ranked) -> Ranked:
        """Windows with scores in the numbers that people pushed."""
        return ranked

    def _no_rows(self) -> Rows:
        """An empty batch of a time window."""
        none = np.empty(0, np.int64)
        return Rows(np.empty(0), none, none)

    def _feed(self, rows: Rows, steps: Steps) -> Ranked:
        """Take in rows in sequence, and answer the windows that they complete."""
        ranked = self._answered(rows, steps)
        if self._ids is not None:
            dense = self._algorithm.keeps_window and self._changes is None
            self._ids.settle(
                self._first_reportable(steps) if dense else 0, None if dense else self.kept
            )
        return ranked

    def _answered(self, rows: Rows, steps: Steps) -> Ranked:
        """Hand rows in sequence to the algorithm and give its answers ids and times."""
        if self._ids is not None and rows.id is not None:
            self._ids.admit(rows)
        answers = self._algorithm.push(rows, self._kernel_steps(steps))
        return self._ranked(answers, steps)

    def _kernel_steps(self, steps: Steps) -> Steps:
        """Steps as the algorithm sees them."""
        return steps

    def _first_reportable(self, steps: Steps) -> int:
        """The oldest object that an algorithm that keeps the window may report from now on."""
        reported = self._algorithm.reported()
        first = int(steps.first[-1]) if len(steps.first) else 0
        return min(first, int(reported.min(initial=first)))

    def _ranked(self, answers: Out, steps: Steps) -> Ranked:
        """Answers of the algorithm, with bounds, ids and times, whole or as changes."""
        panes = self._panes
        size = int(answers.rows.size[0])
        seq, score = answers.rows.seq[:size], answers.rows.score[:size]
        score += 0.0  # -0.0 becomes 0.0
        window = steps.window[steps.emit]
        offsets = np.zeros(len(window) + 1, np.int64)
        offsets[1:] = answers.upto[steps.emit]
        start, end = panes.starts(window), panes.ends(window)
        if self._counted and len(start) and start[0] < 0:
            np.maximum(start, 0, out=start)
        ids, times = (seq, None) if self._ids is None else self._ids.lookup(seq)
        by_kernel = self._algorithm.setting.changes
        ranks = answers.rank[:size] if by_kernel else None
        if self._shares_ranks:
            ranks = shared_ranks(score, offsets, self._rank_by == "dense_rank")
        whole = Ranked(
            window_start=start,
            window_end=end,
            offsets=offsets,
            score=score,
            id=ids,
            time=times,
            ranks=ranks,
            previous_rank=answers.previous[:size] if by_kernel else None,
            timed=self._timed,
        )
        return self._reported(self._changed(self._annotated(whole, steps), seq))

    def _annotated(self, ranked: Ranked, steps: Steps) -> Ranked:
        """Windows with what a family says about them besides."""
        del steps
        return ranked

    def _changed(self, ranked: Ranked, seq: Ints) -> Ranked:
        """Whole rankings as changes, where the engine compares them."""
        if self._changes is None:
            return ranked
        number = seq if self._changes_by == "row" else ranked.id
        place = seq if ranked.time is None else ranked.time
        also = ranked.also or {}
        columns = (ranked.score, number, place, ranked.id, *also.values())
        changed = self._changes.of_windows([0] * len(ranked), ranked.offsets, columns)
        score, _, at, ids, *carried = changed.columns
        return replace(
            ranked,
            offsets=changed.offsets,
            score=score,
            id=ids,
            time=None if ranked.time is None else at,
            ranks=changed.ranks,
            previous_rank=changed.previous,
            also=dict(zip(also, carried, strict=True)) if also else None,
        )

    def kept(self) -> Ints:
        """Arrival numbers of the rows by which objects may still be reported, ascending."""
        parts = [self._algorithm.kept(), self._algorithm.reported()]
        if self._changes is not None and self._changes_by == "row":
            parts += [columns[1] for columns in self._changes.reported.values()]
        present = [numbers for numbers in parts if len(numbers)]
        return np.unique(np.concatenate(present)) if len(present) > 1 else parts[0]

    def forget(self) -> None:
        """Let go at once of what can no longer be reported, for a smaller snapshot."""
        if self._ids is not None:
            self._ids.forget(self.kept())

    def reportable(self) -> tuple[Ints, Ints]:
        """Ids and times of the rows by which objects may still be reported (time windows)."""
        assert self._ids is not None, "rows of time windows have ids and times"
        known_ids, known_times = self._ids.lookup(self.kept())
        waiting = self._inlet.waiting.rows()  # what waits for the watermark will be there, too
        assert known_times is not None
        assert waiting.id is not None
        assert waiting.time is not None
        ids, times = [known_ids, waiting.id], [known_times, waiting.time]
        if self._changes is not None:
            for _, _, place, reported, *_ in self._changes.reported.values():
                ids.append(reported)
                times.append(place)
        return np.concatenate(ids), np.concatenate(times)

    def counters(self) -> dict[str, float]:
        """Work counters of the algorithm, see :mod:`skyband.kernels.work`."""
        return self._algorithm.counters()

    def state_bytes(self) -> int:
        """Bytes of memory that the algorithm's state occupies."""
        return self._algorithm.state_bytes()

    def explain(self) -> Explanation:
        """The query, the algorithm and the reasons for it, in words."""
        return Explanation(self.query, self.plan)

    def _saved(self) -> Saved:
        """What the family's monitor keeps besides."""
        return {}, {}

    def _restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what :meth:`_saved` gave."""

    def snapshot(self) -> bytes:
        """The whole state as bytes; :meth:`restore` goes on from them bit for bit."""
        family_state = self._saved()
        header = {
            "family": self.family.name,
            "algorithm": self.plan.algorithm,
            "reasons": list(self.plan.reasons),
            "query": describe(self.query),
            "options": self._options,
            "with_ids": self._ids is not None,
        }
        parts = {
            "inlet": self._inlet.saved(),
            "steps": self._steps.saved(),
            "algorithm_state": self._algorithm.saved(),
            "family_state": family_state,
        }
        if self._ids is not None:
            parts["ids"] = self._ids.saved()
        if self._changes is not None:
            parts["changes"] = self._changes.saved()
        if self._updates is not None:
            parts["updates"] = self._updates.saved()
        if self._open is not None:
            parts["open"] = self._open.saved()
        return dump(*join(header, parts))

    @classmethod
    def restore(cls, data: bytes, query: Q | None = None) -> Self:
        """A monitor that goes on where :meth:`snapshot` was taken.

        With ``query`` the snapshot must be of that very query; otherwise
        :class:`SnapshotError` names what differs.
        """
        header, arrays = load(data)
        if header.get("family") != cls.family.name:
            raise SnapshotError(
                f"a snapshot of family {header.get('family')!r}",
                f"{cls.family.name!r}",
                "restore it elsewhere",
            )
        if query is not None:
            require_same(header["query"], describe(query))
        monitor = cls(
            cls.family.described(header["query"]), header["algorithm"], options=header["options"]
        )
        monitor.plan = Plan(header["algorithm"], tuple(header["reasons"]))
        monitor._inlet.restored(*part("inlet", header, arrays))
        monitor._steps.restored(*part("steps", header, arrays))
        monitor._restored(*part("family_state", header, arrays))
        monitor._algorithm.restored(*part("algorithm_state", header, arrays))
        if header["with_ids"]:
            monitor._ids = Ids.restored(*part("ids", header, arrays))
        if monitor._changes is not None:
            monitor._changes.restored(*part("changes", header, arrays))
        if monitor._updates is not None:
            monitor._updates.restored(*part("updates", header, arrays))
        if monitor._open is not None:
            monitor._open.restored(*part("open", header, arrays))
        return monitor
