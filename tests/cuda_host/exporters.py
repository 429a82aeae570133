"""Arrays on a device as torch, CuPy and JAX export them, for tests on the fake driver."""

import ctypes

from arcbeam.arrays.batches import InputSpec
from arcbeam.arrays.on_device import as_device_inputs

I32, I64, U8, U16, U32, U64, P = (
    ctypes.c_int32, ctypes.c_int64, ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p,
)  # fmt: skip


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", P), ("device_type", I32), ("device_id", I32), ("ndim", I32), ("code", U8), ("bits", U8),
        ("lanes", U16), ("shape", ctypes.POINTER(I64)), ("strides", ctypes.POINTER(I64)), ("byte_offset", U64),
    ]  # fmt: skip


DELETER = ctypes.CFUNCTYPE(None, P)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", P), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", U32),
        ("minor", U32),
        ("context", P),
        ("deleter", DELETER),
        ("flags", U64),
        ("tensor", Tensor),
    ]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [P, ctypes.c_char_p, P]
capsule_name = ctypes.pythonapi.PyCapsule_GetName
capsule_name.restype, capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]

CODES = {"float32": (2, 32), "float16": (2, 16), "float64": (2, 64), "bfloat16": (4, 16), "int32": (0, 32)}


class Exporter:
    """An array on a device with DLPack; strides in values."""

    def __init__(self, shape, strides=None, dtype="float32", address=0x10000, device=(2, 0), offset=0, major=None):
        self.shape, self.strides, self.dtype, self.device = shape, strides, dtype, device
        self.address, self.offset, self.major = address, offset, major
        self.released, self.streams, self.capsules = 0, [], []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        self.deleter = DELETER(self._release)
        self.managed = one = Managed() if self.major is None else Versioned(self.major, 0)
        one.tensor = self.tensor()
        one.deleter = self.deleter
        self.name = b"dltensor" if self.major is None else b"dltensor_versioned"
        capsule = new_capsule(ctypes.addressof(one), self.name, None)
        self.capsules.append(capsule)
        return capsule

    def tensor(self):
        self.held = [(I64 * 9)(*self.shape), (I64 * 9)(*(self.strides or ()))]
        shape, strides = [ctypes.cast(numbers, ctypes.POINTER(I64)) for numbers in self.held]
        code, bits = CODES[self.dtype]
        strides = strides if self.strides else None
        return Tensor(self.address, *self.device, len(self.shape), code, bits, 1, shape, strides, self.offset)

    def _release(self, _):
        self.released += 1


class OldExporter(Exporter):
    """From before version 1 of the protocol."""

    def __dlpack__(self, *, stream=None):
        return super().__dlpack__(stream=stream)


class Exchange(ctypes.Structure):
    """The C functions of a type of arrays."""

    DESCRIBE = ctypes.PYFUNCTYPE(I32, ctypes.py_object, ctypes.POINTER(Tensor))
    STREAM = ctypes.PYFUNCTYPE(I32, I32, I32, ctypes.POINTER(P))
    _fields_ = [
        ("major", U32), ("minor", U32), ("older", P), ("make_tensor", P), ("export_array", P), ("make_array", P),
        ("describe", DESCRIBE), ("current_stream", STREAM),
    ]  # fmt: skip


def exchanged(current=2, major=1, older=None, name=b"dlpack_exchange_api", fails=(), lacks=()):
    """A type of exporters with C functions, which `requested` lists; `current` is the stream on which it works now."""

    def describe(array, into):
        kind.requested.append("describe")
        into[0] = array.tensor()
        return -1 if "describe" in fails else 0

    def current_stream(kind_of_device, ordinal, into):
        kind.requested.append(("stream", kind_of_device, ordinal))
        into[0] = current
        return -1 if "current_stream" in fails else 0

    table = Exchange(major, 0, ctypes.addressof(older.table) if older else None)
    table.current_stream = Exchange.STREAM(current_stream)
    if "describe" not in lacks:
        table.describe = Exchange.DESCRIBE(describe)
    capsule = new_capsule(ctypes.addressof(table), name, None)
    kept = {"requested": [], "table": table, "older": older, "name": name, "__dlpack_c_exchange_api__": capsule}
    kind = type("Exchanged", (Exporter,), kept)
    return kind


class InterfaceOnly:
    def __init__(self, **said):
        defaults = {"shape": (2, 3, 4), "typestr": "<f4", "data": (0x20000, True), "version": 3}
        self.__cuda_array_interface__ = defaults | said


class Reader:
    """A stream that goes with its test, though pytest keeps the fixture."""

    def __init__(self, stream):
        self.stream = stream

    def __getattr__(self, name):
        return getattr(self.stream, name)


def import_all(log_probs, reader, lengths=None, columns=4, exact=True, **options):
    return as_device_inputs(log_probs, lengths, InputSpec(columns, exact), reader=reader, **options)
