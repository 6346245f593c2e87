"""Who calls: the tokens that are shown, and what a shown one proves."""
