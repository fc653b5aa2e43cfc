"""The border with the wire: the only part of the gateway that imports grpc and `sandgate.v1`.

One servicer a service, plus the boundary that all requests pass, the codec, and the only builder of statuses. Proto
messages never leave this package.
"""
