"""Metrics read back from a real Prometheus, through prometheus-api-client."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fognetem.linux import inside

from fogctl.errors import FAILED, FogError
from fogctl.metrics import place
from fogctl.metrics.exposition import Sample, read_nodes, read_stages
from fogctl.metrics.values import NodeMetrics, StageMetrics
from fogctl.testbed import names
from fogctl.testbed.running import Running


class PrometheusReader:
    """Asks Prometheus for the newest scrape of everything fogctl exposes.

    One question fetches all numbers of an app, so they belong together: Prometheus shows scrapes as a whole.
    What it could not scrape the last time is missing, not old: it marks such series as stale. If it stopped
    scraping, numbers show for as long as its lookback (ten seconds in ours); `at_s` tells their age.
    """

    def __init__(
        self,
        url: str,
        namespace: str = "",
        timeout_s: int = 5,
        matching: Mapping[str, str] | None = None,
    ) -> None:
        """`namespace` is the network namespace to ask from; "" is the caller's own.

        Only series with the labels in `matching` are read: a Prometheus may know several testbeds.
        """
        # It brings pandas: half a second that only those pay who use it.
        from prometheus_api_client import PrometheusConnect
        from urllib3.util.retry import Retry

        self._url = url
        self._namespace = namespace
        self._matching = "".join(f",{key}={json.dumps(value)}" for key, value in (matching or {}).items())
        self._client: Any = PrometheusConnect(url=url, timeout=timeout_s, retry=Retry(total=0))

    @classmethod
    def of(cls, running: Running) -> PrometheusReader:
        """A reader of the Prometheus that `fogctl metrics up --prometheus` starts."""
        return cls(place.prometheus_url(running.testbed), names.switch(running.testbed.name))

    def stages(self, app: str) -> tuple[StageMetrics, ...]:
        """Every stage of an app that was scraped, by name."""
        wanted = f'__name__=~"fogctl_stage_.+",app={json.dumps(app)}{self._matching}'
        return read_stages(self._samples(f"{{{wanted}}}"))

    def nodes(self) -> tuple[NodeMetrics, ...]:
        """Every node of the testbed that was scraped, by name."""
        return read_nodes(self._samples(f'{{__name__=~"fogctl_node_.+"{self._matching}}}'))

    def ask(self, query: str) -> list[dict[str, Any]]:
        """What Prometheus answers to a query, in its own words; FogError if it does not."""
        import requests
        from prometheus_api_client.exceptions import PrometheusApiClientException

        try:
            with inside(self._namespace):
                found: list[dict[str, Any]] = self._client.custom_query(query)
                return found
        except (requests.RequestException, PrometheusApiClientException, OSError) as error:
            refused = isinstance(error, requests.ConnectionError)
            raise FogError(
                f"Prometheus at {self._url} does not answer: {'no connection' if refused else error}",
                hint="fogctl metrics up --prometheus starts it",
                exit_code=FAILED,
            ) from error

    def _samples(self, query: str) -> Iterator[Sample]:
        for series in self.ask(query):
            labels = series["metric"]
            yield Sample(labels["__name__"], labels, float(series["value"][1]))
