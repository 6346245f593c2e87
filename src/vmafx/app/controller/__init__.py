"""The controller's use cases, in terms of ports (ADR 0025)."""
