"""Decisions: pure, synchronous, standard library only; no clock, no chance, no logging."""
