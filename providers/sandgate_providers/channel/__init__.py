"""The open line into a sandbox: frames, their authentication, and the gateway's end of it.

The other end is `sandgate_providers.runner`. Whoever offers a duplex byte stream (`transport.ByteStream`) gets a
channel.
"""
