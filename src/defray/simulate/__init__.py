"""Workloads run against schemes without data: what a budget would have satisfied."""
