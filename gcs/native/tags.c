/* What the tags of a page say, in one pass over its bytes: the expressions of `gcs.summary.scan` and
   `gcs.summary.page` as one function.

   At each "<" the first of the alternatives that fits is taken, and where none does the walk goes on behind
   it. What is rare (heads, areas, character references) is handed to Python as bytes. */

#include "tags.h"

#include "text.h"

/* Pages beyond this are not read to their end when they have had enough tags. */
#define LARGE_BYTES (1 << 20)
#define ENOUGH 10

typedef enum { LINK, AREA, OTHER, HEADING, HTML, TITLE, NOTHING } kind_t;

typedef struct {
    kind_t kind;
    bool is_closed; /* by ">", not by the end of the page */
    int level;      /* of a heading */
    span_t name;
    span_t attributes;
    span_t href;
    span_t rel;
    span_t words; /* of a title */
    at_t end;     /* of all that the tag takes */
} tag_t;

/* _ANCHOR, after the name: all attributes, of which the first href and the first rel count. */
static void
read_anchor(at_t at, at_t end, tag_t *tag)
{
    attribute_t found;
    bool has_href = false, has_rel = false;
    tag->attributes.start = at;
    while (next_attribute(&at, end, &found)) {
        if (!has_href && is_named(found.name, "href")) {
            tag->href = found.value;
            has_href = true;
        } else if (!has_rel && is_named(found.name, "rel")) {
            tag->rel = found.value;
            has_rel = true;
        }
    }
    tag->attributes.end = at;
    tag->is_closed = at < end;
    tag->end = tag->is_closed ? at + 1 : end;
}

/* OTHER, after its "<". */
static bool
read_other(at_t at, at_t end, tag_t *tag)
{
    static const char *const names[] = {"link", "meta", "base", "iframe", "frame"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        at_t after = skip_name(at, end, names[i]);
        if (after == NULL) {
            continue;
        }
        tag->kind = OTHER;
        tag->name.start = at;
        tag->name.end = after;
        tag->attributes.start = after;
        tag->attributes.end = after = skip_attributes(after, end);
        tag->is_closed = after < end;
        tag->end = tag->is_closed ? after + 1 : end;
        if (names[i][0] == 'i') {
            tag->end = skip_raw_content(tag->end, end, "iframe");
        }
        return true;
    }
    return false;
}

/* [hH](?:[1-6]...|(?i:tml)...), after its "<". */
static bool
read_heading(at_t at, at_t end, tag_t *tag)
{
    if (at + 1 < end && at[1] >= '1' && at[1] <= '6') {
        tag->kind = HEADING;
        tag->level = at[1] - '0';
        if (!ends_name(at + 2, end)) {
            return false;
        }
        at = skip_attributes(at + 2, end);
        tag->end = at < end ? at + 1 : end;
        return true;
    }
    tag->kind = HTML;
    tag->attributes.start = skip_name(at, end, "html");
    if (tag->attributes.start == NULL) {
        return false;
    }
    tag->name.start = at;
    tag->name.end = tag->attributes.start;
    tag->attributes.end = tag->end = skip_attributes(tag->attributes.start, end);
    return true;
}

/* The tag after a "<"; false if it is none of those that count. */
static bool
read_tag(at_t at, at_t end, tag_t *tag)
{
    if (at >= end) {
        return false;
    }
    memset(tag, 0, sizeof *tag);
    tag->kind = NOTHING;
    switch (*at) {
    case 'a':
    case 'A': {
        at_t name = skip_word(at + 1, end, "rea");
        tag->kind = name == NULL ? LINK : AREA;
        name = name == NULL ? at + 1 : name;
        if (!ends_name(name, end)) {
            return false;
        }
        tag->name.start = at;
        tag->name.end = name;
        read_anchor(name, end, tag);
        return true;
    }
    case 'h':
    case 'H':
        return read_heading(at, end, tag);
    case 'b':
    case 'B':
    case 'f':
    case 'F':
    case 'i':
    case 'I':
    case 'l':
    case 'L':
    case 'm':
    case 'M':
        return read_other(at, end, tag);
    case 'n':
    case 'N':
    case 's':
    case 'S':
    case 'x':
    case 'X':
        tag->end = skip_raw_element(at, end);
        return tag->end != NULL;
    case 't':
    case 'T':
        tag->end = skip_raw_element(at, end);
        if (tag->end == NULL) {
            tag->kind = TITLE;
            tag->end = skip_title(at, end, &tag->words);
        }
        return tag->end != NULL;
    case '!':
        if (end - at >= 3 && at[1] == '-' && at[2] == '-') {
            tag->end = skip_comment(at + 3, end);
            return true;
        }
        tag->end = skip_bogus(at, end);
        return true;
    case '?':
        tag->end = skip_bogus(at, end);
        return true;
    case '/':
        if (at + 1 >= end || is_letter(at[1])) {
            return false;
        }
        tag->end = skip_bogus(at, end);
        return true;
    default:
        return false;
    }
}

typedef struct {
    at_t at;
    at_t end;
    Py_ssize_t left; /* how many more tags are wanted; negative if all are */
} walk_t;

static walk_t
begin_walk(PyObject *body, Py_ssize_t most)
{
    at_t start = (at_t)PyBytes_AS_STRING(body);
    Py_ssize_t size = PyBytes_GET_SIZE(body);
    walk_t walk = {start, start + size, size > LARGE_BYTES ? ENOUGH * most + 1 : -1};
    return walk;
}

/* The next tag that counts; false when there is none. */
static bool
next_tag(walk_t *walk, tag_t *tag)
{
    while (walk->left != 0) {
        at_t begin = find(walk->at, walk->end, '<');
        if (begin >= walk->end) {
            return false;
        }
        walk->at = begin + 1;
        if (read_tag(begin + 1, walk->end, tag)) {
            walk->at = tag->end;
            walk->left -= walk->left > 0;
            return true;
        }
    }
    return false;
}

/* <a or </a, of which the name is here. */
static bool
bounds_link(at_t name, at_t end)
{
    return name < end && (*name == 'a' || *name == 'A') && ends_name(name + 1, end);
}

/* <h1 or </h1, of any level. */
static bool
bounds_heading(at_t name, at_t end)
{
    return end - name >= 2 && (*name == 'h' || *name == 'H') && name[1] >= '1' && name[1] <= '6';
}

/* _IN_LINK and _IN_HEADING: what is written up to the next tag that bounds such a text. */
static span_t
text_at(at_t at, at_t end, bool (*bounds)(at_t name, at_t end))
{
    span_t text = {at, end};
    for (;;) {
        at = find(at, end, '<');
        text.end = at;
        if (at >= end) {
            return text;
        }
        at++;
        if (bounds(is_at(at, end, '/') ? at + 1 : at, end)) {
            return text;
        }
    }
}

/* Appends what was made, of which the reference is stolen; -1 if nothing was made. */
static int
add(PyObject *list, PyObject *made)
{
    if (made == NULL) {
        return -1;
    }
    int failed = PyList_Append(list, made);
    Py_DECREF(made);
    return failed;
}

/* Appends a text, and to `referring` its place if Python is to resolve references in it. */
static int
add_text(PyObject *list, PyObject *referring, PyObject *text)
{
    if (text != NULL && PyBytes_CheckExact(text)
        && add(referring, PyLong_FromSsize_t(PyList_GET_SIZE(list))) < 0) {
        Py_DECREF(text);
        return -1;
    }
    return add(list, text);
}

static PyObject *
bytes_of(span_t span)
{
    return PyBytes_FromStringAndSize((const char *)span.start, (Py_ssize_t)size_of(span));
}

/* Notes a tag that Python is to look at, and which place among the links it has. */
static int
add_special(PyObject *specials, Py_ssize_t place, PyObject *name, span_t attributes)
{
    return add(specials, Py_BuildValue("(nNN)", place, name, bytes_of(attributes)));
}

PyObject *
links_in(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *body;
    Py_ssize_t most;
    if (!PyArg_ParseTuple(args, "Sn:links_in", &body, &most)) {
        return NULL;
    }
    PyObject *hrefs = PyList_New(0), *referring = PyList_New(0), *specials = PyList_New(0);
    if (hrefs == NULL || referring == NULL || specials == NULL) {
        goto failed;
    }
    walk_t walk = begin_walk(body, most);
    tag_t tag;
    while (next_tag(&walk, &tag)) {
        if (!tag.is_closed) {
            continue;
        }
        if (tag.kind == OTHER) {
            if (add_special(specials, PyList_GET_SIZE(hrefs), bytes_of(tag.name), tag.attributes) < 0
                || PyList_Append(hrefs, Py_None) < 0) {
                goto failed;
            }
        } else if (size_of(tag.href) > 0 && add_text(hrefs, referring, value_of(tag.href)) < 0) {
            goto failed;
        }
    }
    return Py_BuildValue("(NNN)", hrefs, referring, specials);
failed:
    Py_XDECREF(hrefs);
    Py_XDECREF(referring);
    Py_XDECREF(specials);
    return NULL;
}

/* Notes the rel of the link at a place. */
static int
add_rel(PyObject *rels, Py_ssize_t place, span_t written)
{
    PyObject *key = PyLong_FromSsize_t(place), *rel = value_of(written);
    int failed = key == NULL || rel == NULL ? -1 : PyDict_SetItem(rels, key, rel);
    Py_XDECREF(key);
    Py_XDECREF(rel);
    return failed;
}

PyObject *
tags_in(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *body;
    Py_ssize_t most, limit;
    if (!PyArg_ParseTuple(args, "Snn:tags_in", &body, &most, &limit)) {
        return NULL;
    }
    enum { HREFS, REFERRING_HREFS, TEXTS, REFERRING_TEXTS, HEADINGS, SPECIALS, LISTS };
    PyObject *lists[LISTS] = {NULL}, *rels = PyDict_New();
    bool is_made = rels != NULL;
    for (int i = 0; i < LISTS; i++) {
        lists[i] = PyList_New(0);
        is_made = is_made && lists[i] != NULL;
    }
    if (!is_made) {
        goto failed;
    }
    span_t title = {NULL, NULL};
    walk_t walk = begin_walk(body, most);
    tag_t tag;
    while (next_tag(&walk, &tag)) {
        Py_ssize_t place = PyList_GET_SIZE(lists[HREFS]);
        int failed = 0;
        switch (tag.kind) {
        case LINK:
            if (tag.is_closed && size_of(tag.href) > 0) {
                failed = (size_of(tag.rel) > 0 && add_rel(rels, place, tag.rel) < 0)
                         || add_text(lists[HREFS], lists[REFERRING_HREFS], value_of(tag.href)) < 0
                         || add_text(lists[TEXTS], lists[REFERRING_TEXTS],
                                     line_of(text_at(tag.end, walk.end, bounds_link), limit)) < 0;
            }
            break;
        case AREA:
        case OTHER:
            if (tag.is_closed) {
                failed = add_special(lists[SPECIALS], place, bytes_of(tag.name), tag.attributes) < 0
                         || PyList_Append(lists[HREFS], Py_None) < 0
                         || add(lists[TEXTS], PyUnicode_New(0, 0)) < 0;
            }
            break;
        case HTML:
            if (size_of(tag.attributes) > 0) {
                failed = add_special(lists[SPECIALS], place, bytes_of(tag.name), tag.attributes) < 0;
            }
            break;
        case HEADING:
            failed = add(lists[HEADINGS],
                         Py_BuildValue("(iN)", tag.level,
                                       line_of(text_at(tag.end, walk.end, bounds_heading), limit))) < 0;
            break;
        case TITLE:
            title = size_of(title) == 0 ? tag.words : title;
            break;
        case NOTHING:
            break;
        }
        if (failed) {
            goto failed;
        }
    }
    return Py_BuildValue("(NNNNNNNN)", lists[HREFS], lists[REFERRING_HREFS], lists[TEXTS],
                         lists[REFERRING_TEXTS], rels, lists[HEADINGS], lists[SPECIALS], bytes_of(title));
failed:
    Py_XDECREF(rels);
    for (int i = 0; i < LISTS; i++) {
        Py_XDECREF(lists[i]);
    }
    return NULL;
}
