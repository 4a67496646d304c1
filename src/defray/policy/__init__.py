"""Pure: who gets how much of a scarce budget.  The engine and the simulator run these same values."""
