"""gRPC: the wire contract, and both of its ends (ADR 0016)."""
