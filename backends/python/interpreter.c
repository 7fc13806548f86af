/* SPDX-License-Identifier: Apache-2.0 */
/* interpreter.c - finds a Python, opens its shared library and starts it.
 *
 * The library is opened with RTLD_GLOBAL and never linked: extension modules do not name it among
 * their needs and take its symbols from the process, which a library that this plugin linked, and
 * that the harness opens with RTLD_LOCAL, would not give them. */
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "python.h"

struct attn_python py;

#define AT(member) offsetof(struct attn_python, member)

static const struct {
    const char *name;
    size_t at;
} symbols[] = {
    {"Py_InitializeEx", AT(InitializeEx)},
    {"Py_DecodeLocale", AT(DecodeLocale)},
    {"PyImport_ImportModule", AT(ImportModule)},
    {"PySys_GetObject", AT(GetSysObject)},
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
    {"PyUnicode_DecodeFSDefault", AT(DecodePath)},
    {"PyList_Insert", AT(InsertList)},
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

/* ATTNBENCH_PYTHON, else the virtual environment next to the plugin, else the distribution's. */
static int find_program(char path[PATH_MAX], char *why, size_t size)
{
    const char *given = getenv("ATTNBENCH_PYTHON");
    if (given && given[0]) {
        snprintf(path, PATH_MAX, "%s", given);
    } else if (attn_python_folder(path, PATH_MAX - sizeof("/venv/bin/python3")) != 0 ||
               access(strcat(path, "/venv/bin/python3"), X_OK) != 0) {
        snprintf(path, PATH_MAX, "/usr/bin/python3");
    }
    if (access(path, X_OK) == 0)
        return 0;
    snprintf(why, size, "no Python at %.200s (ATTNBENCH_PYTHON names another)", path);
    return -1;
}

/* The version is in the name of the file that all links end at, python3.X; its library lies in the
 * folder lib beside it, or where the system's do. */
static void *open_library(const char *program, char *why, size_t size)
{
    char real[PATH_MAX], path[PATH_MAX + 64];
    char *slash = realpath(program, real) ? strrchr(real, '/') : NULL;
    int minor;
    if (!slash || sscanf(slash, "/python3.%d", &minor) != 1) {
        snprintf(why, size, "%.200s is not named python3.X, so its library is not known", program);
        return NULL;
    }
    *slash = 0;
    snprintf(path, sizeof(path), "%s/../lib/libpython3.%d.so.1.0", real, minor);
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        library = dlopen(strrchr(path, '/') + 1, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        snprintf(why, size, "no libpython3.%d.so.1.0 for %.160s (Debian: package libpython3.%d)",
                 minor, program, minor);
    return library;
}

static int resolve(void *library, char *why, size_t size)
{
    for (size_t s = 0; s < sizeof(symbols) / sizeof(symbols[0]); s++) {
        void *address = dlsym(library, symbols[s].name);
        if (!address) {
            snprintf(why, size, "libpython has no %s", symbols[s].name);
            return -1;
        }
        memcpy((char *)&py + symbols[s].at, &address, sizeof(address));
    }
    return 0;
}

/* By the program's name Python finds the packages of its virtual environment. */
static void initialise(void *library, const char *program)
{
    void (*set_name)(const wchar_t *);
    void *address = dlsym(library, "Py_SetProgramName");
    memcpy(&set_name, &address, sizeof(set_name));
    wchar_t *name = py.DecodeLocale(program, NULL);
    if (set_name && name)
        set_name(name); /* keeps the pointer */
    /* Packages were compiled when they were installed; adapters are small. */
    setenv("PYTHONDONTWRITEBYTECODE", "1", 0);
    /* Signals are the harness's. */
    py.InitializeEx(0);
}

static PyObject *import_helper(void)
{
    char folder[PATH_MAX];
    PyObject *path = py.GetSysObject("path"); /* borrowed */
    if (!path || attn_python_folder(folder, sizeof(folder)) != 0)
        return NULL;
    PyObject *item = py.DecodePath(folder);
    if (!item || py.InsertList(path, 0, item) != 0)
        return NULL;
    py.DecRef(item);
    PyObject *helper = py.ImportModule("attnbench_python");
    return helper && attn_python_offer(helper) == 0 ? helper : NULL;
}

static int start(PyObject **helper, char *why, size_t size)
{
    char program[PATH_MAX];
    if (find_program(program, why, size) != 0)
        return ATTN_NO_DEVICE;
    void *library = open_library(program, why, size);
    if (!library || resolve(library, why, size) != 0)
        return ATTN_NO_DEVICE;
    initialise(library, program);
    *helper = import_helper();
    if (*helper)
        return ATTN_OK;
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
