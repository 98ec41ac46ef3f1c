"""How a stream is doing, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from skyband.serve.feed import Feed

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_COUNTERS = {
    "rows": ("skyband_rows", "Rows that the stream has read."),
    "batches": ("skyband_batches", "Micro-batches that have ended."),
    "missed_batches": ("skyband_missed_batches", "Micro-batches whose report was not read."),
    "late": ("skyband_late_groups", "Partial groups of rows that came after the watermark."),
    "bad_records": ("skyband_bad_records", "Records that could not be parsed."),
    "windows": ("skyband_windows", "Windows that were answered."),
    "ranked": ("skyband_ranked_rows", "Rows of answers."),
}
_GAUGES = {
    "rows_per_second": (
        "skyband_rows_per_second",
        "Rows read per second, as of the last batch that had any.",
    ),
    "lag_seconds": ("skyband_lag_seconds", "How far the watermark is behind the clock."),
    "candidates": ("skyband_candidates", "Rows that may still be answers."),
    "state_rows": ("skyband_state_rows", "Entries of the state store."),
    "state_bytes": ("skyband_state_bytes", "Memory and files of the state store."),
    "readers": ("skyband_readers", "Connections that follow the page."),
}
_REASONS = {
    "set_aside": ("skyband_set_aside_rows", "Rows without a time, or from the future."),
    "not_ranked": ("skyband_not_ranked_rows", "Rows without a score, or with NaN."),
}


class _OfFeed(Collector):
    """Reads the numbers of a feed whenever somebody asks for them."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def collect(self) -> Iterator[Metric]:
        """The numbers of this moment; those that are not known are left out."""
        health = self._feed.health()
        yield GaugeMetricFamily(
            "skyband_up",
            "Whether the stream runs.",
            value=float(health["state"] in ("starting", "waiting", "running")),
        )
        for field, (name, meaning) in _COUNTERS.items():
            yield CounterMetricFamily(name, meaning, value=health[field])
        for field, (name, meaning) in _GAUGES.items():
            if health[field] is not None:
                yield GaugeMetricFamily(name, meaning, value=health[field])
        if health["batch"] is not None:
            yield GaugeMetricFamily(
                "skyband_batch_seconds",
                "How long the last micro-batch took.",
                value=health["batch"]["seconds"],
            )
        for field, (name, meaning) in _REASONS.items():
            reasons = CounterMetricFamily(name, meaning, labels=["reason"])
            for reason, count in health[field].items():
                reasons.add_metric([reason], count)
            yield reasons
        waiting = GaugeMetricFamily(
            "skyband_sink_waiting_batches",
            "Batches that a sink has not taken yet.",
            labels=["sink"],
        )
        failed = GaugeMetricFamily(
            "skyband_sink_failed", "Whether the last write to a sink failed.", labels=["sink"]
        )
        delivered = GaugeMetricFamily(
            "skyband_sink_delivered_batch",
            "The number of the last micro-batch that a sink has taken.",
            labels=["sink"],
        )
        for sink in health["sinks"]:
            waiting.add_metric([sink["name"]], sink["waiting"])
            failed.add_metric([sink["name"]], float(bool(sink["error"])))
            if sink["delivered"] is not None:
                delivered.add_metric([sink["name"]], sink["delivered"])
        yield from (waiting, failed, delivered)


def exposition(feed: Feed) -> bytes:
    """All numbers as text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_OfFeed(feed))
    return generate_latest(registry)
