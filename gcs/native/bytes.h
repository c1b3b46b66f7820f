/* Questions about all bytes of a page; see bytes.c and _compiled.pyi. */

#ifndef GCS_BYTES_H
#define GCS_BYTES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *utf8_end(PyObject *module, PyObject *body);
PyObject *shape_of(PyObject *module, PyObject *args);

#endif
