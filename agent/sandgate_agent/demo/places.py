"""Where things are inside the demo's sandbox."""

from __future__ import annotations

REPOSITORY = "/mnt/user-data/uploads/repository"
SCRIPT = "/mnt/user-data/workspace/survey.py"
REPORT = "/mnt/user-data/outputs/report.md"
