#!/usr/bin/python
# Copyright: the fogctl developers
# Apache License 2.0 (see LICENSE)
"""Ansible module: bring a host back to what its ledger says it was."""

from __future__ import annotations

DOCUMENTATION = r"""
module: restore
short_description: Bring the host back to what its ledger says it was
description:
  - Undoes every recorded change, newest first, and removes the ledger when nothing is left to undo.
version_added: 0.1.0
author: The fogctl developers (@fogctl)
attributes:
  check_mode:
    support: full
    description: Says what would be restored.
  diff_mode:
    support: none
    description: There is nothing to compare.
options:
  folder:
    description: Where the ledger is.
    type: path
    default: /var/lib/fogctl-pi
"""

EXAMPLES = r"""
- name: Restore the host
  fogctl.pi.restore:
"""

RETURN = r"""
restored:
  description: What was brought back.
  type: list
  elements: str
  returned: success
left:
  description: A sentence for each thing that could not be brought back.
  type: list
  elements: str
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.fogctl.pi.plugins.module_utils.ledger import FOLDER, Ledger  # noqa: E402


def main() -> None:
    """Restore what the ledger knows."""
    module = AnsibleModule(
        argument_spec={"folder": {"type": "path", "default": FOLDER}}, supports_check_mode=True
    )
    restored, left = Ledger(module.params["folder"]).restore(module.check_mode)
    module.exit_json(changed=bool(restored), restored=restored, left=left)


if __name__ == "__main__":
    main()
