/* Rows of texts by columns, packed as `gcs.store.columns` says and spread again, and which of some texts were
   there before.

   What is unusual (columns of different lengths, what is no text, halves of surrogate pairs, no rows) is left
   to Python. Each column is measured before it is written, and nothing runs in between that could change it. */

#include "columns.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define MOST_COLUMNS 15 /* of which MessagePack says in one byte how many there are */
#define INSTEAD "\xef\xbf\xbd" /* U+FFFD, for a zero within a text */
#define LONGER 2               /* than the zero */

typedef struct {
    PyObject **texts; /* as many as there are rows, or one for all of them */
    Py_ssize_t count;
    size_t size; /* of what is written */
} column_t;

typedef struct {
    const char *at;
    size_t size;
} text_t;

/* The bytes of a text in UTF-8; -1 with an error if it has none. */
static int
utf8_of(PyObject *object, text_t *text)
{
    Py_ssize_t size;
    text->at = PyUnicode_AsUTF8AndSize(object, &size);
    text->size = (size_t)size;
    return text->at == NULL ? -1 : 0;
}

static size_t
zeros_in(text_t text)
{
    size_t count = 0;
    const char *end = text.at + text.size;
    for (const char *at = text.at; (at = memchr(at, 0, (size_t)(end - at))) != NULL; at++) {
        count++;
    }
    return count;
}

/* How long a column is when it is written, of which one text is enough if all are the same; -1 with an error. */
static int
measure(column_t *column)
{
    text_t first = {0}, text;
    bool differs = false;
    size_t size = 0;
    for (Py_ssize_t i = 0; i < column->count; i++) {
        if (utf8_of(column->texts[i], &text) < 0) {
            return -1;
        }
        if (i == 0) {
            first = text;
        }
        differs = differs || text.size != first.size || memcmp(text.at, first.at, text.size) != 0;
        size += text.size + LONGER * zeros_in(text);
        if (i == 0) {
            column->size = size;
        }
    }
    if (differs) {
        column->size = size + (size_t)column->count - 1;
    } else {
        column->count = 1;
    }
    return 0;
}

static char *
put_text(char *to, text_t text)
{
    const char *at = text.at, *end = text.at + text.size, *zero;
    while ((zero = memchr(at, 0, (size_t)(end - at))) != NULL) {
        memcpy(to, at, (size_t)(zero - at));
        to += zero - at;
        memcpy(to, INSTEAD, LONGER + 1);
        to += LONGER + 1;
        at = zero + 1;
    }
    memcpy(to, at, (size_t)(end - at));
    return to + (end - at);
}

/* A number of so many bytes, the highest first, behind the sign of what it is. */
static char *
put_number(char *to, unsigned char sign, size_t number, int bytes)
{
    *to++ = (char)sign;
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
        *to++ = (char)(number >> shift);
    }
    return to;
}

/* A number of MessagePack: one below `few` in the byte `small`, others behind `sign` or the next two signs. */
static char *
put_size(char *to, size_t size, size_t few, unsigned char small, unsigned char sign)
{
    if (size < few) {
        *to = (char)(small | size);
        return to + 1;
    }
    return size <= UINT8_MAX ? put_number(to, sign, size, 1)
           : size <= UINT16_MAX ? put_number(to, sign + 1, size, 2)
                                : put_number(to, sign + 2, size, 4);
}

static char *
put_column(char *to, const column_t *column)
{
    to = put_size(to, column->size, 32, 0xa0, 0xd9);
    for (Py_ssize_t i = 0; i < column->count; i++) {
        text_t text;
        if (utf8_of(column->texts[i], &text) < 0) {
            return NULL;
        }
        if (i > 0) {
            *to++ = 0;
        }
        to = put_text(to, text);
    }
    return to;
}

/* Whether a column is a text, or a list or tuple of some, as many as there are in others; `rows` is -1 before
   the first of those. */
static bool
is_usual(PyObject **given, column_t *column, Py_ssize_t *rows)
{
    if (PyUnicode_Check(*given)) {
        column->texts = given;
        column->count = 1;
        return true;
    }
    if (!PyList_Check(*given) && !PyTuple_Check(*given)) {
        return false;
    }
    column->texts = PySequence_Fast_ITEMS(*given);
    column->count = PySequence_Fast_GET_SIZE(*given);
    if (column->count == 0 || (*rows >= 0 && column->count != *rows)) {
        return false;
    }
    *rows = column->count;
    for (Py_ssize_t i = 0; i < column->count; i++) {
        if (!PyUnicode_Check(column->texts[i])) {
            return false;
        }
    }
    return true;
}

/* Nothing, for Python to do it; the error that a text has no UTF-8 is then Python's to meet. */
static PyObject *
left_to_python(void)
{
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
            return NULL;
        }
        PyErr_Clear();
    }
    Py_RETURN_NONE;
}

PyObject *
pack_columns(PyObject *Py_UNUSED(module), PyObject *columns)
{
    if (!PyTuple_Check(columns)) {
        PyErr_SetString(PyExc_TypeError, "columns are a tuple");
        return NULL;
    }
    PyObject **given = PySequence_Fast_ITEMS(columns);
    Py_ssize_t count = PyTuple_GET_SIZE(columns), rows = -1;
    column_t all[MOST_COLUMNS];
    if (count > MOST_COLUMNS) {
        Py_RETURN_NONE;
    }
    size_t size = 2 + 5;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!is_usual(&given[i], &all[i], &rows) || measure(&all[i]) < 0 || all[i].size > UINT32_MAX) {
            return left_to_python();
        }
        size += 5 + all[i].size;
    }
    rows = rows < 0 ? 1 : rows;
    if ((size_t)rows > UINT32_MAX) {
        Py_RETURN_NONE;
    }
    PyObject *packed = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (packed == NULL) {
        return NULL;
    }
    char *begin = PyBytes_AS_STRING(packed), *to = begin;
    *to++ = (char)0x92;
    to = put_size(to, (size_t)rows, 128, 0, 0xcc);
    *to++ = (char)(0x90 | count);
    for (Py_ssize_t i = 0; i < count; i++) {
        to = put_column(to, &all[i]);
        if (to == NULL) {
            Py_DECREF(packed);
            return left_to_python();
        }
    }
    if (_PyBytes_Resize(&packed, to - begin) < 0) {
        return NULL;
    }
    return Py_BuildValue("nN", rows, packed);
}

/* Finds a text in a table of texts whose size is a power of two, or puts it there; -1 with an error. */
static int
was_met(PyObject **table, size_t mask, PyObject *text)
{
    Py_hash_t hash = PyObject_Hash(text);
    if (hash == -1) {
        return -1;
    }
    size_t at = (size_t)hash & mask;
    for (; table[at] != NULL; at = (at + 1) & mask) {
        if (table[at] == text) {
            return 1;
        }
        if (PyObject_Hash(table[at]) == hash) {
            int order = PyUnicode_Compare(table[at], text);
            if (order == 0) {
                return 1;
            }
            if (order == -1 && PyErr_Occurred()) {
                return -1;
            }
        }
    }
    table[at] = text;
    return 0;
}

PyObject *
repeated_in(PyObject *Py_UNUSED(module), PyObject *texts)
{
    if (!PyList_Check(texts)) {
        PyErr_SetString(PyExc_TypeError, "texts are a list");
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(texts);
    size_t room = 16;
    while (room < 2 * (size_t)count) {
        room *= 2;
    }
    PyObject **table = PyMem_Calloc(room, sizeof(PyObject *));
    PyObject *places = table == NULL ? PyErr_NoMemory() : PyList_New(0);
    for (Py_ssize_t i = 0; places != NULL && i < count; i++) {
        PyObject *text = PyList_GET_ITEM(texts, i);
        int met = -1;
        if (PyUnicode_CheckExact(text)) {
            met = was_met(table, room - 1, text);
        } else {
            PyErr_SetString(PyExc_TypeError, "a text is a str");
        }
        PyObject *place = met > 0 ? PyLong_FromSsize_t(i) : NULL;
        if (met < 0 || (met > 0 && (place == NULL || PyList_Append(places, place) < 0))) {
            Py_CLEAR(places);
        }
        Py_XDECREF(place);
    }
    PyMem_Free(table);
    return places;
}

/* A page's part of a column: texts with zeros between them, or one text for all of its rows. */
typedef struct {
    const char *at;
    size_t size;
    size_t rows;
    bool is_one;
} part_t;

/* False if it was not packed so, or with an error. */
static bool
part_of(PyObject *joined, PyObject *rows, part_t *part)
{
    if (!PyBytes_Check(joined) || !PyLong_Check(rows)) {
        return false;
    }
    part->at = PyBytes_AS_STRING(joined);
    part->size = (size_t)PyBytes_GET_SIZE(joined);
    part->rows = PyLong_AsSize_t(rows);
    if (part->rows == (size_t)-1 && PyErr_Occurred()) {
        return false;
    }
    size_t zeros = zeros_in((text_t){part->at, part->size});
    part->is_one = zeros == 0;
    return part->rows > 0 && part->rows <= INT32_MAX && (part->is_one || part->rows == zeros + 1);
}

/* Writes the texts of a part, and where each of them ends. */
static char *
spread(const part_t *part, const char *begin, char *to, int32_t **ends)
{
    const char *at = part->at, *end = part->at + part->size;
    for (size_t row = 0; row < part->rows; row++) {
        const char *zero = part->is_one || row + 1 == part->rows ? end : memchr(at, 0, (size_t)(end - at));
        memcpy(to, at, (size_t)(zero - at));
        to += zero - at;
        *(*ends)++ = (int32_t)(to - begin);
        at = part->is_one ? part->at : zero + 1;
    }
    return to;
}

PyObject *
spread_texts(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *joined, *rows;
    if (!PyArg_ParseTuple(args, "O!O!:spread_texts", &PyTuple_Type, &joined, &PyTuple_Type, &rows)) {
        return NULL;
    }
    Py_ssize_t pages = PyTuple_GET_SIZE(joined);
    if (pages != PyTuple_GET_SIZE(rows)) {
        Py_RETURN_NONE;
    }
    size_t count = 0, size = 0;
    part_t part;
    for (Py_ssize_t i = 0; i < pages; i++) {
        if (!part_of(PyTuple_GET_ITEM(joined, i), PyTuple_GET_ITEM(rows, i), &part)) {
            PyErr_Clear();
            Py_RETURN_NONE;
        }
        count += part.rows;
        /* Neither factor is above 32 bits, so that nothing overflows. */
        size += part.size > INT32_MAX ? part.size : part.is_one ? part.size * part.rows : part.size - part.rows + 1;
        if (count >= INT32_MAX || size > INT32_MAX) {
            Py_RETURN_NONE;
        }
    }
    PyObject *offsets = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)((count + 1) * sizeof(int32_t)));
    PyObject *data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (offsets == NULL || data == NULL) {
        Py_XDECREF(offsets);
        Py_XDECREF(data);
        return NULL;
    }
    int32_t *ends = (int32_t *)(void *)PyBytes_AS_STRING(offsets);
    char *begin = PyBytes_AS_STRING(data), *to = begin;
    *ends++ = 0;
    for (Py_ssize_t i = 0; i < pages; i++) {
        (void)part_of(PyTuple_GET_ITEM(joined, i), PyTuple_GET_ITEM(rows, i), &part);
        to = spread(&part, begin, to, &ends);
    }
    return Py_BuildValue("nNN", (Py_ssize_t)count, offsets, data);
}
