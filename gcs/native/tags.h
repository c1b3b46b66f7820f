/* The two passes over a page that Python calls; see tags.c and __init__.pyi. */

#ifndef GCS_TAGS_H
#define GCS_TAGS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *links_in(PyObject *module, PyObject *args);
PyObject *tags_in(PyObject *module, PyObject *args);

#endif
