"""Launches of kernels of the benchmarks on the fake driver run in the emulator."""

from contextlib import contextmanager

from tests.cuda_host.emulated_gpu import EmulatedGpu, Entry


class Launches(EmulatedGpu):
    """
    Attributes
    ----------
    code : bytes
        The image of all kernels, for the driver.
    """

    def __init__(self, fake, monkeypatch, kernels):
        self.entries = {name: Entry(*of) for name, of in kernels.items()}
        super().__init__(fake, monkeypatch)
        self.threads = None
        lines = "".join(f"kernel {name} {entry.parameter_bytes}\n" for name, entry in self.entries.items())
        self.code = f"arch 9.0\n{lines}".encode() + b"\0"
        self.kept = []

    @property
    def launched(self):
        return [name for name, _ in self.launches]

    def keep(self, owner):
        """Gives the owner of handles back, which is emptied in the end: pytest holds on to what fixtures give."""
        self.kept.append(owner)
        return owner


@contextmanager
def launches(fake_library, monkeypatch, kernels):
    """Within it the driver has a device.

    kernels : by name their sources and the bytes of their parameters
    """
    gpu = Launches(fake_library, monkeypatch, kernels)
    yield gpu
    for owner in gpu.kept:
        vars(owner).clear()
    gpu.end()
    fake_library.stop()
