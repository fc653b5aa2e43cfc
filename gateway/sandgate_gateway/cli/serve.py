"""`sandgate serve`: run the gateway until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandgate_gateway.cli.exits import CommandFailed

if TYPE_CHECKING:
    from sandgate_gateway.configuration.loading import Loaded
    from sandgate_gateway.settings import Settings


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", help="The file of settings (default: SANDGATE_CONFIG, or looked for)."
    ),
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Say more about what the gateway does.")]


def serve(*, config: ConfigOption = None, verbose: VerboseOption = False) -> None:
    """Run the gateway until Ctrl-C or SIGTERM.

    It listens on a Unix socket unless the settings say otherwise. On the first signal it takes no new calls and lets
    the running ones end; on the second it stops at once.
    """
    import uvloop  # noqa: PLC0415 - these two keep --help fast

    from sandgate_gateway.configuration.loading import load_settings  # noqa: PLC0415

    loaded = load_settings(config)
    log_to_stderr(logging.DEBUG if verbose else logging.INFO)
    announce(loaded)
    uvloop.run(_serve(loaded.settings))


def log_to_stderr(level: int) -> None:
    """Send the log of this process to stderr, for people: in colour on a terminal, plain lines elsewhere."""
    handler: logging.Handler
    if sys.stderr.isatty():
        from rich.console import Console  # noqa: PLC0415 - not needed without a terminal
        from rich.logging import RichHandler  # noqa: PLC0415

        handler = RichHandler(console=Console(stderr=True), show_path=False, log_time_format="%H:%M:%S")
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("sandgate_gateway", "sandgate_providers"):
        logging.getLogger(name).setLevel(level)


def announce(loaded: Loaded) -> None:
    """Say where the settings come from and what they amount to."""
    settings = loaded.settings
    logger = logging.getLogger(__name__)
    source = str(loaded.file) if loaded.file else "defaults; no file was found"
    extra = f", and {', '.join(loaded.variables)}" if loaded.variables else ""
    logger.info("settings: %s%s", source, extra)
    logger.info("provider: %s; data: %s; audit: %s", settings.provider, settings.data_dir, settings.audit_file)
    if settings.local.isolation == "none":
        logger.warning("local.isolation is none: commands run on this host with everything that this user may do")


async def _serve(settings: Settings) -> None:
    import sandgate_gateway.bootstrap as gateway  # noqa: PLC0415 - brings in grpc; keeps --help fast

    logger = logging.getLogger(__name__)
    stop = asyncio.Event()
    task = asyncio.ensure_future(gateway.serve(settings, ready=_say_ready, stop=stop))

    def on_signal(number: int) -> None:
        if stop.is_set():
            logger.warning("stopping at once")
            task.cancel()
            return
        logger.info(
            "%s: no new calls are taken; running ones have up to %g s. A second signal stops at once.",
            signal.Signals(number).name,
            settings.server.shutdown_grace,
        )
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    try:
        await task
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
        raise CommandFailed("stopped before the running calls had ended") from None
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    logger.info("stopped")


def _say_ready(addresses: Sequence[str]) -> None:
    logging.getLogger(__name__).info("ready: listening on %s", ", ".join(addresses))
