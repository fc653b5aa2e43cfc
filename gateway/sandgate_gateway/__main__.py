"""The `sandgate` command, also as `python -m sandgate_gateway`."""

from __future__ import annotations

from sandgate_gateway.cli.application import run


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    raise SystemExit(run())


if __name__ == "__main__":
    main()
