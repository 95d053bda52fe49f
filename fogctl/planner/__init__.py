"""Capacity planning for people: the files they bring and the pictures they look at."""
