/* Questions about all bytes of a page: whether they are UTF-8, and what is left of them without what differs
   between the pages of a template (`gcs.core.traps`). */

#define _GNU_SOURCE /* memmem */

#include "bytes.h"

#include <stdint.h>

#include "markup.h"

/* How long the character is that begins here, by its first two bytes; 0 for none. */
static Py_ssize_t
length_of(at_t at, at_t end)
{
    unsigned char first = *at, second = at + 1 < end ? at[1] : 0x80;
    bool follows = second >= 0x80 && second <= 0xbf;
    if (first >= 0xc2 && first <= 0xdf) {
        return follows ? 2 : 0;
    }
    if (first >= 0xe0 && first <= 0xef) {
        if (at + 1 < end && ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f))) {
            return 0;
        }
        return follows ? 3 : 0;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        if (at + 1 < end && ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))) {
            return 0;
        }
        return follows ? 4 : 0;
    }
    return 0;
}

PyObject *
utf8_end(PyObject *Py_UNUSED(module), PyObject *body)
{
    if (!PyBytes_Check(body)) {
        PyErr_SetString(PyExc_TypeError, "a body is bytes");
        return NULL;
    }
    at_t begin = (at_t)PyBytes_AS_STRING(body), end = begin + PyBytes_GET_SIZE(body), at = begin;
    while (at < end) {
        uint64_t word;
        if (end - at >= 8 && (memcpy(&word, at, 8), (word & 0x8080808080808080u) == 0)) {
            at += 8;
            continue;
        }
        if (*at < 0x80) {
            at++;
            continue;
        }
        Py_ssize_t length = length_of(at, end);
        for (Py_ssize_t i = 2; i < length && at + i < end; i++) {
            if ((at[i] & 0xc0) != 0x80) {
                length = 0;
            }
        }
        if (length == 0) {
            return PyLong_FromLong(-1);
        }
        if (length > end - at) {
            break;
        }
        at += length;
    }
    return PyLong_FromSsize_t(at - begin);
}

/* (?:"[^"]*"|'[^']*') after "href=", at which `at` is: where it ends; NULL if there is none. `none` says which
   quotes do not come any more, so that nothing is looked for twice. */
static at_t
skip_href(at_t at, at_t end, bool none[2])
{
    if (end - at < 6 || (at[5] != '"' && at[5] != '\'')) {
        return NULL;
    }
    bool *is_none = &none[at[5] == '"'];
    at_t quote = *is_none ? end : find(at + 6, end, at[5]);
    *is_none = quote >= end;
    return quote < end ? quote + 1 : NULL;
}

PyObject *
shape_of(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *content, *path;
    if (!PyArg_ParseTuple(args, "SS:shape_of", &content, &path)) {
        return NULL;
    }
    size_t size = (size_t)PyBytes_GET_SIZE(content), length = (size_t)PyBytes_GET_SIZE(path);
    unsigned char *without_path = PyMem_Malloc(size + 1);
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (without_path == NULL || made == NULL) {
        PyMem_Free(without_path);
        Py_XDECREF(made);
        return PyErr_NoMemory();
    }
    at_t at = (at_t)PyBytes_AS_STRING(content), end = at + size;
    unsigned char *out = without_path;
    while (at < end) {
        at_t next = length > 1 ? memmem(at, (size_t)(end - at), PyBytes_AS_STRING(path), length) : NULL;
        at_t until = next == NULL ? end : next;
        memcpy(out, at, (size_t)(until - at));
        out += until - at;
        at = next == NULL ? end : next + length;
    }
    at = without_path;
    end = out;
    unsigned char *shaped = (unsigned char *)PyBytes_AS_STRING(made);
    out = shaped;
    bool none[2] = {false, false};
    while (at < end) {
        at_t href = memmem(at, (size_t)(end - at), "href=", 5);
        at_t after = href == NULL ? NULL : skip_href(href, end, none);
        at_t until = href == NULL ? end : after == NULL ? href + 5 : href;
        memcpy(out, at, (size_t)(until - at));
        out += until - at;
        at = after == NULL ? until : after;
    }
    /* A loop of its own: compilers make one step of many bytes of it. */
    for (unsigned char *byte = shaped; byte < out; byte++) {
        *byte = (unsigned char)(*byte - '0') < 10 ? '0' : *byte;
    }
    PyMem_Free(without_path);
    _PyBytes_Resize(&made, out - shaped);
    return made;
}
