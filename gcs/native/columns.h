/* Texts by columns, on their way to the journal and from there; see columns.c and _compiled.pyi. */

#ifndef GCS_COLUMNS_H
#define GCS_COLUMNS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *pack_columns(PyObject *module, PyObject *columns);
PyObject *repeated_in(PyObject *module, PyObject *texts);
PyObject *spread_texts(PyObject *module, PyObject *args);

#endif
