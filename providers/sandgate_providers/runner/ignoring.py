"""What searches pass over: what tools made and can make again, and what is there for a tool alone.

A name counts below the root of a search only: whoever asks for `node_modules` itself gets what is in it. Names that a
project may use for its own work are not here, though many lists have them: `build`, `dist`, `out`, `target`, `logs`,
`env`, `*.log`, `*.tmp`, `*.bak`. Where such a folder is a cache or a virtual environment, a file in it says so. Secrets
such as `.env` are not hidden either: hiding protects nothing, since a command can read them.
"""

from __future__ import annotations

_FOLDERS = (
    # version control
    ".git .hg .svn .bzr .jj .pijul _darcs CVS .fslckout .repo "
    # packages of others
    "node_modules bower_components jspm_packages .pnpm-store .yarn-cache .bundle .eggs site-packages "
    # virtual environments
    ".venv venv .virtualenv .conda "
    # caches
    "__pycache__ __pypackages__ .cache .mypy_cache .ruff_cache .pytest_cache .pytype .pyre .hypothesis .tox .nox "
    ".ipynb_checkpoints .nyc_output .parcel-cache .turbo .next .nuxt .svelte-kit .angular .gradle .terraform "
    ".sass-cache .ccache .npm "
    # editors
    ".idea .vscode .vs .fleet"
)
IGNORED_FOLDERS = frozenset(name.encode("ascii") for name in _FOLDERS.split())
IGNORED_FILES = frozenset((b".DS_Store", b"Thumbs.db", b"desktop.ini"))
IGNORED_ENDINGS = (b".pyc", b".pyo", b".swp", b".swo", b"~")
FOLDER_MARKS = frozenset((b"CACHEDIR.TAG", b"pyvenv.cfg"))
"""Files that mark the folder they are in: a cache by the Cache Directory Tagging convention, a virtual environment."""


def is_ignored(name: bytes, *, is_file: bool) -> bool:
    """Tell whether an entry below the root of a search is passed over."""
    if is_file:
        return name in IGNORED_FILES or name.endswith(IGNORED_ENDINGS)
    return name in IGNORED_FOLDERS
