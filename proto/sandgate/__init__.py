"""The wire contract of Sandgate: the only thing that an agent and a gateway share.

Here lives generated code alone, in a package a major version. Anything may import it; it imports nothing of ours.
"""
