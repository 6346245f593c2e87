"""Effects: one package for each technology; none imports another."""
