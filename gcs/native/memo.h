/* A table from texts to objects that keeps digests of the texts instead of the texts themselves. */

#ifndef GCS_MEMO_H
#define GCS_MEMO_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint64_t digest;
    PyObject *value; /* NULL where there is nothing */
} entry_t;

typedef struct {
    PyObject_HEAD
    uint64_t key[2];
    entry_t *entries; /* a power of two of them, at most two thirds in use */
    size_t mask;
    size_t used;
} memo_t;

extern PyTypeObject Memo_Type;

/* The digest of a text of characters of so many bytes each (1, 2 or 4). */
uint64_t memo_digest(const memo_t *memo, const void *text, size_t count, int kind);

/* The digest of a text by a secret key, as those of a memo are. */
uint64_t digest_of(const uint64_t key[2], PyObject *text);

/* What is remembered, as a borrowed reference; NULL, without an error, for nothing. */
PyObject *memo_find(const memo_t *memo, uint64_t digest);

/* Remembers something else; -1 with an error if there is no memory. */
int memo_put(memo_t *memo, uint64_t digest, PyObject *value);

#endif
