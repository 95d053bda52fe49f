"""Real boards: which there are, what is wrong with them, and how they become a testbed and are given back."""
