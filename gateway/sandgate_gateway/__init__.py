"""The gateway: decide, run, trim, record; and the `sandgate` command line.

Layers, outer to inner: `__main__`, `cli`, `bootstrap`, `server`, `rpc`, `pipeline`, then `tools`, `sandboxes`, `audit`
and `ledger` side by side and unaware of each other, then `domain`, then `errors`. Only `bootstrap` builds concrete
objects; only `rpc` and `server` know grpc and `sandgate.v1`.
"""
