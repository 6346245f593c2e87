"""What travels beside the messages: the keys of our metadata, and how a key is read (ADR 0016)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

__all__ = [
    "ATTEMPT_KEY",
    "FOLLOW_KEY",
    "IDEMPOTENCY_KEY",
    "INSTANCE_KEY",
    "RETRYABLE_KEY",
    "WORD_BYTES_MAX",
    "Metadata",
    "ReceivedMetadata",
    "is_word",
    "only",
]

ATTEMPT_KEY: Final = "vmafx-attempt"
"""The number of an attempt: after an answer to `PullWork`, before a `ReportResult`."""
RETRYABLE_KEY: Final = "vmafx-retryable"
"""How a failure may be tried again, before a `ReportResult`; the words are the values of `Retry`."""
INSTANCE_KEY: Final = "vmafx-instance"
"""What this process of a node is called, before a `RegisterNode`."""
IDEMPOTENCY_KEY: Final = "vmafx-idempotency-key"
"""The submitter's own name for a submission, before a `SubmitJob`."""
FOLLOW_KEY: Final = "vmafx-follow"
"""Whether a `StreamJobs` goes on with changes: `true` says so."""

WORD_BYTES_MAX: Final = 256
"""The longest name in metadata that is understood, in bytes."""

Metadata: TypeAlias = tuple[tuple[str, str], ...]
"""Metadata to send; keys are lower-case."""
ReceivedMetadata: TypeAlias = Iterable[tuple[str, str | bytes]]
"""Metadata as grpc hands it over."""

_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")  # proxies may trim blanks


def only(metadata: ReceivedMetadata, key: str) -> str | None:
    """Return the one text of a key; None when there is none, several, or bytes."""
    values = [value for name, value in metadata if name == key]
    return values[0] if len(values) == 1 and isinstance(values[0], str) else None


def is_word(text: str) -> bool:
    """Return whether a text can name something: 1 to 256 characters of visible ASCII, without blanks."""
    return len(text) <= WORD_BYTES_MAX and _VISIBLE.fullmatch(text) is not None
