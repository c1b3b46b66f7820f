/* See lookup.h.

   A page has some hundred words, and hundreds of thousands of words are remembered: as in a memo, only their
   digests are kept, each beside the number of the sign that the word becomes. Signs, and queries, are numbers
   from then on. Which of them a page has is said by stamps: that of a sign is the number of the last page that
   had it, so that nothing has to be cleared between pages.

   To make a stem calls Python, which may call this again. So the words of a page become numbers first, in
   memory of this call alone; stamps are written and read after that, while nothing else can run. */

#include "lookup.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "memo.h"
#include "numbers.h"

#define NO_SIGN 0 /* of a word that no query names */
#define NO_ANCHORED 0
#define AT_ONCE 64 /* words */

/* Memory that is asked for early is there when it is needed, while other words are looked at. */
#if defined(__GNUC__)
#define EXPECT(address) __builtin_prefetch(address)
#else
#define EXPECT(address) ((void)(address))
#endif

/* A query below one of its anchors. */
typedef struct {
    uint32_t query;
    uint32_t second; /* the sign that is asked for before others */
    uint32_t next;   /* of the same anchor; NO_ANCHORED after the last */
} anchored_t;

/* What a page needs for a query: some numbers of signs in `needed`. */
typedef struct {
    size_t start;
    size_t end;
    uint32_t stamp; /* the last page for which it was found */
} query_t;

typedef struct {
    uint32_t stamp;    /* the last page that has it */
    uint32_t anchored; /* the first query of which it is an anchor */
} sign_t;

typedef struct {
    PyObject_HEAD
    uint64_t key[2];
    PyObject *names; /* a tuple of the signs; the first is "", that of words that no query names */
    PyObject *stem;  /* what a word becomes */
    size_t most;     /* words that are remembered */
    table_t numbers; /* of the signs */
    table_t words;
    sign_t *signs;
    query_t *queries;
    size_t count; /* of queries */
    size_t room;
    anchored_t *anchored; /* the first is not used */
    size_t anchored_count;
    size_t anchored_room;
    numbers_t needed;
    uint32_t now; /* the number of the page, from 1 on */
} lookup_t;

/* Signs and words */

/* The number of a sign; UNKNOWN if no query names it. */
static uint32_t
sign_of(const lookup_t *lookup, PyObject *text)
{
    return number_in(&lookup->numbers, digest_of(lookup->key, text));
}

/* The number of the sign that a word becomes, which was not remembered; UNKNOWN with an error. */
static uint32_t
learnt(lookup_t *lookup, PyObject *word, uint64_t digest)
{
    PyObject *stem = PyObject_CallOneArg(lookup->stem, word);
    if (stem == NULL) {
        return UNKNOWN;
    }
    uint32_t number = UNKNOWN;
    if (PyUnicode_Check(stem)) {
        number = sign_of(lookup, stem);
        if (number == UNKNOWN) {
            number = NO_SIGN;
        }
        if (lookup->words.used >= lookup->most) {
            empty_table(&lookup->words);
        }
        if (put_number(&lookup->words, digest, number) < 0) {
            number = UNKNOWN;
        }
    } else {
        PyErr_SetString(PyExc_TypeError, "a stem is a str");
    }
    Py_DECREF(stem);
    return number;
}

/* The digests of some words of a tuple; memory is asked for what will be looked up by them. */
static int
digest_words(const lookup_t *lookup, PyObject *words, Py_ssize_t start, Py_ssize_t end, uint64_t *digests)
{
    for (Py_ssize_t i = start; i < end; i++) {
        PyObject *word = PyTuple_GET_ITEM(words, i);
        if (!PyUnicode_Check(word)) {
            PyErr_SetString(PyExc_TypeError, "a word is a str");
            return -1;
        }
        uint64_t digest = digests[i - start] = digest_of(lookup->key, word);
        EXPECT(first_place(&lookup->words, digest)); /* nothing comes of asking for NULL */
    }
    return 0;
}

/* Appends the numbers of the signs that the words of a tuple become. */
static int
append_all(lookup_t *lookup, PyObject *words, numbers_t *numbers)
{
    uint64_t digests[AT_ONCE];
    Py_ssize_t count = PyTuple_GET_SIZE(words);
    if (room_for_numbers(numbers, (size_t)count) < 0) {
        return -1;
    }
    for (Py_ssize_t start = 0; start < count; start += AT_ONCE) {
        Py_ssize_t end = count - start < AT_ONCE ? count : start + AT_ONCE;
        if (digest_words(lookup, words, start, end, digests) < 0) {
            return -1;
        }
        for (Py_ssize_t i = start; i < end; i++) {
            uint32_t number = number_in(&lookup->words, digests[i - start]);
            if (number == UNKNOWN) {
                number = learnt(lookup, PyTuple_GET_ITEM(words, i), digests[i - start]);
                if (number == UNKNOWN) {
                    return -1;
                }
            }
            numbers->at[numbers->count++] = number;
        }
    }
    return 0;
}

/* The same for a list, of which a copy is made: whoever makes stems may change it. */
static int
append_words(lookup_t *lookup, PyObject *list, numbers_t *numbers)
{
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "words are a list");
        return -1;
    }
    PyObject *words = PyList_AsTuple(list);
    if (words == NULL) {
        return -1;
    }
    int result = append_all(lookup, words, numbers);
    Py_DECREF(words);
    return result;
}

/* The signs of all numbers from one on, as a list. */
static PyObject *
names_of(const lookup_t *lookup, const numbers_t *numbers, size_t start)
{
    size_t count = numbers->count - start;
    PyObject *made = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; made != NULL && i < count; i++) {
        PyObject *name = PyTuple_GET_ITEM(lookup->names, (Py_ssize_t)numbers->at[start + i]);
        PyList_SET_ITEM(made, (Py_ssize_t)i, Py_NewRef(name));
    }
    return made;
}

/* The signs that the words of each field become, as a list of lists; appends their numbers. */
static PyObject *
orders_of(lookup_t *lookup, PyObject *fields, numbers_t *numbers)
{
    PyObject *orders = PyList_New(0);
    for (Py_ssize_t i = 0; orders != NULL && i < PyTuple_GET_SIZE(fields); i++) {
        size_t start = numbers->count;
        PyObject *names = NULL;
        if (append_words(lookup, PyTuple_GET_ITEM(fields, i), numbers) == 0) {
            names = names_of(lookup, numbers, start);
        }
        if (names == NULL || PyList_Append(orders, names) < 0) {
            Py_CLEAR(orders);
        }
        Py_XDECREF(names);
    }
    return orders;
}

/* Appends the numbers of signs that a page has beside its words; others than queries name are left out. */
static int
append_signs(const lookup_t *lookup, PyObject *signs, numbers_t *numbers)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(signs); i++) {
        if (!PyUnicode_Check(PyList_GET_ITEM(signs, i))) {
            PyErr_SetString(PyExc_TypeError, "a sign is a str");
            return -1;
        }
        uint32_t number = sign_of(lookup, PyList_GET_ITEM(signs, i));
        if (number != UNKNOWN && append_number(numbers, number) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Pages */

/* Begins another page, whose number no stamp has. */
static void
turn_page(lookup_t *lookup)
{
    if (++lookup->now == 0) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(lookup->names); i++) {
            lookup->signs[i].stamp = 0;
        }
        for (size_t i = 0; i < lookup->count; i++) {
            lookup->queries[i].stamp = 0;
        }
        lookup->now = 1;
    }
}

static bool
has_all(const lookup_t *lookup, const query_t *query)
{
    for (size_t i = query->start; i < query->end; i++) {
        if (lookup->signs[lookup->needed.at[i]].stamp != lookup->now) {
            return false;
        }
    }
    return true;
}

/* Appends the queries of an anchor that may hold of the page. */
static int
append_queries(lookup_t *lookup, uint32_t sign, numbers_t *found)
{
    for (uint32_t at = lookup->signs[sign].anchored; at != NO_ANCHORED; at = lookup->anchored[at].next) {
        const anchored_t *anchored = &lookup->anchored[at];
        if (lookup->signs[anchored->second].stamp != lookup->now) {
            continue;
        }
        query_t *query = &lookup->queries[anchored->query];
        if (query->stamp != lookup->now && has_all(lookup, query)) {
            query->stamp = lookup->now;
            if (append_number(found, anchored->query) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

static int
compare(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

/* The queries that may hold of a page with some signs, in order; runs no Python. */
static int
find_queries(lookup_t *lookup, numbers_t *signs, numbers_t *found)
{
    turn_page(lookup);
    size_t count = 0;
    for (size_t i = 0; i < signs->count; i++) {
        uint32_t number = signs->at[i];
        if (number != NO_SIGN && lookup->signs[number].stamp != lookup->now) {
            lookup->signs[number].stamp = lookup->now;
            signs->at[count++] = number;
        }
    }
    signs->count = count;
    for (size_t i = 0; i < count; i++) {
        if (append_queries(lookup, signs->at[i], found) < 0) {
            return -1;
        }
    }
    if (found->count > 1) {
        qsort(found->at, found->count, sizeof *found->at, compare);
    }
    return 0;
}

static PyObject *
list_of(const numbers_t *numbers)
{
    PyObject *made = PyList_New((Py_ssize_t)numbers->count);
    for (size_t i = 0; made != NULL && i < numbers->count; i++) {
        PyObject *number = PyLong_FromUnsignedLong(numbers->at[i]);
        if (number == NULL) {
            Py_CLEAR(made);
        } else {
            PyList_SET_ITEM(made, (Py_ssize_t)i, number);
        }
    }
    return made;
}

static PyObject *
lookup_look(PyObject *self, PyObject *args)
{
    lookup_t *lookup = (lookup_t *)self;
    PyObject *fields, *signs;
    if (!PyArg_ParseTuple(args, "O!O!:look", &PyTuple_Type, &fields, &PyList_Type, &signs)) {
        return NULL;
    }
    numbers_t numbers = {0}, found = {0};
    PyObject *made = NULL;
    PyObject *orders = orders_of(lookup, fields, &numbers);
    if (orders != NULL && append_signs(lookup, signs, &numbers) == 0 &&
        find_queries(lookup, &numbers, &found) == 0) {
        PyObject *queries = list_of(&found);
        if (queries != NULL) {
            made = PyTuple_Pack(2, orders, queries);
            Py_DECREF(queries);
        }
    }
    Py_XDECREF(orders);
    PyMem_Free(numbers.at);
    PyMem_Free(found.at);
    return made;
}

/* Queries */

/* Whether a text is a sign, whose number is given; false with an error. */
static bool
is_sign(const lookup_t *lookup, PyObject *text, uint32_t *number)
{
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "a sign is a str");
        return false;
    }
    *number = sign_of(lookup, text);
    if (*number == UNKNOWN || *number == NO_SIGN) {
        PyErr_Format(PyExc_ValueError, "%R is none of the signs", text);
        return false;
    }
    return true;
}

static int
room_for_query(lookup_t *lookup, size_t needed, size_t anchors)
{
    void *queries = lookup->queries, *anchored = lookup->anchored;
    int result = make_room(&queries, &lookup->room, lookup->count, 1, sizeof *lookup->queries);
    lookup->queries = queries;
    if (result == 0) {
        result = make_room(&anchored, &lookup->anchored_room, lookup->anchored_count, anchors,
                           sizeof *lookup->anchored);
        lookup->anchored = anchored;
    }
    if (result == 0 && (lookup->count >= UNKNOWN || lookup->anchored_count + anchors >= UNKNOWN)) {
        PyErr_SetString(PyExc_OverflowError, "there are too many queries");
        result = -1;
    }
    return result == 0 ? room_for_numbers(&lookup->needed, needed) : -1;
}

/* Nothing counts before all is right; from the first sign to the last count no Python runs. */
static PyObject *
lookup_add(PyObject *self, PyObject *args)
{
    lookup_t *lookup = (lookup_t *)self;
    PyObject *needed, *anchors;
    if (!PyArg_ParseTuple(args, "O!O!:add", &PyTuple_Type, &needed, &PyDict_Type, &anchors)) {
        return NULL;
    }
    size_t needed_count = (size_t)PyTuple_GET_SIZE(needed), anchors_count = (size_t)PyDict_GET_SIZE(anchors);
    if (room_for_query(lookup, needed_count, anchors_count) < 0) {
        return NULL;
    }
    uint32_t *signs = lookup->needed.at + lookup->needed.count;
    for (size_t i = 0; i < needed_count; i++) {
        if (!is_sign(lookup, PyTuple_GET_ITEM(needed, (Py_ssize_t)i), &signs[i])) {
            return NULL;
        }
    }
    anchored_t *anchored = lookup->anchored + lookup->anchored_count;
    PyObject *anchor, *second;
    Py_ssize_t place = 0;
    for (size_t i = 0; PyDict_Next(anchors, &place, &anchor, &second); i++) {
        /* The anchor is where the next one will be, until all are known. */
        if (!is_sign(lookup, anchor, &anchored[i].next) || !is_sign(lookup, second, &anchored[i].second)) {
            return NULL;
        }
        anchored[i].query = (uint32_t)lookup->count;
    }
    for (size_t i = 0; i < anchors_count; i++) {
        sign_t *sign = &lookup->signs[anchored[i].next];
        anchored[i].next = sign->anchored;
        sign->anchored = (uint32_t)(lookup->anchored_count + i);
    }
    lookup->queries[lookup->count++] =
        (query_t){lookup->needed.count, lookup->needed.count + needed_count, 0};
    lookup->needed.count += needed_count;
    lookup->anchored_count += anchors_count;
    Py_RETURN_NONE;
}

/* The type */

/* Gives the signs their numbers; those of a text that is there twice are the same. */
static int
number_signs(lookup_t *lookup)
{
    Py_ssize_t count = PyTuple_GET_SIZE(lookup->names);
    if (count == 0 || count >= (Py_ssize_t)(UNKNOWN / 2)) {
        PyErr_SetString(PyExc_ValueError, "there are no signs, or too many");
        return -1;
    }
    lookup->signs = PyMem_Calloc((size_t)count, sizeof *lookup->signs);
    if (lookup->signs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name = PyTuple_GET_ITEM(lookup->names, i);
        if (!PyUnicode_Check(name) || (i == NO_SIGN) != (PyUnicode_GET_LENGTH(name) == 0)) {
            PyErr_SetString(PyExc_ValueError, "signs are texts, the first of which is empty");
            return -1;
        }
        uint64_t digest = digest_of(lookup->key, name);
        if (number_in(&lookup->numbers, digest) == UNKNOWN && put_number(&lookup->numbers, digest, (uint32_t)i) < 0) {
            return -1;
        }
    }
    return 0;
}

static PyObject *
lookup_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Py_buffer key;
    PyObject *names, *stem;
    Py_ssize_t most;
    static char *argument_names[] = {"", "", "", "", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y*O!On:Lookup", argument_names, &key, &PyTuple_Type, &names,
                                     &stem, &most)) {
        return NULL;
    }
    lookup_t *lookup = NULL;
    if (key.len != sizeof lookup->key || most < 1) {
        PyErr_SetString(PyExc_ValueError, "a key has 16 bytes, and some words are remembered");
    } else {
        lookup = (lookup_t *)type->tp_alloc(type, 0);
    }
    if (lookup != NULL) {
        memcpy(lookup->key, key.buf, sizeof lookup->key);
        lookup->names = Py_NewRef(names);
        lookup->stem = Py_NewRef(stem);
        lookup->most = (size_t)most;
        lookup->anchored_count = NO_ANCHORED + 1;
        void *anchored = NULL;
        if (number_signs(lookup) < 0 ||
            make_room(&anchored, &lookup->anchored_room, 0, lookup->anchored_count, sizeof *lookup->anchored) < 0) {
            Py_CLEAR(lookup);
        } else {
            lookup->anchored = anchored;
        }
    }
    PyBuffer_Release(&key);
    return (PyObject *)lookup;
}

static void
lookup_dealloc(PyObject *self)
{
    lookup_t *lookup = (lookup_t *)self;
    Py_XDECREF(lookup->names);
    Py_XDECREF(lookup->stem);
    empty_table(&lookup->numbers);
    empty_table(&lookup->words);
    PyMem_Free(lookup->signs);
    PyMem_Free(lookup->queries);
    PyMem_Free(lookup->anchored);
    PyMem_Free(lookup->needed.at);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef methods[] = {
    {"add", lookup_add, METH_VARARGS, "Let the next query be found."},
    {"look", lookup_look, METH_VARARGS, "What words become, and which queries may hold."},
    {NULL, NULL, 0, NULL},
};

/* Not known to the garbage collector: what makes stems must not lead back to it. */
PyTypeObject Lookup_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gcs.native._compiled.Lookup",
    .tp_doc = "Queries by the signs of pages.",
    .tp_basicsize = sizeof(lookup_t),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = lookup_new,
    .tp_dealloc = lookup_dealloc,
    .tp_methods = methods,
};
