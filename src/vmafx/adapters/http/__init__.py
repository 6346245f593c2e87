"""HTTP: the listener for probes and metrics, and for the routes that others add (ADR 0027)."""
