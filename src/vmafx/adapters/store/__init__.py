"""Where jobs, attempts and sessions are kept."""
