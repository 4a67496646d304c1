"""The noise seam: exact discrete Gaussian draws on an integer lattice."""
