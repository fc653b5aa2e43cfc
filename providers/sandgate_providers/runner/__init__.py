"""What runs inside a sandbox: one process that serves calls from an open line.

Every module here runs inside, on the Python that the image happens to have (3.9 or newer), with the standard library
alone: no dataclass with slots, no `match`, no import of anything outside `sandgate_providers.runner`. `bundle` joins
the modules into one source that is handed over as `python3 -c`. Everything else inside shares this process's uid and
is hostile.
"""
