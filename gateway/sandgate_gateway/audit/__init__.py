"""The record of what was decided and what ran: its events, its file, and reading it back.

Nothing in here decides anything, and nothing outside writes an audit line by hand: a stage annotates, the recorder
makes an event, `AuditLog` alone stores it. May import `domain` and `errors` only.
"""
