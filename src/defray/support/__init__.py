"""What the transcript already says about a question: support models."""
