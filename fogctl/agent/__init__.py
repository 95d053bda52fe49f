"""The agent: a loop that looks at a running app, asks a policy, and changes the deployment within limits."""
