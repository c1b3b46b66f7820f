/* The paragraphs of a page, one after another; see paragraphs.c and _compiled.pyi. */

#ifndef GCS_PARAGRAPHS_H
#define GCS_PARAGRAPHS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyTypeObject Paragraphs_Type;

#endif
