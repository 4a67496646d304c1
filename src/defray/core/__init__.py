"""Pure values: amounts, cells, the public domain, targets, the contract, answers."""
