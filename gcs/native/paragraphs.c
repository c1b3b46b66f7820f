/* The paragraphs of the main part of a page: `gcs.summary.excerpt._Main` without its expressions. */

#include "paragraphs.h"

#include <structmember.h>

#include "text.h"

/* Of elements that are no text of a page those up to the fifth can stand inside of a paragraph. */
static const char *const asides[] = {"button", "select", "svg", "noscript", "template", "nav", "footer", "aside"};
#define ASIDES (sizeof asides / sizeof *asides)
#define INLINE_ASIDES 5

/* Elements that end a paragraph, h1 to h6 apart. */
static const char *const blocks[] = {
    "p",      "address", "article", "aside",  "blockquote", "body",    "center", "dd",   "details", "div",
    "dl",     "dt",      "fieldset", "figcaption", "figure", "footer", "form",   "header", "hr",    "html",
    "li",     "main",    "nav",     "ol",     "pre",        "section", "table",  "tbody", "td",     "th",
    "tr",     "ul",
};

typedef enum { PARAGRAPH, BEGUN, ENDED, ASIDE, OTHER } event_t;

typedef struct {
    event_t event;
    span_t name;
    size_t aside; /* which one */
    at_t start;   /* its "<" */
    at_t end;
} tag_t;

typedef struct {
    PyObject_HEAD
    PyObject *body;
    PyObject *part; /* main, article, or nothing for all of the page */
    Py_ssize_t looked_at;
    Py_ssize_t limit;
    Py_ssize_t at;
    char inside;
    char over;
    char unclosed[ASIDES];
    Py_ssize_t start;
    Py_ssize_t end;
    PyObject *asides;
} paragraphs_t;

static bool
is_part(at_t at, at_t end, span_t *name)
{
    name->start = at;
    name->end = skip_name(at, end, "main");
    if (name->end == NULL) {
        name->end = skip_name(at, end, "article");
    }
    return name->end != NULL;
}

/* (?:>|\Z) after attributes. */
static at_t
skip_tag(at_t at, at_t end)
{
    at = skip_attributes(at, end);
    return at < end ? at + 1 : end;
}

/* One match of _EVENTS after its "<"; false if there is none. */
static bool
read_event(at_t at, at_t end, tag_t *tag)
{
    span_t ignored;
    tag->start = at - 1;
    tag->event = OTHER;
    if (at >= end) {
        return false;
    }
    if (*at == '!') {
        if (end - at < 3 || at[1] != '-' || at[2] != '-') {
            return false;
        }
        tag->end = skip_comment(at + 3, end);
        return true;
    }
    if (*at == '/') {
        if (!is_part(at + 1, end, &tag->name)) {
            return false;
        }
        tag->event = ENDED;
        tag->end = skip_tag(tag->name.end, end);
        return true;
    }
    unsigned char first = lower(*at);
    if (memchr("abfmnpstx", first, 9) == NULL) {
        return false;
    }
    tag->end = skip_raw_element(at, end);
    if (tag->end == NULL) {
        tag->end = skip_title(at, end, &ignored);
    }
    if (tag->end != NULL) {
        return true;
    }
    if (first == 'p') {
        tag->event = PARAGRAPH;
        tag->name.end = skip_name(at, end, "p");
        if (tag->name.end == NULL) {
            return false;
        }
    } else if (is_part(at, end, &tag->name)) {
        tag->event = BEGUN;
    } else {
        tag->event = ASIDE;
        for (tag->aside = 0; tag->aside < ASIDES; tag->aside++) {
            tag->name.end = skip_name(at, end, asides[tag->aside]);
            if (tag->name.end != NULL) {
                break;
            }
        }
        if (tag->aside == ASIDES) {
            return false;
        }
    }
    tag->end = skip_tag(tag->name.end, end);
    return true;
}

static bool
is_block(at_t at, at_t end)
{
    if (end - at >= 2 && lower(*at) == 'h' && at[1] >= '1' && at[1] <= '6') {
        return ends_name(at + 2, end);
    }
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        if (at < end && lower(*at) == (unsigned char)blocks[i][0] && skip_name(at, end, blocks[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* _PARAGRAPH: where the next block begins or ends. */
static at_t
end_of_paragraph(at_t at, at_t end)
{
    for (;;) {
        at = find(at, end, '<');
        if (at >= end) {
            return end;
        }
        if (is_block(is_at(at + 1, end, '/') ? at + 2 : at + 1, end)) {
            return at;
        }
        at++;
    }
}

/* _INLINE_ASIDE, after its "<". */
static at_t
skip_inline_aside(at_t at, at_t end)
{
    for (size_t i = 0; i < INLINE_ASIDES; i++) {
        at_t name = skip_name(at, end, asides[i]);
        if (name != NULL) {
            return skip_raw_content(name, end, asides[i]);
        }
    }
    return NULL;
}

static PyObject *
paragraph_of(span_t text, Py_ssize_t looked_at, Py_ssize_t limit)
{
    if ((Py_ssize_t)size_of(text) > looked_at) {
        text.end = text.start + looked_at;
    }
    if (size_of(text) == 0 || memchr(text.start, '<', size_of(text)) == NULL) {
        return line_of(text, limit);
    }
    unsigned char *kept = PyMem_Malloc(size_of(text));
    if (kept == NULL) {
        return PyErr_NoMemory();
    }
    span_t rest = {kept, kept + strip(text, kept, skip_inline_aside)};
    PyObject *made = line_of(rest, limit);
    PyMem_Free(kept);
    return made;
}

/* Where an element ends that is no text of the page: _Main._skip. NULL for an error. */
static at_t
skip_aside(paragraphs_t *self, const tag_t *tag, at_t begin, at_t end)
{
    if (self->unclosed[tag->aside] || (tag->end[-1] == '>' && tag->end[-2] == '/')) {
        return tag->end;
    }
    Py_ssize_t depth = 1;
    for (at_t at = find(tag->end, end, '<'); at < end; at = find(at + 1, end, '<')) {
        bool closes = is_at(at + 1, end, '/');
        at_t name = skip_name(closes ? at + 2 : at + 1, end, asides[tag->aside]);
        if (name == NULL) {
            continue;
        }
        depth += closes ? -1 : 1;
        if (depth == 0) {
            PyObject *pair = Py_BuildValue("(nn)", (Py_ssize_t)(tag->start - begin), (Py_ssize_t)(name + 1 - begin));
            int failed = pair == NULL ? -1 : PyList_Append(self->asides, pair);
            Py_XDECREF(pair);
            return failed < 0 ? NULL : name + 1;
        }
    }
    self->unclosed[tag->aside] = 1;
    return tag->end;
}

static bool
is_wanted(const paragraphs_t *self, span_t name)
{
    return is_named(name, PyBytes_AS_STRING(self->part));
}

static PyObject *
next_paragraph(PyObject *object)
{
    paragraphs_t *self = (paragraphs_t *)object;
    at_t begin = (at_t)PyBytes_AS_STRING(self->body), end = begin + PyBytes_GET_SIZE(self->body);
    at_t at = begin + self->at;
    bool is_all = PyBytes_GET_SIZE(self->part) == 0;
    tag_t tag;
    while (!self->over) {
        at = find(at, end, '<');
        if (at >= end) {
            break;
        }
        at++;
        if (!read_event(at, end, &tag)) {
            continue;
        }
        at = tag.end;
        if (tag.event == ASIDE) {
            at = skip_aside(self, &tag, begin, end);
            if (at == NULL) {
                self->over = 1;
                return NULL;
            }
        } else if (tag.event == PARAGRAPH && self->inside) {
            span_t written = {at, end_of_paragraph(at, end)};
            self->at = written.end - begin;
            return paragraph_of(written, self->looked_at, self->limit);
        } else if (tag.event == BEGUN && !is_all && !self->inside && is_wanted(self, tag.name)) {
            self->start = at - begin;
            self->inside = 1;
        } else if (tag.event == ENDED && !is_all && self->inside && is_wanted(self, tag.name)) {
            self->end = tag.start - begin;
            break;
        }
    }
    self->over = 1;
    return NULL;
}

static PyObject *
paragraphs_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", "", "", "", NULL};
    PyObject *body, *part;
    Py_ssize_t looked_at, limit;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "SSnn:Paragraphs", names, &body, &part, &looked_at, &limit)) {
        return NULL;
    }
    if (looked_at < 0 || limit < 0) {
        PyErr_SetString(PyExc_ValueError, "limits are not negative");
        return NULL;
    }
    paragraphs_t *self = (paragraphs_t *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->body = Py_NewRef(body);
    self->part = Py_NewRef(part);
    self->looked_at = looked_at;
    self->limit = limit;
    self->inside = PyBytes_GET_SIZE(part) == 0;
    self->end = PyBytes_GET_SIZE(body);
    self->asides = PyList_New(0);
    if (self->asides == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
paragraphs_dealloc(PyObject *object)
{
    paragraphs_t *self = (paragraphs_t *)object;
    Py_XDECREF(self->body);
    Py_XDECREF(self->part);
    Py_XDECREF(self->asides);
    Py_TYPE(object)->tp_free(object);
}

static PyMemberDef members[] = {
    {"start", T_PYSSIZET, offsetof(paragraphs_t, start), READONLY, "Where the part begins."},
    {"end", T_PYSSIZET, offsetof(paragraphs_t, end), READONLY, "Where it ends."},
    {"asides", T_OBJECT_EX, offsetof(paragraphs_t, asides), READONLY, "What was left out, from where to where."},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject Paragraphs_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gcs.native._compiled.Paragraphs",
    .tp_doc = "What is written in the paragraphs of a page.",
    .tp_basicsize = sizeof(paragraphs_t),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = paragraphs_new,
    .tp_dealloc = paragraphs_dealloc,
    .tp_members = members,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = next_paragraph,
};
