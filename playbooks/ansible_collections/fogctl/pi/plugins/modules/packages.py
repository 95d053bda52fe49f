#!/usr/bin/python
# Copyright: the fogctl developers
# Apache License 2.0 (see LICENSE)
"""Ansible module: install Debian packages that are missing, after writing down what that adds."""

from __future__ import annotations

DOCUMENTATION = r"""
module: packages
short_description: Install Debian packages that are missing, after writing down what that adds
description:
  - Asks dpkg first, so that a host without a network is not asked for package lists it does not need.
  - Needs no python3-apt on the host, which would itself be a change that nobody wrote down.
version_added: 0.1.0
author: The fogctl developers (@fogctl)
attributes:
  check_mode:
    support: full
    description: Says which packages are missing.
  diff_mode:
    support: none
    description: There is nothing to compare.
options:
  names:
    description: The packages that must be there.
    type: list
    elements: str
    required: true
  folder:
    description: Where the ledger is.
    type: path
    default: /var/lib/fogctl-pi
"""

EXAMPLES = r"""
- name: Install what k3s needs
  fogctl.pi.packages:
    names: [iptables, kmod]
"""

RETURN = r"""
missing:
  description: What was not there.
  type: list
  elements: str
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.fogctl.pi.plugins.module_utils.ledger import (  # noqa: E402
    FOLDER,
    Ledger,
    LedgerError,
    package_state,
)


def main() -> None:
    """Install what is missing."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "folder": {"type": "path", "default": FOLDER},
        },
        supports_check_mode=True,
    )
    missing = sorted(name for name in module.params["names"] if package_state(name) != "installed")
    if missing and not module.check_mode:
        try:
            Ledger(module.params["folder"]).install(missing)
        except (LedgerError, OSError) as error:
            module.fail_json(msg=f"{', '.join(missing)} cannot be installed: {error}")
    module.exit_json(changed=bool(missing), missing=missing)


if __name__ == "__main__":
    main()
