"""Benchmarks against the way people do it now, side by side in one run; ``python -m benchmarks NAME`` prints them."""
