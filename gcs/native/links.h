/* From links as pages write them to what is remembered of them; see links.c and __init__.pyi. */

#ifndef GCS_LINKS_H
#define GCS_LINKS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *resolve_links(PyObject *module, PyObject *args);

#endif
