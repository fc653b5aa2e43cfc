"""Turns what goes wrong in a tool into a result that the model can act on."""

from __future__ import annotations

import logging

from sandgate_gateway.domain.call import CallContext
from sandgate_gateway.domain.result import Failure, ToolResult, failed
from sandgate_gateway.errors import GatewayError
from sandgate_gateway.pipeline import outcomes
from sandgate_gateway.pipeline.stage import Handler, Phase
from sandgate_providers.errors import CallRefused, ChannelClosed, FileOperationFailed, SandboxLost

_logger = logging.getLogger(__name__)


class ErrorHandling:
    """Lets cancellation, capacity and outages pass: they are not the tool's, and the program must see them."""

    name = "error-handling"
    phases: frozenset[Phase] = frozenset()

    async def __call__(self, context: CallContext, proceed: Handler) -> ToolResult:
        """Proceed, and give a result for whatever the tool raises."""
        tool = context.call.tool
        try:
            return await proceed(context)
        except GatewayError:
            raise
        except SandboxLost:
            return outcomes.lost("The sandbox died while the call ran.")
        except ChannelClosed:
            return outcomes.lost("The sandbox was ended while the call ran.")
        except CallRefused as error:
            return outcomes.refused(error.reason, str(error))
        except FileOperationFailed as error:
            return failed(Failure(reason=error.code, message=str(error)))
        except Exception:  # the border around tools: a bug in one must not end the run of an agent
            _logger.exception("The tool %s failed in call %s.", tool, context.audit_id)
            return outcomes.internal_error(tool)
