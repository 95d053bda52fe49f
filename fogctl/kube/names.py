"""What a testbed's parts are called in a cluster: namespaces, labels, accounts, objects."""

from __future__ import annotations

import hashlib
import re

from fogctl import __version__

PREFIX = "fog"
DOMAIN = "fogctl.io"

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "fogctl"
TESTBED = f"{DOMAIN}/testbed"
"""Label on every object of ours and on every node of a testbed; its value is the testbed's name."""
DIGEST = f"{DOMAIN}/digest"
"""Annotation that says from which plan an object was made."""
RUN_PREFIX = f"{DOMAIN}/run-"
"""Labels on nodes that say which stages' executors run there."""
APP = f"{DOMAIN}/app"
STAGE = f"{DOMAIN}/stage"
HOST_NAME = "kubernetes.io/hostname"

OPERATOR = "fog-operator"
"""The service account that the command line and the agent use once the testbed is up."""
DRIVER = "fog-driver"
"""The service account of Spark's drivers."""
SECRET = "fog-credentials"
"""The Secret that holds what follows, under these keys."""
KAFKA_PASSWORD = "kafka-password"
CONTROL_TOKEN = "control-token"
SECRET_FOLDER = "/fog/secret"
"""Where pods mount it."""
BROKER = "fog-broker"
BROKER_SETTINGS = "fog-broker-settings"
STATE_CLAIM = "fog-state"
"""The volume claim on the control node that holds the stages' checkpoints."""

DEFAULT_IMAGE = f"localhost/fogctl-stage:{__version__}"

KAFKA_USER = "fog"

_LABEL = re.compile(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?")
_READABLE = 34


def namespace(testbed: str) -> str:
    """The namespace in which everything of a testbed is."""
    return f"{PREFIX}-{testbed}"


def labels(testbed: str) -> dict[str, str]:
    """What every object of a testbed carries; whatever does not is none of ours."""
    return {MANAGED_BY: MANAGER, TESTBED: testbed}


def selector(testbed: str) -> str:
    """The label selector for everything of a testbed."""
    return ",".join(f"{key}={value}" for key, value in labels(testbed).items())


def is_ours(found: dict[str, str] | None, testbed: str) -> bool:
    """Whether an object with these labels belongs to the testbed."""
    return labels(testbed).items() <= (found or {}).items()


def run_label(app: str, stage: str) -> str:
    """The label of the nodes on which a stage's executors run."""
    name = f"run-{app}.{stage}"
    return f"{DOMAIN}/{name if _LABEL.fullmatch(name) else f'run-{_digest(app, stage)}'}"


def label_value(name: str) -> str:
    """The name of an app or a stage as the value of a label, which must not end with a dash."""
    return name if _LABEL.fullmatch(name) else f"{name}.{_digest(name)}"


def stage_name(app: str, stage: str) -> str:
    """What a stage's objects are called: two stages never have the same, and a pod's number still fits."""
    readable = re.sub(r"[^a-z0-9]+", "-", f"{app}-{stage}")[:_READABLE].strip("-")
    return f"{PREFIX}-{readable}-{_digest(app, stage)}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]
