"""Admissions: signed tickets for calls that run in the agent's own process.

Values, their encoding, and the keys that sign them; no pipeline and no transport. It uses `domain` and `errors` only.
"""
