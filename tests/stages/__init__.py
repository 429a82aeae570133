"""The stages of the search on a GPU, each alone: kernels one frame long, beside the CPU twin's stages."""
