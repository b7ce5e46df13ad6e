"""Benchmarks against the way people do it now, side by side in one run; ``pbim bench NAME`` prints them."""
