"""Pure: from SQL text to a canonical question, and from its cells back to SQL of a dialect."""
