"""The `sandgate` command line: one file a command.

Commands parse, call, and print; what they do lives elsewhere and is imported inside the command, so that `--help`
answers at once. Exit codes: 0 fine, 1 it did not work, 2 the command line or the configuration is wrong.
"""
