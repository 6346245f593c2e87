"""Commands: arguments, signals, output and exit codes."""
