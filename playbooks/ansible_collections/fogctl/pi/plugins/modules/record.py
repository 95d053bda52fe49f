#!/usr/bin/python
# Copyright: the fogctl developers
# Apache License 2.0 (see LICENSE)
"""Ansible module: write down what something on the host is like, before it is changed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: record
short_description: Write down what something on the host is like, before it is changed
description:
  - Only the first record of a thing counts, so what C(restore) brings back is the host before fogctl.
version_added: 0.1.0
author: The fogctl developers (@fogctl)
attributes:
  check_mode:
    support: full
    description: Nothing is written.
  diff_mode:
    support: none
    description: There is nothing to compare.
options:
  things:
    description: What will be changed, in the order of the changes; C(restore) goes backwards.
    type: list
    elements: dict
    required: true
    suboptions:
      kind:
        description: What it is.
        type: str
        required: true
        choices: [file, tree, packages, service, sysctl, module, swap]
      names:
        description: Which ones; for packages the packages that will be installed together.
        type: list
        elements: str
        required: true
  folder:
    description: Where the ledger is.
    type: path
    default: /var/lib/fogctl-pi
"""

EXAMPLES = r"""
- name: Record the SSH server's settings
  fogctl.pi.record:
    things:
      - {kind: service, names: [ssh.service]}
      - {kind: file, names: [/etc/ssh/sshd_config.d/90-fogctl.conf]}
"""

RETURN = r"""
recorded:
  description: What was not known before.
  type: list
  elements: str
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.fogctl.pi.plugins.module_utils.ledger import (  # noqa: E402
    FOLDER,
    KINDS,
    Ledger,
    LedgerError,
)


def main() -> None:
    """Record each name; a record is bookkeeping, so it never counts as a change of the host."""
    thing = {
        "kind": {"type": "str", "required": True, "choices": list(KINDS)},
        "names": {"type": "list", "elements": "str", "required": True},
    }
    module = AnsibleModule(
        argument_spec={
            "things": {"type": "list", "elements": "dict", "required": True, "options": thing},
            "folder": {"type": "path", "default": FOLDER},
        },
        supports_check_mode=True,
    )
    ledger = Ledger(module.params["folder"])
    recorded = []
    try:
        for each in module.params["things"]:
            kind, names = each["kind"], each["names"]
            together = [" ".join(sorted(names))] if kind == "packages" and names else names
            recorded += [name for name in together if ledger.record(kind, name, module.check_mode)]
    except (LedgerError, OSError) as error:
        module.fail_json(msg=f"the state before the change cannot be recorded: {error}")
    module.exit_json(changed=False, recorded=recorded)


if __name__ == "__main__":
    main()
