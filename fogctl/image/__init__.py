"""Container images: what is in them, and whether it fits the processors they claim to be for."""
