"""Streaming apps that come with fogctl, each in a folder with its app.yaml."""
