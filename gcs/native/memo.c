/* See memo.h.

   What links meant is looked up eighty times a page, in tables much larger than the processor's caches. A
   dictionary has to fetch its index, its entry and the text to compare it with; here it is one entry of 16
   bytes. Digests are SipHash-1-3 with a secret key, so nobody can choose texts that collide; that two of
   100,000 texts do by chance has to be expected once in some 10^14 questions. */

#include "memo.h"

#include <string.h>

#define FIRST_SIZE 32

#define ROTATE(x, bits) (((x) << (bits)) | ((x) >> (64 - (bits))))
#define ROUND(v0, v1, v2, v3)                                                                                 \
    do {                                                                                                      \
        v0 += v1;                                                                                             \
        v2 += v3;                                                                                             \
        v1 = ROTATE(v1, 13) ^ v0;                                                                             \
        v3 = ROTATE(v3, 16) ^ v2;                                                                             \
        v0 = ROTATE(v0, 32) + v3;                                                                             \
        v2 += v1;                                                                                             \
        v1 = ROTATE(v1, 17) ^ v2;                                                                             \
        v3 = ROTATE(v3, 21) ^ v0;                                                                             \
        v2 = ROTATE(v2, 32);                                                                                  \
    } while (0)

/* SipHash-1-3 (Aumasson and Bernstein); words in this machine's order, since digests stay in this process. */
static uint64_t
siphash(const uint64_t key[2], const unsigned char *bytes, size_t size, uint64_t tweak)
{
    uint64_t v0 = key[0] ^ 0x736f6d6570736575u ^ tweak, v1 = key[1] ^ 0x646f72616e646f6du;
    uint64_t v2 = key[0] ^ 0x6c7967656e657261u, v3 = key[1] ^ 0x7465646279746573u;
    uint64_t word, last = (uint64_t)size << 56;
    for (; size >= 8; bytes += 8, size -= 8) {
        memcpy(&word, bytes, 8);
        v3 ^= word;
        ROUND(v0, v1, v2, v3);
        v0 ^= word;
    }
    for (size_t i = 0; i < size; i++) {
        last |= (uint64_t)bytes[i] << (8 * i);
    }
    v3 ^= last;
    ROUND(v0, v1, v2, v3);
    v0 ^= last;
    v2 ^= 0xff;
    ROUND(v0, v1, v2, v3);
    ROUND(v0, v1, v2, v3);
    ROUND(v0, v1, v2, v3);
    return v0 ^ v1 ^ v2 ^ v3;
}

uint64_t
memo_digest(const memo_t *memo, const void *text, size_t count, int kind)
{
    return siphash(memo->key, text, count * (size_t)kind, (uint64_t)kind);
}

uint64_t
digest_of(const uint64_t key[2], PyObject *text)
{
    int kind = (int)PyUnicode_KIND(text);
    return siphash(key, PyUnicode_DATA(text), (size_t)PyUnicode_GET_LENGTH(text) * (size_t)kind, (uint64_t)kind);
}

/* The entry of a digest, or the empty one where it would be. */
static entry_t *
place_of(entry_t *entries, size_t mask, uint64_t digest)
{
    size_t at = (size_t)digest & mask;
    while (entries[at].value != NULL && entries[at].digest != digest) {
        at = (at + 1) & mask;
    }
    return &entries[at];
}

PyObject *
memo_find(const memo_t *memo, uint64_t digest)
{
    return memo->entries == NULL ? NULL : place_of(memo->entries, memo->mask, digest)->value;
}

static int
grow(memo_t *memo)
{
    size_t size = memo->entries == NULL ? FIRST_SIZE : 2 * (memo->mask + 1);
    entry_t *entries = PyMem_Calloc(size, sizeof *entries);
    if (entries == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; memo->entries != NULL && i <= memo->mask; i++) {
        if (memo->entries[i].value != NULL) {
            *place_of(entries, size - 1, memo->entries[i].digest) = memo->entries[i];
        }
    }
    PyMem_Free(memo->entries);
    memo->entries = entries;
    memo->mask = size - 1;
    return 0;
}

int
memo_put(memo_t *memo, uint64_t digest, PyObject *value)
{
    if ((memo->entries == NULL || 3 * (memo->used + 1) > 2 * (memo->mask + 1)) && grow(memo) < 0) {
        return -1;
    }
    entry_t *entry = place_of(memo->entries, memo->mask, digest);
    PyObject *before = entry->value;
    entry->digest = digest;
    entry->value = Py_NewRef(value);
    memo->used += before == NULL;
    Py_XDECREF(before); /* the last: it may run anything */
    return 0;
}

static PyObject *
memo_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Py_buffer key;
    static char *names[] = {"", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y*:Memo", names, &key)) {
        return NULL;
    }
    memo_t *memo = NULL;
    if (key.len != sizeof memo->key) {
        PyErr_SetString(PyExc_ValueError, "a key has 16 bytes");
    } else {
        memo = (memo_t *)type->tp_alloc(type, 0);
    }
    if (memo != NULL) {
        memcpy(memo->key, key.buf, sizeof memo->key);
    }
    PyBuffer_Release(&key);
    return (PyObject *)memo;
}

static void
memo_dealloc(PyObject *self)
{
    memo_t *memo = (memo_t *)self;
    for (size_t i = 0; memo->entries != NULL && i <= memo->mask; i++) {
        Py_XDECREF(memo->entries[i].value);
    }
    PyMem_Free(memo->entries);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
memo_get(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyUnicode_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "get takes a str and what to return instead");
        return NULL;
    }
    PyObject *found = memo_find((memo_t *)self, digest_of(((memo_t *)self)->key, args[0]));
    return Py_NewRef(found == NULL ? args[1] : found);
}

static int
memo_set(PyObject *self, PyObject *name, PyObject *value)
{
    if (!PyUnicode_Check(name) || value == NULL) {
        PyErr_SetString(PyExc_TypeError, value == NULL ? "nothing is forgotten" : "a name is a str");
        return -1;
    }
    return memo_put((memo_t *)self, digest_of(((memo_t *)self)->key, name), value);
}

static Py_ssize_t
memo_length(PyObject *self)
{
    return (Py_ssize_t)((memo_t *)self)->used;
}

static PyMethodDef methods[] = {
    {"get", (PyCFunction)(void (*)(void))memo_get, METH_FASTCALL, "What is remembered, or the second argument."},
    {NULL, NULL, 0, NULL},
};

static PyMappingMethods as_mapping = {.mp_length = memo_length, .mp_ass_subscript = memo_set};

/* Not known to the garbage collector, which would go through all of it again and again: what is remembered
   must not lead back to the memo. */
PyTypeObject Memo_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gcs.native._compiled.Memo",
    .tp_doc = "What texts stand for.",
    .tp_basicsize = sizeof(memo_t),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = memo_new,
    .tp_dealloc = memo_dealloc,
    .tp_methods = methods,
    .tp_as_mapping = &as_mapping,
};
