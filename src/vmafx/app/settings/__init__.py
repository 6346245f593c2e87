"""Settings: the environment read once, into frozen values; every refusal names its variable."""
