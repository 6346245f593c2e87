"""Settings: the environment read once, refused by name when it cannot be honoured."""
