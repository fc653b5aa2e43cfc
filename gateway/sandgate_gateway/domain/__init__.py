"""Frozen values of a tool call, with no input or output: what is asked, by whom, what was decided, how it ended.

Everything in the gateway may import this package; it imports nothing of ours.
"""
