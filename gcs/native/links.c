/* What links mean, as far as that is remembered: the loop of `gcs.gatherer.links.Targets`.

   A link that was met before costs one look into a memo, and no further text is made for it. For all others
   Python is called. */

#include "links.h"

#include <string.h>

#include "memo.h"

/* Longer links than this are put together as Python's texts. */
#define USUAL_SIZE 2048

typedef struct {
    PyObject *directory;
    memo_t *relative;
    memo_t *absolute;
    PyObject *done;
    PyObject *unusual;
    PyObject *learn;
    PyObject *mean;
    PyObject *settled;
    int only_new;
} memory_t;

/* A link without its fragment, and how it is to be looked up. */
typedef struct {
    PyObject *href; /* with the fragment */
    int kind;
    const void *data;
    Py_ssize_t size; /* without the fragment */
    bool is_absolute;
    bool is_joined;     /* with a directory, of which `above` characters remain; `from` are left out */
    Py_ssize_t above;
    Py_ssize_t from;
} link_t;

static Py_UCS4
character(const link_t *link, Py_ssize_t at)
{
    return at < link->size ? PyUnicode_READ(link->kind, link->data, at) : 0;
}

static bool
begins_with(const link_t *link, const char *with)
{
    Py_ssize_t i = 0;
    while (with[i] != '\0' && character(link, i) == (Py_UCS4)(unsigned char)with[i]) {
        i++;
    }
    return with[i] == '\0';
}

/* Of these a browser makes something else than a name relative to the directory. */
static bool
is_not_plain(Py_UCS4 first)
{
    return first == '?' || first == '\\' || first == ' ' || first == '\t' || first == '\r' || first == '\n'
           || first == '\f';
}

/* `_from_above`: dots at the beginning of a link lead up the directory. */
static void
climb(link_t *link, PyObject *directory)
{
    link->above = PyUnicode_GET_LENGTH(directory);
    link->from = 0;
    while (character(link, link->from) == '.') {
        if (character(link, link->from + 1) == '/') {
            link->from += 2;
        } else if (character(link, link->from + 1) == '.' && character(link, link->from + 2) == '/') {
            link->from += 3;
            if (link->above > 1) {
                do {
                    link->above--;
                } while (link->above > 1 && PyUnicode_READ_CHAR(directory, link->above - 1) != '/');
            }
        } else {
            break;
        }
    }
}

/* How a link is to be looked up; false if the standard's own rules of joining are needed, or it is empty. */
static bool
classify(link_t *link, PyObject *directory)
{
    Py_UCS4 first = character(link, 0);
    link->is_absolute = first == 'h' && (begins_with(link, "http://") || begins_with(link, "https://"));
    link->is_joined = false;
    if (first == '/' || link->is_absolute) {
        return true;
    }
    if (link->size == 0 || is_not_plain(first) || PyUnicode_FindChar(link->href, ':', 0, link->size, 1) != -1) {
        return false;
    }
    link->is_joined = true;
    climb(link, directory);
    return true;
}

/* The link without its fragment. */
static PyObject *
text_of(const link_t *link)
{
    return PyUnicode_Substring(link->href, 0, link->size);
}

/* The text by which a link is remembered. */
static PyObject *
name_of(const link_t *link, PyObject *directory)
{
    PyObject *rest = PyUnicode_Substring(link->href, link->is_joined ? link->from : 0, link->size);
    if (rest == NULL || !link->is_joined) {
        return rest;
    }
    PyObject *above = PyUnicode_Substring(directory, 0, link->above);
    PyObject *name = above == NULL ? NULL : PyUnicode_Concat(above, rest);
    Py_XDECREF(above);
    Py_DECREF(rest);
    return name;
}

/* Its digest, which is also found without making the text; -1 for an error. */
static int
digest_of_link(const link_t *link, PyObject *directory, const memo_t *memo, uint64_t *digest)
{
    if (!link->is_joined && link->kind == PyUnicode_1BYTE_KIND) {
        *digest = memo_digest(memo, link->data, (size_t)link->size, link->kind);
        return 0;
    }
    Py_ssize_t rest = link->size - link->from;
    if (link->is_joined && link->kind == PyUnicode_1BYTE_KIND
        && PyUnicode_KIND(directory) == PyUnicode_1BYTE_KIND && link->above + rest <= USUAL_SIZE) {
        char name[USUAL_SIZE];
        memcpy(name, PyUnicode_1BYTE_DATA(directory), (size_t)link->above);
        memcpy(name + link->above, (const char *)link->data + link->from, (size_t)rest);
        *digest = memo_digest(memo, name, (size_t)(link->above + rest), PyUnicode_1BYTE_KIND);
        return 0;
    }
    PyObject *name = name_of(link, directory);
    if (name == NULL) {
        return -1;
    }
    *digest = memo_digest(memo, PyUnicode_DATA(name), (size_t)PyUnicode_GET_LENGTH(name),
                          (int)PyUnicode_KIND(name));
    Py_DECREF(name);
    return 0;
}

/* Asks Python about a link that is not remembered, or not with what it means. */
static PyObject *
ask(const memory_t *memory, PyObject *whom, const link_t *link)
{
    PyObject *name = name_of(link, memory->directory), *href = text_of(link), *meant = NULL;
    if (name != NULL && href != NULL) {
        meant = PyObject_CallFunctionObjArgs(whom, link->is_absolute ? Py_False : Py_True, name, href, NULL);
    }
    Py_XDECREF(name);
    Py_XDECREF(href);
    return meant;
}

/* Whether nothing is left to be decided about a target; -1 for an error. */
static int
is_settled(const memory_t *memory, PyObject *target)
{
    if (target == Py_None) {
        return 1;
    }
    PyObject *settled = PyObject_GetAttr(target, memory->settled);
    int is_true = settled == NULL ? -1 : PyObject_IsTrue(settled);
    Py_XDECREF(settled);
    return is_true;
}

/* What a link means, as a new reference; NULL without an error if it is not wanted. */
static PyObject *
meaning(const memory_t *memory, const link_t *link)
{
    memo_t *memo = link->is_absolute ? memory->absolute : memory->relative;
    uint64_t digest;
    if (digest_of_link(link, memory->directory, memo, &digest) < 0) {
        return NULL;
    }
    PyObject *meant = memo_find(memo, digest);
    meant = meant == NULL ? ask(memory, memory->learn, link) : Py_NewRef(meant);
    if (meant == NULL) {
        return NULL;
    }
    if (meant == memory->done) {
        Py_DECREF(meant);
        return memory->only_new ? NULL : ask(memory, memory->mean, link);
    }
    if (memory->only_new) {
        int settled = is_settled(memory, meant);
        if (settled < 0 || (settled && memo_put(memo, digest, memory->done) < 0)) {
            Py_CLEAR(meant);
        }
    }
    return meant;
}

/* Appends what one link means to what was found. */
static int
resolve_one(const memory_t *memory, PyObject *href, PyObject *found)
{
    link_t link = {.href = href, .kind = (int)PyUnicode_KIND(href), .data = PyUnicode_DATA(href)};
    link.size = PyUnicode_GET_LENGTH(href);
    Py_ssize_t fragment = PyUnicode_FindChar(href, '#', 0, link.size, 1);
    link.size = fragment >= 0 ? fragment : link.size;
    PyObject *meant;
    if (classify(&link, memory->directory)) {
        if (fragment >= 0 && link.kind != PyUnicode_1BYTE_KIND) {
            /* Without its fragment it may be a text of another kind. */
            PyObject *shorter = text_of(&link);
            int failed = shorter == NULL ? -1 : resolve_one(memory, shorter, found);
            Py_XDECREF(shorter);
            return failed;
        }
        meant = meaning(memory, &link);
    } else if (link.size == 0) {
        meant = Py_NewRef(Py_None);
    } else {
        PyObject *text = text_of(&link);
        meant = text == NULL ? NULL : PyObject_CallOneArg(memory->unusual, text);
        Py_XDECREF(text);
    }
    if (meant == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    int failed = PyList_Append(found, meant);
    Py_DECREF(meant);
    return failed;
}

PyObject *
resolve_links(PyObject *Py_UNUSED(module), PyObject *args)
{
    memory_t memory = {0};
    PyObject *hrefs;
    if (!PyArg_ParseTuple(args, "OUO!O!OOOOUp:resolve_links", &hrefs, &memory.directory, &Memo_Type,
                          &memory.relative, &Memo_Type, &memory.absolute, &memory.done, &memory.unusual,
                          &memory.learn, &memory.mean, &memory.settled, &memory.only_new)) {
        return NULL;
    }
    if (PyUnicode_GET_LENGTH(memory.directory) == 0 || PyUnicode_READ_CHAR(memory.directory, 0) != '/') {
        PyErr_SetString(PyExc_ValueError, "a directory begins with a slash");
        return NULL;
    }
    PyObject *links = PySequence_Fast(hrefs, "links are a sequence");
    if (links == NULL) {
        return NULL;
    }
    PyObject *found = PyList_New(0);
    /* Python code may run in between, and could change a list. */
    for (Py_ssize_t i = 0; found != NULL && i < PySequence_Fast_GET_SIZE(links); i++) {
        PyObject *href = Py_NewRef(PySequence_Fast_GET_ITEM(links, i));
        int failed = !PyUnicode_Check(href);
        if (failed) {
            PyErr_SetString(PyExc_TypeError, "a link is a str");
        } else {
            failed = resolve_one(&memory, href, found);
        }
        Py_DECREF(href);
        if (failed) {
            Py_CLEAR(found);
        }
    }
    Py_DECREF(links);
    return found;
}
