"""The policies that come with fogctl, one a file; `fogctl.agent.policy` finds them by name."""
