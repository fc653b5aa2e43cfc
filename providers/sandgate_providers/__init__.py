"""Mechanism: make, find and destroy sandboxes, and run things in them.

Here lives what touches an engine or a process. Policy, gRPC and agents are unknown here: nothing in this package may
import `sandgate`, `sandgate_gateway`, `sandgate_agent` or `grpc`. The gateway sees only `contract`, `types`, `errors`
and `registry`; a provider is named in configuration and built by its factory.
"""
