"""What every room uses: errors, checks of arguments, text of objects, sizes, threads, confidence measures.

May import: nothing.
"""
