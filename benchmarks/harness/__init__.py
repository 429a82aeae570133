"""What every run needs: finds experiments, takes time in turns, writes result files, draws curves.

Here are the registry of experiments, timing, seeds, progress on a terminal, the result files with what their header
says of the machine and the code, and plots. Nothing here knows a decoder or a data set.
"""
