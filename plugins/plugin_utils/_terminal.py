# Copyright: Contributors to the Muster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How wide the terminal is that a playbook was called from.

Tables are drawn in Ansible's workers, whose own standard output is no terminal. So it is asked when this file is
imported, by the lookup that runs before any worker: in the process that workers are forked from, and inherit it.
"""

from __future__ import annotations

import os
import shutil

WIDTH: int | None = shutil.get_terminal_size().columns if os.isatty(1) else None
"""Columns, None where the output goes to a file or a pipe."""
