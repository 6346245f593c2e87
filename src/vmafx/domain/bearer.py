"""What a bearer token must look like to be shown in a header, wherever it comes from (ADR 0017)."""

from __future__ import annotations

from typing import Final

__all__ = ["TOKEN_BYTES_MAX", "token_problem"]

TOKEN_BYTES_MAX: Final = 65_536
"""Largest token, and largest token file, in bytes; gRPC servers take headers of 8 to 16 KiB."""


def token_problem(token: str) -> str | None:
    """Return what is wrong with a token, without a word of it; None when it can be shown.

    Args:
        token: The token, trimmed.
    """
    if not token:
        return "is empty"
    if any(blank in token for blank in " \t\r\n"):
        return "holds more than a token: there are blanks or line breaks"
    if not (token.isascii() and token.isprintable()):
        return "holds no token: there are characters that no header can carry"
    if len(token) > TOKEN_BYTES_MAX:
        return f"is longer than {TOKEN_BYTES_MAX} bytes"
    return None
