"""Use cases and programs: settings, wiring, commands."""
