/* The grammar of tags over bytes: the same as gcs/summary/markup.py, as functions instead of expressions.

   Every function takes where to look and the end of all bytes, reads nothing at or beyond the end, and goes
   forward only. A function that finds nothing returns NULL. Comments name the expression that each one is. */

#ifndef GCS_MARKUP_H
#define GCS_MARKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef const unsigned char *at_t;

/* Some bytes of a page; start is NULL for what is not there. */
typedef struct {
    at_t start;
    at_t end;
} span_t;

static inline size_t
size_of(span_t span)
{
    return span.start == NULL ? 0 : (size_t)(span.end - span.start);
}

static inline at_t
find(at_t at, at_t end, int byte)
{
    at_t found = at < end ? memchr(at, byte, (size_t)(end - at)) : NULL;
    return found == NULL ? end : found;
}

/* [\t\n\f\r ] */
static inline bool
is_space(unsigned char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r' || byte == '\f';
}

static inline bool
is_letter(unsigned char byte)
{
    return (unsigned char)((byte | 0x20) - 'a') < 26;
}

static inline unsigned char
lower(unsigned char byte)
{
    return (unsigned char)(byte - 'A') < 26 ? (unsigned char)(byte | 0x20) : byte;
}

static inline bool
is_at(at_t at, at_t end, unsigned char byte)
{
    return at < end && *at == byte;
}

/* NAME_ENDS: (?=[\t\n\f\r />]) */
static inline bool
ends_name(at_t at, at_t end)
{
    return at < end && (is_space(*at) || *at == '/' || *at == '>');
}

/* (?i:name), for a name in small letters: where it ends. */
static inline at_t
skip_word(at_t at, at_t end, const char *name)
{
    for (; *name != '\0'; name++, at++) {
        if (at >= end || lower(*at) != (unsigned char)*name) {
            return NULL;
        }
    }
    return at;
}

/* (?i:name)NAME_ENDS: where the name ends. */
static inline at_t
skip_name(at_t at, at_t end, const char *name)
{
    at_t after = skip_word(at, end, name);
    return after != NULL && ends_name(after, end) ? after : NULL;
}

typedef struct {
    span_t name;
    span_t value;
} attribute_t;

/* One ATTRIBUTE, after which *at stands; false where there is none, which is at ">" and at the end.
   What is no name but a stray "=", white space or "/" has no span for a name. */
bool next_attribute(at_t *at, at_t end, attribute_t *found);

/* ATTRIBUTE*+ */
at_t skip_attributes(at_t at, at_t end);

/* Whether a name is this one, which is in small letters. */
bool is_named(span_t name, const char *wanted);

/* COMMENT without its "!--", before which *at stands; it always ends somewhere. */
at_t skip_comment(at_t at, at_t end);

/* raw_content(name): where the end tag of that name begins, or the end. */
at_t skip_raw_content(at_t at, at_t end, const char *name);

/* SKIPPED: an element whose content is raw text, after its "<"; NULL if it is none. */
at_t skip_raw_element(at_t at, at_t end);

/* raw("title"): sets what it holds. */
at_t skip_title(at_t at, at_t end, span_t *words);

/* BOGUS, after its "<"; NULL if it is none. */
at_t skip_bogus(at_t at, at_t end);

/* A text is written into `into`, which has room for all of it, without what `skip` passes over: that is given
   where a "<" ends, and returns where what is left out ends, or NULL. Returns how long it is then. */
size_t strip(span_t text, unsigned char *into, at_t (*skip)(at_t at, at_t end));

/* _NO_TEXT after its "<": a tag, a comment, a script or a style; NULL if there is none. */
at_t skip_no_text(at_t at, at_t end);

#endif
