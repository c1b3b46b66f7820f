/* Saved queries by the signs of pages: see `gcs.core.profiles`. */

#ifndef GCS_LOOKUP_H
#define GCS_LOOKUP_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyTypeObject Lookup_Type;

#endif
