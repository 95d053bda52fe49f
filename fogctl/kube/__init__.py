"""Testbeds on a Kubernetes cluster: real boards under k3s, or any cluster that is there already.

The package `kubernetes` takes a second to import: modules here import it where they use it, never on top.
"""
