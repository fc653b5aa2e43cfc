"""What each tool does with a channel: bash, ls, read_file, write_file, str_replace, glob, grep.

One file a kind of tool. A tool is transport-free and policy-free: it gets checked arguments and an open channel, and
gives a result. It may see `domain`, `errors` and the provider's contract, types and errors; nothing else of ours.
"""
