"""The promise that a request runs once: what was asked under which id, and what was answered.

It knows requests, answers and tasks, and neither stages nor transport. It is used by `pipeline`; it uses `domain` and
`errors` only.
"""
