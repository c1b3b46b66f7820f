/* See markup.h. */

#include "markup.h"

static inline bool
is_name_byte(unsigned char byte)
{
    return !is_space(byte) && byte != '/' && byte != '>' && byte != '=';
}

static inline at_t
skip_spaces(at_t at, at_t end)
{
    while (at < end && is_space(*at)) {
        at++;
    }
    return at;
}

/* _VALUE: sets what is inside of the quotes, if there are any. */
static at_t
skip_value(at_t at, at_t end, span_t *value)
{
    if (at < end && (*at == '"' || *at == '\'')) {
        unsigned char quote = *at++;
        value->start = at;
        value->end = at = find(at, end, quote);
        return at < end ? at + 1 : end;
    }
    value->start = at;
    while (at < end && !is_space(*at) && *at != '>') {
        at++;
    }
    value->end = at;
    return at;
}

bool
next_attribute(at_t *where, at_t end, attribute_t *found)
{
    at_t at = *where;
    found->name.start = found->name.end = found->value.start = found->value.end = NULL;
    if (at >= end || *at == '>') {
        return false;
    }
    if (is_space(*at) || *at == '/') {
        while (at < end && (is_space(*at) || *at == '/')) {
            at++;
        }
        *where = at;
        return true;
    }
    at_t name = at;
    if (*at == '=') {
        at++;
        if (at >= end || !is_name_byte(*at)) {
            *where = at;
            return true;
        }
    }
    while (at < end && is_name_byte(*at)) {
        at++;
    }
    found->name.start = name;
    found->name.end = at;
    at_t equals = skip_spaces(at, end);
    if (is_at(equals, end, '=')) {
        at = skip_value(skip_spaces(equals + 1, end), end, &found->value);
    }
    *where = at;
    return true;
}

at_t
skip_attributes(at_t at, at_t end)
{
    attribute_t ignored;
    while (next_attribute(&at, end, &ignored)) {
    }
    return at;
}

bool
is_named(span_t name, const char *wanted)
{
    return name.start != NULL && skip_word(name.start, name.end, wanted) == name.end;
}

at_t
skip_comment(at_t at, at_t end)
{
    if (is_at(at, end, '>')) {
        return at + 1;
    }
    if (is_at(at, end, '-') && is_at(at + 1, end, '>')) {
        return at + 2;
    }
    for (;;) {
        at = find(at, end, '-');
        if (at >= end) {
            return end;
        }
        at++;
        if (is_at(at, end, '-')) {
            at_t after = at + 1;
            if (is_at(after, end, '!')) {
                after++;
            }
            if (is_at(after, end, '>')) {
                return after + 1;
            }
        }
    }
}

at_t
skip_raw_content(at_t at, at_t end, const char *name)
{
    for (;;) {
        at = find(at, end, '<');
        if (at >= end) {
            return end;
        }
        if (is_at(at + 1, end, '/') && skip_name(at + 2, end, name) != NULL) {
            return at;
        }
        at++;
    }
}

/* raw(name), with what it holds. */
static at_t
skip_raw(at_t at, at_t end, const char *name, span_t *content)
{
    at = skip_name(at, end, name);
    if (at == NULL) {
        return NULL;
    }
    at = skip_attributes(at, end);
    if (at < end) {
        at++; /* only ">" ends attributes */
    }
    content->start = at;
    content->end = skip_raw_content(at, end, name);
    return content->end;
}

at_t
skip_raw_element(at_t at, at_t end)
{
    static const char *const names[] = {"script", "style", "textarea", "xmp", "noembed", "noframes"};
    span_t ignored;
    if (at >= end || (lower(*at) != 's' && lower(*at) != 't' && lower(*at) != 'x' && lower(*at) != 'n')) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        at_t after = skip_raw(at, end, names[i], &ignored);
        if (after != NULL) {
            return after;
        }
    }
    return NULL;
}

at_t
skip_title(at_t at, at_t end, span_t *words)
{
    return skip_raw(at, end, "title", words);
}

at_t
skip_bogus(at_t at, at_t end)
{
    if (at >= end) {
        return NULL;
    }
    if (*at != '!' && *at != '?' && !(*at == '/' && !(at + 1 < end && is_letter(at[1])))) {
        return NULL;
    }
    return find(at + 1, end, '>');
}

at_t
skip_no_text(at_t at, at_t end)
{
    span_t ignored;
    if (end - at >= 3 && at[0] == '!' && at[1] == '-' && at[2] == '-') {
        return skip_comment(at + 3, end);
    }
    at_t after = skip_raw_element(at, end);
    if (after == NULL) {
        after = skip_title(at, end, &ignored);
    }
    if (after != NULL) {
        return after;
    }
    at_t name = is_at(at, end, '/') ? at + 1 : at;
    if (name < end && is_letter(*name)) {
        after = skip_attributes(name + 1, end);
    } else {
        after = skip_bogus(at, end);
    }
    return after != NULL && after < end ? after + 1 : after;
}

size_t
strip(span_t text, unsigned char *into, at_t (*skip)(at_t at, at_t end))
{
    unsigned char *out = into;
    at_t at = text.start;
    while (at < text.end) {
        at_t tag = find(at, text.end, '<');
        memcpy(out, at, (size_t)(tag - at));
        out += tag - at;
        if (tag >= text.end) {
            break;
        }
        at = skip(tag + 1, text.end);
        if (at == NULL) {
            *out++ = '<';
            at = tag + 1;
        }
    }
    return (size_t)(out - into);
}
