/* SPDX-License-Identifier: Apache-2.0 */
/* interpreter.c - finds the functions of the Python whose process this is.
 *
 * The worker of this plugin (python.worker) is a Python that has opened the harness's worker as a
 * library, so CPython's functions are in the process, whether the interpreter has a library of its
 * own or not. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "python.h"

struct attn_python py;

#define AT(member) offsetof(struct attn_python, member)

static const struct {
    const char *name;
    size_t at;
} symbols[] = {
    {"PyImport_ImportModule", AT(ImportModule)},
    {"PyObject_GetAttrString", AT(GetAttr)},
    {"PyObject_CallObject", AT(CallObject)},
    {"PyObject_CallFunction", AT(CallFunction)},
    {"PyObject_CallMethod", AT(CallMethod)},
    {"Py_BuildValue", AT(BuildValue)},
    {"PyArg_ParseTuple", AT(ParseTuple)},
    {"Py_IncRef", AT(IncRef)},
    {"Py_DecRef", AT(DecRef)},
    {"PyTuple_New", AT(NewTuple)},
    {"PyTuple_SetItem", AT(SetTupleItem)},
    {"PyTuple_GetItem", AT(TupleItem)},
    {"PyTuple_Size", AT(TupleSize)},
    {"PyLong_FromLongLong", AT(LongFrom)},
    {"PyLong_AsLongLong", AT(LongAs)},
    {"PyFloat_AsDouble", AT(FloatAs)},
    {"PyCFunction_NewEx", AT(NewFunction)},
    {"PyCapsule_New", AT(NewCapsule)},
    {"PyCapsule_GetPointer", AT(CapsulePointer)},
    {"PyCapsule_IsValid", AT(CapsuleIs)},
    {"PyErr_Occurred", AT(ErrorOccurred)},
    {"PyErr_PrintEx", AT(PrintError)},
    {"PyErr_Clear", AT(ClearError)},
    {"PyErr_SetString", AT(SetError)},
    {"PyErr_NoMemory", AT(NoMemory)},
    {"PyExc_BufferError", AT(BufferError)},
    {"_Py_NoneStruct", AT(None)},
};

static int resolve(char *why, size_t size)
{
    const char *reason = getenv("ATTNBENCH_NO_PYTHON");
    if (reason && *reason) {
        snprintf(why, size, "%.250s", reason);
        return -1;
    }
    for (size_t s = 0; s < sizeof(symbols) / sizeof(symbols[0]); s++) {
        void *address = dlsym(RTLD_DEFAULT, symbols[s].name);
        if (!address) {
            snprintf(why, size,
                     "this worker is no Python (it has no %s): python.worker beside the "
                     "plugin starts one",
                     symbols[s].name);
            return -1;
        }
        memcpy((char *)&py + symbols[s].at, &address, sizeof(address));
    }
    return 0;
}

/* What the worker has set since Python read the environment. */
static int tell_environment(PyObject *helper)
{
    const char *folder = getenv("TMPDIR");
    PyObject *done = folder ? py.CallMethod(helper, "environment", "ss", "TMPDIR", folder) : NULL;
    if (done)
        py.DecRef(done);
    return folder && !done ? -1 : 0;
}

static int start(PyObject **helper, char *why, size_t size)
{
    if (resolve(why, size) != 0)
        return ATTN_NO_DEVICE;
    *helper = py.ImportModule("attnbench_python");
    if (*helper && attn_python_offer(*helper) == 0 && tell_environment(*helper) == 0)
        return ATTN_OK;
    *helper = NULL;
    if (py.ErrorOccurred())
        py.PrintError(0);
    snprintf(why, size,
             "attnbench_python.py next to the plugin cannot be imported; the log says why");
    return ATTN_NO_DEVICE;
}

int attn_python_start(PyObject **helper, char *why, size_t size)
{
    static bool tried;
    static int result;
    static char reason[256];
    static PyObject *imported;
    if (!tried)
        result = start(&imported, reason, sizeof(reason));
    tried = true;
    *helper = imported;
    if (result != ATTN_OK)
        snprintf(why, size, "%s", reason);
    return result;
}
