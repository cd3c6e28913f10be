"""
What Holdfast costs, beside the bare driver and beside its peers, on this machine.

``python -m benchmarks --help`` explains the command; ``README.md`` how to read the numbers.
"""
