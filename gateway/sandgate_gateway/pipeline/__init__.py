"""The onion around each tool call: who may refuse it, what it runs on, what shapes its result, what records it.

One file a stage; `assemble` holds their order. Everything here is free of transport: nothing may import grpc or
`sandgate.v1`. It is used by `rpc`; it uses `ledger`, `admissions`, `sandboxes`, `tools`, `audit` and `domain`.
"""
