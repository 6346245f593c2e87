"""The scorer as a process that speaks the `vmaf` command line."""
