"""Composition roots: the only place that names concrete adapters."""
