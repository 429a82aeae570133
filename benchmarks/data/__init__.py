"""What is decoded, and what it is decoded with: sets of log-probs, recordings, acoustic models, decoding graphs.

The sets themselves lie elsewhere: `datasets` says where they may be. The package ``data`` beside this one makes
those that are made.
"""
