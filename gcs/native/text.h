/* From bytes of a page to texts; what needs a table of character references is left to Python. */

#ifndef GCS_TEXT_H
#define GCS_TEXT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "markup.h"

/* The value of an attribute: a str, or bytes if it has references to be resolved. */
PyObject *value_of(span_t value);

/* A text between tags, without those inside of it, in single spaces and cut to `limit` characters: a str, or
   bytes if it has references to be resolved, without tags but as written otherwise. */
PyObject *line_of(span_t text, Py_ssize_t limit);

#endif
