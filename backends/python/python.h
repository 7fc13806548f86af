/* SPDX-License-Identifier: Apache-2.0 */
/* python.h - what the files of this plugin share: the adapters found, CPython's functions, and the
 * conversion of operands. All calls come from one thread, which holds the GIL from the start. */
#ifndef ATTN_PYTHON_H
#define ATTN_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

/* --- adapters.c: what there is, from the listing of folders alone; Python is not started --- */

/* One for each instance of slots_template.h, and no more than the harness lists of a plugin. */
#define ATTN_ADAPTERS_MAX 16

/* Options of one adapter, `device` of those on a GPU included. */
#define ATTN_ADAPTER_OPTIONS_MAX 4

struct attn_adapter {
    char name[32]; /* of the file, and of the backend */
    char path[4096];
    char description[128];
    uint32_t exactness; /* enum attn_exactness */
    char device[16];    /* what DEVICE says; "": the host */
    uint32_t n_options;
    struct attn_option_spec options[ATTN_ADAPTER_OPTIONS_MAX];
    char text[ATTN_ADAPTER_OPTIONS_MAX][4][128]; /* that options point to */
};

bool attn_adapter_on_device(const struct attn_adapter *adapter);

/* Fills `adapters` from the folders of ATTNBENCH_PYTHON_ADAPTERS (joined by ':'), then from the one
 * beside the plugin; the first of a name counts. ATTNBENCH_PYTHON_BACKENDS, where set, lists the
 * names that are wanted. A file that cannot be offered is told of on stderr. Returns how many. */
uint32_t attn_adapters_find(struct attn_adapter adapters[ATTN_ADAPTERS_MAX]);

/* The folder `python` beside the plugin. Returns 0, or -1. */
int attn_python_folder(char *path, size_t size);

/* --- interpreter.c: CPython, in whose process this runs --- */

typedef struct attn_py_object PyObject;

/* Only functions of the stable ABI, as CPython's documentation declares them ("Stable Application
 * Binary Interface"), so that any Python 3 since 3.8 will do. */
struct attn_python {
    PyObject *(*ImportModule)(const char *name);
    PyObject *(*GetAttr)(PyObject *object, const char *name);
    PyObject *(*CallObject)(PyObject *callable, PyObject *args);
    PyObject *(*CallFunction)(PyObject *callable, const char *format, ...);
    PyObject *(*CallMethod)(PyObject *object, const char *name, const char *format, ...);
    PyObject *(*BuildValue)(const char *format, ...);
    int (*ParseTuple)(PyObject *args, const char *format, ...);
    void (*IncRef)(PyObject *object);
    void (*DecRef)(PyObject *object);
    PyObject *(*NewTuple)(intptr_t size);
    int (*SetTupleItem)(PyObject *tuple, intptr_t at, PyObject *stolen);
    PyObject *(*TupleItem)(PyObject *tuple, intptr_t at);
    intptr_t (*TupleSize)(PyObject *tuple);
    PyObject *(*LongFrom)(long long value);
    long long (*LongAs)(PyObject *object);
    double (*FloatAs)(PyObject *object);
    PyObject *(*NewFunction)(void *definition, PyObject *self, PyObject *module);
    PyObject *(*NewCapsule)(void *pointer, const char *name, void (*destructor)(PyObject *));
    void *(*CapsulePointer)(PyObject *capsule, const char *name);
    int (*CapsuleIs)(PyObject *capsule, const char *name);
    PyObject *(*ErrorOccurred)(void);
    void (*PrintError)(int set_sys_last);
    void (*ClearError)(void);
    void (*SetError)(PyObject *type, const char *text);
    PyObject *(*NoMemory)(void);
    PyObject **BufferError; /* the variable that holds the class */
    PyObject *None;
};

extern struct attn_python py;

/* Finds CPython and imports attnbench_python, whose functions `helper` has. Does so once a process;
 * what failed then is answered again. ATTN_OK, or ATTN_NO_DEVICE with the reason.
 */
int attn_python_start(PyObject **helper, char *why, size_t size);

/* --- operands.c: problems and tensors for Python --- */

/* New references; NULL with a Python error set. */
PyObject *attn_python_problem(const struct attn_problem *problem);
PyObject *attn_python_tensors(const struct attn_tensor *tensors, uint32_t n);
/* (threads, index of the device or -1, ((key, value), ...) of the options that were given) */
PyObject *attn_python_services(const struct attn_services *services, int device);

/* --- dlpack.c: functions that attnbench_python is given --- */

/* Sets attnbench_python.export_tensor and .copy_from. Returns 0, or -1 with a Python error set. */
int attn_python_offer(PyObject *helper);

/* --- plan.c: the slots behind the table, each for one adapter --- */

struct attn_python_plan {
    PyObject *helper; /* borrowed: it lives as long as the process */
    PyObject *object;
    const struct attn_services *services;
    void *queue;      /* of adapters on a device: marks on its default stream; else NULL */
    uint32_t runs;    /* since the last wait */
    uint32_t unseen;  /* waits in a row after which most of the work was still to come */
    char source[256]; /* of numerics, for as long as the plan */
};

/* Reads an answer (code, sentence, ...). If the code is ATTN_OK, *made becomes a new reference to
 * its third element. Drops the answer. */
int attn_python_judge(PyObject *answer, PyObject **made, char *why, size_t size);

int attn_python_probe(const struct attn_adapter *adapter, const struct attn_services *services,
                      char *why, size_t size);
void attn_python_version(const struct attn_adapter *adapter, char *text, size_t size);
int attn_python_supports(const struct attn_adapter *adapter, const struct attn_problem *problem,
                         const struct attn_services *services, char *why, size_t size);
int attn_python_create(const struct attn_adapter *adapter, const struct attn_problem *problem,
                       const struct attn_services *services, void **plan, char *why, size_t size);
void attn_python_numerics(const void *plan, struct attn_numerics *numerics);
int attn_python_bind(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors,
                     void **binding, char *why, size_t size);
int attn_python_run(void *binding, char *why, size_t size);
void attn_python_release(void *binding);
void attn_python_describe(const void *plan, char *text, size_t size);
void attn_python_destroy(void *plan);

/* --- device.c: the slots of adapters on a device, in place of those above or beside them --- */

int attn_python_device_bind(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors,
                            void **binding, char *why, size_t size);
int attn_python_device_run(void *binding, char *why, size_t size);
int attn_python_device_enqueue(void *binding, char *why, size_t size);
int attn_python_device_wait(void *binding, char *why, size_t size);
int attn_python_device_time(void *binding, double *ns, char *why, size_t size);
int attn_python_device_fetch(void *binding, char *why, size_t size);
void attn_python_device_release(void *binding);
void attn_python_device_ask(struct attn_device *device);

#endif
