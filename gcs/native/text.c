/* See text.h. */

#include "text.h"

PyObject *
value_of(span_t value)
{
    Py_ssize_t size = (Py_ssize_t)size_of(value);
    if (size == 0) {
        return PyUnicode_New(0, 0);
    }
    const char *start = (const char *)value.start;
    if (memchr(start, '&', (size_t)size) != NULL) {
        return PyBytes_FromStringAndSize(start, size);
    }
    return PyUnicode_DecodeUTF8(start, size, "replace");
}

/* A decoded text in single spaces, cut; steals the reference. */
static PyObject *
tidied(PyObject *text, Py_ssize_t limit)
{
    Py_ssize_t size = PyUnicode_GET_LENGTH(text);
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    bool is_tidy = size <= limit;
    bool after_space = true; /* so that one at the beginning is too many */
    for (Py_ssize_t i = 0; is_tidy && i < size; i++) {
        Py_UCS4 each = PyUnicode_READ(kind, data, i);
        bool space = Py_UNICODE_ISSPACE(each);
        is_tidy = !space || (each == ' ' && !after_space);
        after_space = space;
    }
    if (is_tidy && (size == 0 || !after_space)) {
        return text;
    }
    Py_UCS4 *kept = PyMem_New(Py_UCS4, size < limit ? size : limit);
    if (kept == NULL) {
        Py_DECREF(text);
        return PyErr_NoMemory();
    }
    Py_ssize_t count = 0;
    bool is_due = false;
    for (Py_ssize_t i = 0; i < size && count < limit; i++) {
        Py_UCS4 each = PyUnicode_READ(kind, data, i);
        if (Py_UNICODE_ISSPACE(each)) {
            is_due = count > 0;
            continue;
        }
        if (is_due) {
            if (count + 1 >= limit) {
                break; /* a space would be the last */
            }
            kept[count++] = ' ';
            is_due = false;
        }
        kept[count++] = each;
    }
    Py_DECREF(text);
    PyObject *made = PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND, kept, count);
    PyMem_Free(kept);
    return made;
}

PyObject *
line_of(span_t text, Py_ssize_t limit)
{
    unsigned char small[512];
    unsigned char *stripped = NULL;
    size_t size = size_of(text);
    if (size > 0 && memchr(text.start, '<', size) != NULL) {
        stripped = size <= sizeof small ? small : PyMem_Malloc(size);
        if (stripped == NULL) {
            return PyErr_NoMemory();
        }
        size = strip(text, stripped, skip_no_text);
        text.start = stripped;
        text.end = stripped + size;
    }
    PyObject *made;
    const char *start = (const char *)text.start;
    if (size > 0 && memchr(start, '&', size) != NULL) {
        made = PyBytes_FromStringAndSize(start, (Py_ssize_t)size);
    } else {
        made = size == 0 ? PyUnicode_New(0, 0) : PyUnicode_DecodeUTF8(start, (Py_ssize_t)size, "replace");
        if (made != NULL) {
            made = tidied(made, limit);
        }
    }
    if (stripped != NULL && stripped != small) {
        PyMem_Free(stripped);
    }
    return made;
}
