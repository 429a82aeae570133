"""What streams of all decoders are to the code that takes their chunks: one loop without Python, for there may be
thousands."""


cdef class AnyStream:
    """A stream of some decoder, which is its `_decoder`."""


def checked_streams(streams, kind, decoder):
    """A list of them; None if something is no stream of this class, of this decoder, or is there twice."""
    found = list(streams)
    for item in found:
        if not isinstance(item, kind) or (<AnyStream?> item)._decoder is not decoder:
            return None
    return found if len(set(found)) == len(found) else None
