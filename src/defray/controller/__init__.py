"""Pure: from a question, a target and the transcript to what must be bought, and at which price."""
