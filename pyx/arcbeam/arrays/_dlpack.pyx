"""Takes a DLPack capsule over from its producer, and gives it back when the last reader is gone."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_SetName
from libc.stdint cimport uint64_t, uintptr_t

_TYPES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}


cdef class Import:
    """Takes a capsule over and frees it with this object; strides in values. TypeError unless it is a fresh capsule."""

    cdef Managed* managed
    cdef Versioned* versioned
    cdef readonly uint64_t address
    cdef readonly tuple shape
    cdef readonly tuple strides
    cdef readonly str dtype
    cdef readonly tuple device

    def __cinit__(self, capsule):
        cdef Tensor* tensor
        cdef Versioned* versioned
        if PyCapsule_IsValid(capsule, b"dltensor_versioned"):
            versioned = <Versioned*> PyCapsule_GetPointer(capsule, b"dltensor_versioned")
            if versioned.major != 1:  # the capsule still belongs to its producer
                raise TypeError(f"expected DLPack of version 1, got {versioned.major}.{versioned.minor}")
            PyCapsule_SetName(capsule, b"used_dltensor_versioned")
            self.versioned = versioned
            tensor = &versioned.tensor
        elif PyCapsule_IsValid(capsule, b"dltensor"):
            self.managed = <Managed*> PyCapsule_GetPointer(capsule, b"dltensor")
            PyCapsule_SetName(capsule, b"used_dltensor")
            tensor = &self.managed.tensor
        else:
            raise TypeError("expected a DLPack capsule that has not been taken over before")
        self.address = <uintptr_t> tensor.data + tensor.byte_offset
        self.shape = tuple([tensor.shape[i] for i in range(tensor.ndim)])
        if tensor.strides != NULL:
            self.strides = tuple([tensor.strides[i] for i in range(tensor.ndim)])
        else:
            self.strides = _row_major(self.shape)
        if tensor.code == FLOAT_CODE and tensor.lanes == 1 and tensor.bits in (16, 32):
            self.dtype = "float32" if tensor.bits == 32 else "float16"
        else:
            self.dtype = _name_of(tensor.code, tensor.bits, tensor.lanes)
        self.device = (tensor.device_type, tensor.device_id)

    def __dealloc__(self):
        if self.managed != NULL and self.managed.deleter != NULL:
            self.managed.deleter(self.managed)
        if self.versioned != NULL and self.versioned.deleter != NULL:
            self.versioned.deleter(self.versioned)


cdef Exchange* exchange_of(kind) except? NULL:
    """The C functions that a type publishes itself, as a subclass may export in another way; NULL before version 1."""
    cdef Exchange* found
    capsule = kind.__dict__.get("__dlpack_c_exchange_api__")
    if not PyCapsule_IsValid(capsule, b"dlpack_exchange_api"):
        return NULL
    found = <Exchange*> PyCapsule_GetPointer(capsule, b"dlpack_exchange_api")
    while found != NULL and found.major != 1:
        found = found.older
    return found


cdef str _name_of(code, bits, lanes):
    kind = _TYPES.get(code, f"type {code} of ")
    return kind if kind == "bool" else f"{kind}{bits}" + (f"x{lanes}" if lanes != 1 else "")


cdef tuple _row_major(tuple shape):
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return tuple(strides)
