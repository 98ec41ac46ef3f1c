"""Delta tables without Java: each batch is one commit, which names its stream and number."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from skyband.durations import microseconds
from skyband.errors import DataError, QueryError
from skyband.spark.options import plain_path
from skyband.spark.sinks.patience import Patience
from skyband.spark.sinks.ranked_batch import (
    END,
    PLACE,
    BatchWriter,
    RankedLayout,
    batch_writer,
    checkpoint_of,
    comparable,
)

if TYPE_CHECKING:
    import pyarrow as pa

_REMOVED = "_removed"  # a row of a merge that is to go
_OWNER, _BATCH = "skyband", "batch"  # in the commits of a table: whose they are


def to_delta(
    leaders: DataFrame,
    path: str | PathLike[str],
    *,
    checkpoint: str | PathLike[str] | None = None,
    storage_options: dict[str, str] | None = None,
    patience: str = "10 minutes",
) -> BatchWriter:
    """Make a writer of ranked windows into a Delta table, for ``foreachBatch``.

    A commit holds the rows of a batch and, as a transaction identifier, its number: a batch that is
    run again after a crash changes nothing. With ``emit="updates"`` and ``"changes"`` a row
    replaces the one of the same window end, keys and place in the ranking; a ranking that became
    shorter loses its last rows. The table is made with the first batch, and a table that is there
    is checked before anything runs.

    ``checkpoint`` is that of the stream, None for a batch; ``storage_options`` are those of the
    package ``deltalake``; ``patience`` says how long to wait for a store that cannot be written.

    Example::

        write = to_delta(leaders, "tables/board", checkpoint=checkpoint)
        leaders.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).start()
    """
    layout = RankedLayout.of(leaders)
    where = checkpoint_of(leaders, checkpoint)
    table = DeltaRankings(plain_path(path, "path"), layout, storage_options)
    limit = microseconds(patience, "patience") / 1e6
    wait = Patience("the Delta table", limit, (OSError,), (_client().exceptions.DeltaError,))
    wait.call_once(lambda: table.check(leaders.sparkSession))

    return batch_writer(layout, where, wait, table.write)


class DeltaRankings:
    """A Delta table of ranked windows."""

    def __init__(
        self, path: str, layout: RankedLayout, storage_options: dict[str, str] | None
    ) -> None:
        self.path = path
        self.layout = layout
        self.storage_options = storage_options

    def _table(self) -> Any | None:
        """The table, or None if there is none yet."""
        client = _client()
        if not client.DeltaTable.is_deltatable(self.path, self.storage_options):
            return None
        return client.DeltaTable(self.path, storage_options=self.storage_options)

    def check(self, spark: SparkSession) -> None:
        """Refuse a table whose columns are not those of the query."""
        import pyarrow as pa

        table = self._table()
        if table is None:
            return
        there = [(field.name, field.type) for field in pa.schema(table.schema().to_arrow())]
        wanted = [(field.name, field.type) for field in self.layout.arrow_schema(spark)]
        if [name for name, _ in there] != [name for name, _ in wanted]:
            raise QueryError(
                f"the table in {self.path} has the columns {', '.join(name for name, _ in there)}",
                ", ".join(name for name, _ in wanted),
                "name another path",
            )
        for (name, type), (_, wanted_type) in zip(there, wanted, strict=True):
            if type != wanted_type:
                raise QueryError(
                    f"column {name!r} of the table in {self.path} is {type}",
                    str(wanted_type),
                    "name another path: the query has other types than the table",
                )

    def write(self, ranked: pa.Table, stream: str | None, batch: int) -> None:
        """Commit a batch, unless it was committed before; OSError if the store does not take it."""
        exceptions = _client().exceptions
        try:
            self._commit(ranked, stream, batch)
        except exceptions.DeltaError as error:
            if type(error) in (exceptions.DeltaError, exceptions.CommitFailedError):
                raise OSError(str(error)) from error  # the general ones are those of the store
            raise

    def _commit(self, ranked: pa.Table, stream: str | None, batch: int) -> None:
        if stream is not None and not len(ranked):
            return  # a commit for each batch without rankings would be many
        client = _client()
        table = self._table()
        written = None if table is None or stream is None else table.transaction_version(stream)
        if written is not None and written >= batch:
            return
        if table is not None and written is None:
            self._check_owner(table, stream)
        properties = client.CommitProperties(
            custom_metadata={_OWNER: stream or _BATCH},
            app_transactions=None
            if stream is None
            else [client.Transaction(app_id=stream, version=batch)],
        )
        if table is not None and stream is not None and self.layout.emit != "all":
            self._merge(table, ranked, properties)
            return
        client.write_deltalake(
            table if table is not None else self.path,
            _ranked_only(ranked),
            mode="append" if stream is not None else "overwrite",
            commit_properties=properties,
            storage_options=None if table is not None else self.storage_options,
        )

    def _check_owner(self, table: Any, stream: str | None) -> None:
        """Refuse rows of others: a stream writes to a table of its own, so does a batch."""
        if not table.file_uris():
            return
        owners = (commit[_OWNER] for commit in table.history() if _OWNER in commit)
        if stream is None and next(owners, None) == _BATCH:
            return
        raise DataError(
            f"the table in {self.path} holds rows of another checkpoint, or of others",
            "a table of its own for each stream, and for a batch",
            "name another path",
        )

    def _merge(self, table: Any, ranked: pa.Table, properties: Any) -> None:
        """Replace rows at the same places, and remove what rankings had beyond their ends."""
        import pyarrow as pa

        plain = pa.schema([pa.field(field.name, field.type) for field in ranked.schema])
        rows = _ranked_only(ranked).cast(
            plain
        )  # places that are gone have no ranks: all may be NULL
        rows = rows.append_column(_REMOVED, pa.array([False] * len(rows), pa.bool_()))
        if self.layout.emit == "updates":
            rows = pa.concat_tables([rows, self._removed(table, ranked)])
        same = " AND ".join(
            f"(old.{name} = new.{name} OR (old.{name} IS NULL AND new.{name} IS NULL))"
            for name in map(_quoted, self.layout.identity)
        )
        merger = table.merge(
            rows, same, source_alias="new", target_alias="old", commit_properties=properties
        )
        values = {_quoted(name): f"new.{_quoted(name)}" for name in ranked.column_names}
        (
            merger.when_matched_delete(f"new.{_REMOVED}")
            .when_matched_update(values)
            .when_not_matched_insert(values, f"NOT new.{_REMOVED}")
            .execute()
        )

    def _removed(self, table: Any, ranked: pa.Table) -> pa.Table:
        """The places that rankings of a batch had before, and have no more."""
        import pyarrow as pa

        identity = self.layout.identity
        ends = ranked[END].unique().to_pylist()
        there = table.to_pyarrow_table(columns=list(identity), filters=[(END, "in", ends)])
        places = set(comparable(ranked, identity))
        rankings = {place[:-1] for place in places}
        mask = [
            place[:-1] in rankings and place not in places for place in comparable(there, identity)
        ]
        gone = there.filter(pa.array(mask, pa.bool_()))
        columns = {
            field.name: gone[field.name].cast(field.type)
            if field.name in identity
            else pa.nulls(len(gone), field.type)
            for field in ranked.schema
        }
        return pa.table({**columns, _REMOVED: pa.array([True] * len(gone), pa.bool_())})


def _ranked_only(ranked: pa.Table) -> pa.Table:
    """The rows without those that say that a ranking is empty."""
    import pyarrow.compute as pc

    return ranked.filter(pc.greater(ranked[PLACE], 0))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _client() -> Any:
    try:
        import deltalake
    except ImportError:
        raise QueryError(
            "the package deltalake is not installed",
            "the client of Delta tables",
            'pip install "skyband[delta]"',
        ) from None
    return deltalake
