"""The machine's clock."""
