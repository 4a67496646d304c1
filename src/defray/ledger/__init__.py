"""Durable memory: an append-only, hash-chained log of releases and the folds of that log."""
