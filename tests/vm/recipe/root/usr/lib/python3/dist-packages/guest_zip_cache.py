# mypy: ignore-errors
# ruff: noqa: PTH105, PTH123 (pathlib would cost each start of Python more than it saves here)
"""Keeps the compiled code of modules that are imported from a zip, as Python does by itself for plain files.

Ansible sends each task as a zip, and an emulated processor takes longer to compile it than to run it.
"""

import hashlib
import marshal
import os
import zipimport

_FOLDER = "/var/cache/guest-zip"
_compile = zipimport._compile_source


def _cached(pathname, source):
    name = hashlib.blake2b(
        source if isinstance(source, bytes) else source.encode(), digest_size=16
    ).hexdigest()
    file = f"{_FOLDER}/{name}"
    try:
        with open(file, "rb") as stream:
            return marshal.loads(stream.read())
    except (OSError, EOFError, ValueError):
        pass
    code = _compile(pathname, source)
    try:
        fresh = f"{file}.{os.getpid()}"
        with open(fresh, "wb") as stream:
            stream.write(marshal.dumps(code))
        os.replace(fresh, file)
    except OSError:
        pass
    return code


zipimport._compile_source = _cached
