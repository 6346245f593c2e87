"""What operators see of a process: log lines, and spans of traces (ADR 0020)."""
