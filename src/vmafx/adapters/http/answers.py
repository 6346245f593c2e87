"""Answers in JSON, and those to what went wrong: one sentence, and nothing of what happened inside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web

__all__ = ["SERVER", "answer", "refusal", "refusal_of", "too_large"]

SERVER: Final = "vmafx"
"""What the header `Server` says: no version, and nothing of what we are made with."""


def answer(body: Mapping[str, object], status: int = HTTPStatus.OK) -> web.Response:
    """Return an answer in JSON without blanks.

    Args:
        body: What JSON has words for.
        status: The status code.
    """
    return web.json_response(body, status=status, headers={hdrs.SERVER: SERVER}, dumps=_COMPACT)


def refusal(status: int, words: str | None = None) -> web.Response:
    """Return an answer with an error.

    Args:
        status: The status code.
        words: What is wrong; None for the usual words of the status.
    """
    return answer({"error": HTTPStatus(status).phrase.lower() if words is None else words}, status)


def too_large(bytes_max: int) -> web.Response:
    """Return the answer to a body over the limit."""
    return refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"request body exceeds {bytes_max} bytes")


def refusal_of(error: web.HTTPException, body_bytes_max: int | None) -> web.Response:
    """Return our answer for one that aiohttp raised.

    Args:
        error: What was raised.
        body_bytes_max: The limit of bodies.
    """
    if isinstance(error, web.HTTPRequestEntityTooLarge) and body_bytes_max is not None:
        return too_large(body_bytes_max)
    if isinstance(error, web.HTTPMethodNotAllowed):
        allow = {hdrs.ALLOW: ",".join(sorted(error.allowed_methods)), hdrs.SERVER: SERVER}
        return web.Response(status=error.status, text="method not allowed\n", headers=allow)
    return refusal(error.status)


_COMPACT: Final = partial(json.dumps, separators=(",", ":"))
