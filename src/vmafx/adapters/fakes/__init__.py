"""Fakes of the ports: product code, documented, held to the same contract suites as the real adapters."""
