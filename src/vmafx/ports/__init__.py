"""Contracts: one small Protocol for each thing outside, in words of the domain."""
