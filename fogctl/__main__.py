"""`python -m fogctl` is the same as `fogctl`."""

from fogctl.cli import main

main()
