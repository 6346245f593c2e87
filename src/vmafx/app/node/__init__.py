"""The node: thin shells over the machines of the domain (ADR 0018)."""
