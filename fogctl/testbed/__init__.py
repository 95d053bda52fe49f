"""Testbeds: what they are made of, and how each kind is brought up and taken down."""
