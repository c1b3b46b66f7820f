/* Tables from digests to numbers, and rows of numbers that grow. What is all zeros is empty. */

#ifndef GCS_NUMBERS_H
#define GCS_NUMBERS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#define UNKNOWN UINT32_MAX /* the number of what is in no table */

typedef struct {
    uint64_t digest;
    uint32_t number; /* one more than what it stands for; 0 where there is nothing */
} slot_t;

typedef struct {
    slot_t *slots; /* a power of two of them, at most two thirds in use */
    size_t mask;
    size_t used;
} table_t;

typedef struct {
    uint32_t *at;
    size_t count;
    size_t room;
} numbers_t;

/* The place where a digest would be looked for first; NULL if there is none yet. */
static inline const void *
first_place(const table_t *table, uint64_t digest)
{
    return table->slots == NULL ? NULL : &table->slots[(size_t)digest & table->mask];
}

/* The number of a digest; UNKNOWN if it is not there. */
uint32_t number_in(const table_t *table, uint64_t digest);

/* Lets a digest have a number, which is not UNKNOWN; -1 with an error if there is no memory. */
int put_number(table_t *table, uint64_t digest, uint32_t number);

/* Lets all go. */
void empty_table(table_t *table);

/* Lets there be room for so many more of some size after those that there are; -1 with an error if there is no
   memory, and then everything is as it was. */
int make_room(void **at, size_t *room, size_t count, size_t more, size_t size);

int room_for_numbers(numbers_t *numbers, size_t more);
int append_number(numbers_t *numbers, uint32_t number);

#endif
