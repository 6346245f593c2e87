"""The routes of every program: probes and metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import hdrs, web

from vmafx.adapters.http.answers import answer
from vmafx.ports.metrics import HEALTH_REQUESTS, READY_REQUESTS, MetricsPage
from vmafx.ports.telemetry import Telemetry

__all__ = ["probe_routes"]


def probe_routes(
    *,
    ready: Callable[[], str | None],
    metrics: Callable[[], Awaitable[MetricsPage]],
    telemetry: Telemetry,
) -> list[web.RouteDef]:
    """Return `/healthz`, `/readyz` and `/metrics`; they take `GET` alone, and from everybody.

    Args:
        ready: Says why the program is not ready; None when it is.
        metrics: Returns the page of metrics.
        telemetry: Counts the probes.
    """

    async def healthz(_: web.Request) -> web.Response:
        telemetry.count(HEALTH_REQUESTS)
        return answer({"status": "ok"})

    async def readyz(_: web.Request) -> web.Response:
        telemetry.count(READY_REQUESTS)
        reason = ready()
        if reason is None:
            return answer({"status": "ready"})
        return answer({"status": "not ready", "reason": reason}, HTTPStatus.SERVICE_UNAVAILABLE)

    async def page(_: web.Request) -> web.Response:
        shown = await metrics()
        return web.Response(body=shown.content, headers={hdrs.CONTENT_TYPE: shown.content_type})

    served = {"/healthz": healthz, "/readyz": readyz, "/metrics": page}
    return [web.get(path, handler, allow_head=False) for path, handler in served.items()]
