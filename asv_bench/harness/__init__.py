"""Modules that the suite, the report, the sweep and the figures share."""
