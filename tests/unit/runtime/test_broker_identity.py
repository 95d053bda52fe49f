"""The identity a broker's log gets: Kafka's own notation, whatever the number."""

from __future__ import annotations

import base64
from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st

from fogctl.runtime.broker import cluster_identity


@given(st.uuids())
@example(UUID(bytes=b"\xfb" + b"\xff" * 15))  # would begin with a minus
def test_an_identity_is_sixteen_bytes_and_never_looks_like_an_option(number: UUID) -> None:
    identity = cluster_identity(number)
    assert not identity.startswith("-")
    assert len(base64.urlsafe_b64decode(identity + "==")) == 16
