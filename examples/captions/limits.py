"""What one client can take of the server. One that wants more gets an error that says so."""

from typing import NamedTuple


class Limits(NamedTuple):
    """By default for two cores and a model of the size of QuartzNet."""

    clients: int = 16  # of live audio at once
    waiting_seconds: float = 10.0  # of a client's audio that has not been recognised
    reading_seconds: float = 10.0  # in which a client must read a caption
    idle_seconds: float = 60.0  # in which a client must send something, and the whole of a file
    uploads: int = 4  # files that are transcribed at once
    waiting_uploads: int = 60  # files that wait for their turn
    retry_seconds: int = 10  # after which a client whose file cannot even wait may come again
    upload_bytes: int = 25 * 2**20  # OpenAI's limit
    upload_seconds: float = 2 * 3600.0  # of a recording, which compression can make small
