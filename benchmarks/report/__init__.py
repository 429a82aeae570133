"""What is made of the result files, and of nothing else: the page, the tables, the pictures.

``python -m benchmarks.report`` writes them, ``--check`` says whether they are those of the results, ``--release`` also
whether the results may be released.
"""
