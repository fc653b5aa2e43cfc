"""The life of sandboxes, whichever provider makes them: one for each thread, leased by calls, parked, reaped, ended.

It knows no tool, no stage and no transport. It uses `domain`, `errors` and the provider's contract, types and errors.
"""
