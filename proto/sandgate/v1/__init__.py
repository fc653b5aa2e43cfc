"""Messages and stubs of `sandgate.v1`, generated from the `.proto` files beside this one by `make gen`.

Never edit the generated files. The generator is pinned to the oldest protobuf line that we support.
"""
