/* See numbers.h. */

#include "numbers.h"

#define FIRST_SLOTS 64
#define FIRST_ROOM 64

static slot_t *
place_of(slot_t *slots, size_t mask, uint64_t digest)
{
    size_t at = (size_t)digest & mask;
    while (slots[at].number != 0 && slots[at].digest != digest) {
        at = (at + 1) & mask;
    }
    return &slots[at];
}

uint32_t
number_in(const table_t *table, uint64_t digest)
{
    /* Of nothing the number is 0, and one less is UNKNOWN. */
    return table->slots == NULL ? UNKNOWN : place_of(table->slots, table->mask, digest)->number - 1;
}

void
empty_table(table_t *table)
{
    PyMem_Free(table->slots);
    *table = (table_t){0};
}

static int
widen(table_t *table)
{
    size_t size = table->slots == NULL ? FIRST_SLOTS : 2 * (table->mask + 1);
    slot_t *slots = PyMem_Calloc(size, sizeof *slots);
    if (slots == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; table->slots != NULL && i <= table->mask; i++) {
        if (table->slots[i].number != 0) {
            *place_of(slots, size - 1, table->slots[i].digest) = table->slots[i];
        }
    }
    PyMem_Free(table->slots);
    table->slots = slots;
    table->mask = size - 1;
    return 0;
}

int
put_number(table_t *table, uint64_t digest, uint32_t number)
{
    if ((table->slots == NULL || 3 * (table->used + 1) > 2 * (table->mask + 1)) && widen(table) < 0) {
        return -1;
    }
    slot_t *slot = place_of(table->slots, table->mask, digest);
    table->used += slot->number == 0;
    *slot = (slot_t){digest, number + 1};
    return 0;
}

int
make_room(void **at, size_t *room, size_t count, size_t more, size_t size)
{
    if (more <= *room - count) {
        return 0;
    }
    size_t wanted = *room < FIRST_ROOM ? FIRST_ROOM : *room;
    while (wanted - count < more) {
        if (wanted > PY_SSIZE_T_MAX / 2 / size) {
            PyErr_NoMemory();
            return -1;
        }
        wanted *= 2;
    }
    void *moved = PyMem_Realloc(*at, wanted * size);
    if (moved == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *at = moved;
    *room = wanted;
    return 0;
}

int
room_for_numbers(numbers_t *numbers, size_t more)
{
    void *at = numbers->at;
    int result = make_room(&at, &numbers->room, numbers->count, more, sizeof *numbers->at);
    numbers->at = at;
    return result;
}

int
append_number(numbers_t *numbers, uint32_t number)
{
    if (numbers->count == numbers->room && room_for_numbers(numbers, 1) < 0) {
        return -1;
    }
    numbers->at[numbers->count++] = number;
    return 0;
}
