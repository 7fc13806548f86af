# SPDX-License-Identifier: Apache-2.0
"""standin - a library of arrays on the stand-in's device (standin_driver.c), as CuPy is on a GPU: it
takes operands by DLPack and starts work, which is done when somebody waits for it."""
import ctypes
import sys

import numpy as np

import attnbench_python

KIND = 2  # CUDA, in DLPack
lib = ctypes.CDLL("libcuda.so.1")
lib.standin_shadow.restype = ctypes.c_void_p
lib.standin_shadow.argtypes = ctypes.c_uint64, ctypes.c_size_t
lib.cuMemFree_v2.argtypes = (ctypes.c_uint64,)
pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_WORK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_long)
lib.standin_launch.argtypes = _WORK, ctypes.c_long, ctypes.c_int
_queued = {}


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int),
                ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


def on_host(tensor):
    """The shadow of an operand on the device, which libraries of the host read."""
    assert tensor.__dlpack_device__() == (KIND, 0), f"{tensor.role} is not on the device"
    capsule = tensor.__dlpack__(stream=1)
    found = _Tensor.from_address(pointer_of(capsule, b"dltensor"))
    assert (found.device_type, found.device_id) == (KIND, 0), f"the capsule of {tensor.role} says otherwise"
    dims = range(found.ndim)
    shape, strides = tuple(found.shape[d] for d in dims), tuple(found.strides[d] for d in dims)
    span = 0 if 0 in shape else (1 + sum((n - 1) * s for n, s in zip(shape, strides))) * found.bits // 8
    place = lib.standin_shadow(found.data, span) if span else found.data
    assert place is not None, f"{tensor.role} is in memory that was freed"
    return attnbench_python.Tensor(tensor.role, tensor.dtype, shape, strides, place)


def from_dlpack(tensor):
    """As an array of NumPy, bfloat16 as int16. Only work that was started may look at it."""
    tensor = on_host(tensor)
    return np.from_dlpack(tensor.viewed("int16") if tensor.dtype == "bfloat16" else tensor)


@_WORK
def _do(number):
    try:
        _queued.pop(number)()
        return 0
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1


def launch(work, apart=False):
    """`apart`: on a stream that the default stream does not wait for."""
    number = launch.number = launch.number + 1
    _queued[number] = work
    assert lib.standin_launch(_do, number, int(apart)) == 0


launch.number = 0


class Array:
    """An array on the device that is its own, with elements of `strides` if they are given."""

    def __init__(self, shape, dtype, strides=None):
        self.shape, self.dtype = tuple(shape), dtype
        self.strides = strides or tuple(int(np.prod(shape[a + 1:])) for a in range(len(shape)))
        code, bits = attnbench_python.DL_TYPES[dtype][1:]
        self.span = (1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides))) * bits // 8
        self.place, self.kind = ctypes.c_uint64(), (code, bits)
        assert lib.cuMemAlloc_v2(ctypes.byref(self.place), ctypes.c_size_t(self.span)) == 0

    @property
    def shadow(self):
        return attnbench_python.Tensor("out", self.dtype, self.shape, self.strides,
                                       lib.standin_shadow(self.place.value, self.span))

    @property
    def view(self):
        return np.from_dlpack(self.shadow)

    def __dlpack_device__(self):
        return KIND, 0

    def __dlpack__(self, stream=None):
        return attnbench_python.export_tensor(self.place.value, *self.kind, self.shape, self.strides,
                                              KIND, 0, 0, 0)

    def __del__(self):
        lib.cuMemFree_v2(self.place.value)
