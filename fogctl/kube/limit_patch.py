"""The patch that changes a pod's CPU limit: whoever works on the cluster sends it, and drivers do."""

from __future__ import annotations

from typing import Any


def resize_body(container: str, cpu: str) -> dict[str, Any]:
    """This limit for a pod's container, as its `resize` takes it."""
    return {"spec": {"containers": [{"name": container, "resources": {"limits": {"cpu": cpu}}}]}}
