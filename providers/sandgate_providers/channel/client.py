"""The gateway's end of a line (under construction by the lead; the signatures below are fixed)."""
