"""The middleware that sends every tool call of an agent through a gateway."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, Self, cast

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ContextT,
    ModelRequest,
    ModelResponse,
    ResponseT,
    ToolCallRequest,
)
from langchain_core.messages import ToolMessage
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import TypedDict, Unpack

from sandgate_agent.bridging import AwaitingCaller, BlockingCaller, Caller, inline, run_in_place
from sandgate_agent.catalogue import Catalogue
from sandgate_agent.client import GatewayClient
from sandgate_agent.counters import Counters
from sandgate_agent.endpoint import Endpoint
from sandgate_agent.errors import NameClash, SandgateError
from sandgate_agent.identity import lease_of, mint_invocation, thread_of
from sandgate_agent.loading import CatalogueWatch, Snapshot, load
from sandgate_agent.state import GatewayState, invocation_of, sandbox_id_of
from sandgate_agent.tool_calls import OnOutage, ToolCalls
from sandgate_agent.tools import names_of, tools_of
from sandgate_agent.types import Claims

RELEASE_SECONDS = 5.0
"""How long the end of a run waits for its release; an unreleased lease runs out by itself."""

LOAD_SECONDS = 10.0
"""How long building an agent waits for the gateway's tools."""

_log = logging.getLogger(__name__)


class Options(TypedDict, total=False):
    """What `GatewayMiddleware.connect` passes on; the class says what each means."""

    only: Collection[str] | None
    tools: Sequence[object]
    claims: Claims | None
    execution_timeout_seconds: float
    on_outage: OnOutage


class GatewayMiddleware(AgentMiddleware[AgentState[ResponseT], ContextT, ResponseT]):
    """Sends every tool call of an agent through a gateway.

    `create_agent(model, middleware=[GatewayMiddleware("unix:///run/sandgate.sock")])` is all that an agent needs. The
    gateway's tools are added to the agent and run in the gateway. The agent's own tools are authorized by the gateway,
    run here, and completed there, so that policy, audit and output limits cover them too. Without the gateway nothing
    runs, own tools included.

    List it last among the middlewares, so that it is the innermost: the gateway then gets the call as it will run,
    after the others have asked, changed or refused it, and each attempt of one that tries again is a request of its
    own, authorized and recorded. The calls of the gateway's tools end here, so what is listed after it never sees them:
    a `HumanInTheLoopMiddleware` there would not ask (`per_call`), or the call would run without the reviewer's edit.

    What the model sees
        A refused call, and each outcome but `completed`, is a tool message with status `error` and the gateway's text.
        A command that exits with another code than zero is `completed`. `additional_kwargs["sandgate"]` holds the audit
        id, outcome, verdict, sandbox and reasons; `artifact` the typed data. A gateway that stays full, and arguments
        or a name that the gateway refuses to read, are error messages that say what to do.

    What is raised
        A gateway that is away, that takes no more calls, or whose answer did not come in time: `GatewayUnavailable`,
        `TransportLimitReached` or `CallTimedOut`, or with `on_outage="message"` an error message. Every other
        `SandgateError`, always. Errors of the agent's own tools pass after they were reported as failed. LangGraph's
        control flow and cancellation always pass.

    What is kept in the graph's state
        `sandbox`, the sandbox that serves the thread, whenever it is another one than before; and the id of the
        invocation, from which run and lease are derived.

    A changed catalogue is logged and recorded, and used by the next agent that is built (`loading.CatalogueWatch`).

    Args:
        gateway: a client, an endpoint, or a target such as `unix:///run/sandgate.sock`.
        only: use only these of the gateway's tools; None is all of them, an empty collection none.
        tools: the agent's other tools, to find clashes of names now instead of at the first model call.
        claims: what the agent says of itself, for the audit.
        catalogue: the tools, when they are known already; the gateway is then not asked.
        snapshot: the tools to use while the gateway is away.
        load_seconds: how long to wait for the tools.
        execution_timeout_seconds: how long a tool may run; zero is the gateway's default.
        on_outage: what happens to a call while the gateway is away.

    Raises:
        SandgateError: the tools could not be loaded, with the class that says why.
        NameClash: a tool of `tools` has the name of one of the gateway's.
    """

    # Typed as LangChain's own state, so that the class fits into a list with other middlewares.
    state_schema = cast("type[AgentState[ResponseT]]", GatewayState)

    def __init__(
        self,
        gateway: GatewayClient | Endpoint | str,
        *,
        only: Collection[str] | None = None,
        tools: Sequence[object] = (),
        claims: Claims | None = None,
        catalogue: Catalogue | None = None,
        snapshot: Snapshot | None = None,
        load_seconds: float = LOAD_SECONDS,
        execution_timeout_seconds: float = 0.0,
        on_outage: OnOutage = "raise",
    ) -> None:
        super().__init__()
        self.client = gateway if isinstance(gateway, GatewayClient) else GatewayClient(gateway)
        self.counters = Counters()
        if catalogue is None:
            catalogue = self.client.wait(load(self.client, timeout_seconds=load_seconds, snapshot=snapshot))
        self.catalogue = catalogue.only(only)
        self.tools = tools_of(self.catalogue)
        self._names = self.catalogue.names
        self._check_names(tools)
        self._calls = ToolCalls(
            self.client,
            self.counters,
            self._names,
            claims=claims or Claims(),
            execution_timeout_seconds=execution_timeout_seconds,
            on_outage=on_outage,
        )
        self.watch = CatalogueWatch(self.client, self.counters, catalogue.digest)

    @classmethod
    async def connect(
        cls,
        gateway: GatewayClient | Endpoint | str,
        *,
        snapshot: Snapshot | None = None,
        load_seconds: float = LOAD_SECONDS,
        **options: Unpack[Options],
    ) -> Self:
        """Build it without blocking the event loop. Takes and raises what the class does."""
        client = gateway if isinstance(gateway, GatewayClient) else GatewayClient(gateway)
        catalogue = await load(client, timeout_seconds=load_seconds, snapshot=snapshot)
        return cls(client, catalogue=catalogue, **options)

    def before_agent(self, _: AgentState[ResponseT], runtime: Runtime[ContextT]) -> dict[str, Any]:
        """Mint the id of this invocation, and look now and then whether the gateway's tools have changed."""
        return self._begin(runtime)

    async def abefore_agent(self, _: AgentState[ResponseT], runtime: Runtime[ContextT]) -> dict[str, Any]:
        """Do the same: nothing here waits."""
        return self._begin(runtime)

    def wrap_model_call(
        self, request: ModelRequest[ContextT], handler: Callable[[ModelRequest[ContextT]], ModelResponse[ResponseT]]
    ) -> ModelResponse[ResponseT]:
        """Refuse to go on when another tool of the agent has the name of one of the gateway's."""
        self._check_names(request.tools)
        return handler(request)

    async def awrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[ResponseT]]],
    ) -> ModelResponse[ResponseT]:
        """Refuse to go on when another tool of the agent has the name of one of the gateway's."""
        self._check_names(request.tools)
        return await handler(request)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Send one call through the gateway, blocking this thread."""
        return run_in_place(self._calls.send(request, inline(handler), BlockingCaller(self.client)))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """Send one call through the gateway."""
        return await self._calls.send(request, handler, AwaitingCaller())

    def after_agent(self, state: AgentState[ResponseT], runtime: Runtime[ContextT]) -> None:
        """Release the sandbox. What goes wrong is logged and counted: the lease runs out by itself."""
        run_in_place(self._release(state, runtime, BlockingCaller(self.client)))

    async def aafter_agent(self, state: AgentState[ResponseT], runtime: Runtime[ContextT]) -> None:
        """Release the sandbox. What goes wrong is logged and counted: the lease runs out by itself."""
        await self._release(state, runtime, AwaitingCaller())

    def _begin(self, runtime: Runtime[ContextT]) -> dict[str, Any]:
        invocation = mint_invocation()
        self.watch.look(thread=thread_of(runtime.execution_info, {}, invocation), run=invocation)
        return {"sandgate_invocation": invocation}

    def _check_names(self, tools: object) -> None:
        if clashes := names_of(tools) & self._names:
            raise NameClash(sorted(clashes))

    async def _release(self, state: AgentState[ResponseT], runtime: Runtime[ContextT], caller: Caller) -> None:
        invocation = invocation_of(state)
        if not invocation or not sandbox_id_of(state):
            return
        thread = thread_of(runtime.execution_info, {}, invocation)
        work: Coroutine[object, object, bool] = self.client.release(
            thread=thread, lease=lease_of(invocation), timeout_seconds=RELEASE_SECONDS
        )
        try:
            await caller.ask(work)
        except SandgateError as error:
            self.counters.add("release_failed")
            _log.warning("the sandbox of thread %s was not released: %s", thread, error)
