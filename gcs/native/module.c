/* The module `gcs.native._compiled`: what a crawl does most often, in C. _compiled.pyi says what each does. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "bytes.h"
#include "columns.h"
#include "links.h"
#include "lookup.h"
#include "memo.h"
#include "paragraphs.h"
#include "tags.h"

static PyMethodDef methods[] = {
    {"links_in", links_in, METH_VARARGS, "The links of a page."},
    {"tags_in", tags_in, METH_VARARGS, "What the tags of a page say."},
    {"resolve_links", resolve_links, METH_VARARGS, "What links mean."},
    {"pack_columns", pack_columns, METH_O, "Rows of texts, by columns."},
    {"repeated_in", repeated_in, METH_O, "Which texts were there before."},
    {"spread_texts", spread_texts, METH_VARARGS, "All texts of a column, one after the other."},
    {"utf8_end", utf8_end, METH_O, "Where valid UTF-8 ends."},
    {"shape_of", shape_of, METH_VARARGS, "What a page has in common with others of its template."},
    {NULL, NULL, 0, NULL},
};

static int
fill(PyObject *module)
{
    if (PyModule_AddType(module, &Lookup_Type) < 0 || PyModule_AddType(module, &Memo_Type) < 0) {
        return -1;
    }
    return PyModule_AddType(module, &Paragraphs_Type);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "gcs.native._compiled",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__compiled(void)
{
    return PyModuleDef_Init(&definition);
}
