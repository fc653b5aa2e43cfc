"""Joins the runner's modules into the one source that is handed to `python3 -c` inside a sandbox."""

from __future__ import annotations

import base64
import functools
import json
import zlib
from importlib import resources

PACKAGE = "sandgate_providers.runner"
MOST_BYTES = 128 * 1024 - 1
"""Longest single argument that Linux passes on (MAX_ARG_STRLEN)."""

_START = """\
import sys, zlib, base64, json
from importlib.machinery import ModuleSpec
SOURCES = json.loads(zlib.decompress(base64.b85decode({packed!r})))
class Bundle:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in SOURCES:
            return ModuleSpec(name, Bundle, is_package=not SOURCES[name])
    @staticmethod
    def create_module(spec):
        return None
    @staticmethod
    def exec_module(module):
        name = module.__name__
        exec(compile(SOURCES[name], "<" + name + ">", "exec"), module.__dict__)
sys.meta_path.insert(0, Bundle)
from {package}.main import main
main()
"""


@functools.cache
def runner_source() -> str:
    """Give the runner as one source text, below the length of a single argument.

    The modules are compressed, so that a manifest that holds them stays short; inside, an importer serves them from
    memory under their own names, so that tracebacks read as usual. Reads the package's files once.
    """
    sources = {PACKAGE.partition(".")[0]: "", PACKAGE: ""}
    for file in sorted(resources.files(PACKAGE).iterdir(), key=lambda entry: entry.name):
        name = file.name.removesuffix(".py")
        if file.name.endswith(".py") and name not in ("__init__", "bundle"):
            sources[f"{PACKAGE}.{name}"] = file.read_text(encoding="utf-8")
    packed = base64.b85encode(zlib.compress(json.dumps(sources).encode("ascii"), 9)).decode("ascii")
    source = _START.format(packed=packed, package=PACKAGE)
    if len(source) > MOST_BYTES:
        raise RuntimeError(f"the runner has grown to {len(source)} bytes; one argument holds {MOST_BYTES}")
    return source
