"""The composition root: the only place that makes concrete objects of settings and puts them together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

from sandgate.v1 import audit_service_pb2, sandbox_service_pb2, tool_service_pb2
from sandgate_gateway.admissions.keys import load_key_ring
from sandgate_gateway.admissions.signing import AdmissionSigner
from sandgate_gateway.audit.codes import Code
from sandgate_gateway.audit.digests import Digests
from sandgate_gateway.audit.disclosure import Disclosure, DisclosureLevel
from sandgate_gateway.audit.event import AuditEvent
from sandgate_gateway.audit.log import AuditLog
from sandgate_gateway.audit.reader import AuditReader
from sandgate_gateway.audit.rendering import Emitter
from sandgate_gateway.configuration.installation import installation_id
from sandgate_gateway.errors import GatewayError, Misconfigured
from sandgate_gateway.ledger.memory import LedgerLimits, MemoryLedger
from sandgate_gateway.ledger.table import RequestTable
from sandgate_gateway.pipeline.assemble import Pipeline, standard_stages
from sandgate_gateway.pipeline.authorizing import AdmissionDesk, AdmissionPolicy
from sandgate_gateway.pipeline.calls import CallRunner
from sandgate_gateway.pipeline.dispatch import Dispatch, Timeouts
from sandgate_gateway.pipeline.middleware_events import MiddlewareEvents
from sandgate_gateway.pipeline.recorder import Recorder
from sandgate_gateway.pipeline.records import sandbox_record
from sandgate_gateway.rpc.audit_service import AuditService
from sandgate_gateway.rpc.boundary import Boundary, ServiceHandlers
from sandgate_gateway.rpc.health import Health
from sandgate_gateway.rpc.sandbox_service import SandboxService
from sandgate_gateway.rpc.tool_service import ToolService
from sandgate_gateway.sandboxes.events import SandboxEvent
from sandgate_gateway.sandboxes.manager import SandboxManager
from sandgate_gateway.sandboxes.policy import SandboxPolicy
from sandgate_gateway.server import ServerOptions, build_server, listen
from sandgate_gateway.settings import Settings
from sandgate_gateway.tools.registry import ToolRegistry
from sandgate_providers import registry
from sandgate_providers.contract import SandboxProvider
from sandgate_providers.errors import ProviderMisconfigured, ProviderUnavailable
from sandgate_providers.types import Limits

DEADLINE_MARGIN_SECONDS = 30.0
"""On top of the longest tool timeout: what a caller gets who sets no deadline, with time to make a sandbox."""

LAST_WORDS_SECONDS = 0.5
"""For replies on their way out, once nothing runs any more."""

VERSION = version("sandgate")
"""Read from the installed package's files, once."""

SERVICES = (
    tool_service_pb2.DESCRIPTOR.services_by_name["ToolService"],
    sandbox_service_pb2.DESCRIPTOR.services_by_name["SandboxService"],
    audit_service_pb2.DESCRIPTOR.services_by_name["AuditService"],
)

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A gateway that takes calls."""

    addresses: Sequence[str]
    """Where it listens, as clients write it."""
    pipeline: Pipeline
    sandboxes: SandboxManager
    recorder: Recorder


async def serve(
    settings: Settings,
    *,
    ready: Callable[[Sequence[str]], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Run a gateway until it is told to stop; without an event, until it is cancelled.

    Args:
        settings: what to run.
        ready: called with the addresses once calls are taken.
        stop: set it to stop in order. Cancelling the task stops at once.

    Raises:
        Misconfigured: it cannot start like this.
    """
    async with running_gateway(settings) as gateway:
        if ready is not None:
            ready(gateway.addresses)
        await (stop or asyncio.Event()).wait()


@asynccontextmanager
async def running_gateway(settings: Settings, *, provider: SandboxProvider | None = None) -> AsyncIterator[Gateway]:
    """Run a gateway for as long as the context lasts.

    Leaving it stops in order: no new calls; running ones get `server.shutdown_grace`; sandboxes end; the audit is
    closed last, so that everything before is in it.

    Args:
        settings: what to run.
        provider: instead of the one that the settings name, for tests.

    Raises:
        Misconfigured: it cannot start like this.
    """
    async with AsyncExitStack() as stack:
        installation = await asyncio.to_thread(installation_id, settings)
        digests = await asyncio.to_thread(Digests.load, settings.audit_key_file)
        log = await _started_log(settings, installation, stack)
        recorder = Recorder(log, Disclosure(DisclosureLevel(settings.audit.include_arguments), digests))
        sandboxes = await _started_sandboxes(settings, installation, provider, recorder, stack)

        table = RequestTable(_ledger(settings))
        tools = ToolRegistry(settings.tools.write_max_bytes)
        timeouts = Timeouts(default_seconds=settings.tools.default_timeout, max_seconds=settings.tools.max_timeout)
        pipeline = Pipeline(recorder, standard_stages(sandboxes), Dispatch(tools, recorder, timeouts))
        desk = await _started_desk(settings, table, pipeline, recorder, stack)
        stack.push_async_callback(table.close)

        boundary = Boundary(max_seconds=settings.tools.max_timeout + DEADLINE_MARGIN_SECONDS)
        servicers = (
            ToolService(tools.specs, CallRunner(table, pipeline.execute), desk),
            SandboxService(sandboxes, recorder),
            AuditService(
                MiddlewareEvents(recorder), AuditReader(settings.audit_file, page_key=digests.page_key, log=log)
            ),
        )
        handlers = [boundary.handlers(service, servicer) for service, servicer in zip(SERVICES, servicers, strict=True)]
        health = Health(
            [service.full_name for service in SERVICES], lambda: recorder.writable and sandboxes.provider_answers
        )
        addresses = await _started_server(settings, handlers, boundary, health, log, stack)
        await recorder.write(AuditEvent(code=Code.GATEWAY_STARTED, occurred_at=datetime.now(UTC)))
        yield Gateway(addresses=addresses, pipeline=pipeline, sandboxes=sandboxes, recorder=recorder)


async def _started_log(settings: Settings, installation: str, stack: AsyncExitStack) -> AuditLog:
    emitter = Emitter(service="sandgate-gateway", version=VERSION, instance=installation)
    log = AuditLog(settings.audit_file, emitter)
    await log.start()
    stack.push_async_callback(_stop_log, log)
    return log


async def _stop_log(log: AuditLog) -> None:
    try:
        await log.write(AuditEvent(code=Code.GATEWAY_STOPPED, occurred_at=datetime.now(UTC)))
    except GatewayError:
        _logger.exception("The end of this gateway could not be recorded.")
    await log.stop()


async def _started_sandboxes(
    settings: Settings,
    installation: str,
    provider: SandboxProvider | None,
    recorder: Recorder,
    stack: AsyncExitStack,
) -> SandboxManager:
    try:
        provider = provider or registry.create(settings.provider, settings.provider_options, installation=installation)
        stack.push_async_callback(provider.stop)
        await provider.start()
    except (ProviderMisconfigured, ProviderUnavailable) as error:
        raise Misconfigured(str(error)) from error

    async def emit(event: SandboxEvent) -> None:
        await recorder.write(sandbox_record(event))

    sandboxes = SandboxManager(provider, _sandbox_policy(settings, installation), emit)
    stack.push_async_callback(sandboxes.close)
    sandboxes.start()
    return sandboxes


def _sandbox_policy(settings: Settings, installation: str) -> SandboxPolicy:
    chosen, limits = settings.sandboxes, settings.sandboxes.limits
    return SandboxPolicy(
        installation=installation,
        limits=Limits(
            memory_bytes=limits.memory,
            processes=limits.processes,
            open_files=limits.open_files,
            file_size_bytes=limits.file_size,
            cpu_seconds=max(1, round(limits.cpu_time)),
            temporary_bytes=limits.temporary,
        ),
        environment=chosen.environment,
        max_sandboxes=chosen.max,
        max_sandboxes_per_tenant=chosen.max,
        queue_seconds=chosen.queue_time,
        start_seconds=chosen.acquire_timeout,
        idle_seconds=chosen.idle_time,
        lease_seconds=chosen.lease_time,
    )


def _ledger(settings: Settings) -> MemoryLedger:
    return MemoryLedger(LedgerLimits(max_requests=settings.ledger.max_requests, max_bytes=settings.ledger.max_bytes))


async def _started_desk(
    settings: Settings, table: RequestTable, pipeline: Pipeline, recorder: Recorder, stack: AsyncExitStack
) -> AdmissionDesk:
    ring = await asyncio.to_thread(load_key_ring, settings.admission_key_file)
    policy = AdmissionPolicy(lifetime_seconds=settings.admissions.lifetime)
    desk = AdmissionDesk(table, pipeline, recorder, AdmissionSigner(ring), policy)
    desk.start()
    stack.push_async_callback(desk.close)
    return desk


async def _started_server(
    settings: Settings,
    handlers: Sequence[ServiceHandlers],
    boundary: Boundary,
    health: Health,
    log: AuditLog,
    stack: AsyncExitStack,
) -> list[str]:
    options = ServerOptions(
        max_request_bytes=settings.server.max_request_bytes,
        max_concurrent_calls=settings.server.max_concurrent_calls,
        reflection=settings.server.reflection,
    )
    server = build_server(options, handlers, health.servicer)
    stack.push_async_callback(server.stop, 0)
    addresses = await listen(server, settings.listen)
    await server.start()
    await health.start()

    async def stop_in_order() -> None:
        await health.leave()
        boundary.refuse()
        log.followers.close()  # who only follows the log would hold up the end for the whole grace
        try:
            async with asyncio.timeout(settings.server.shutdown_grace):
                await boundary.idle()
        except TimeoutError:
            _logger.warning("Calls that still run are cancelled.")
        await server.stop(LAST_WORDS_SECONDS)

    stack.push_async_callback(stop_in_order)
    return addresses
