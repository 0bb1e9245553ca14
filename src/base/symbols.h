/* Functions of a library that is opened at first use. */
#ifndef PEALI_SYMBOLS_H
#define PEALI_SYMBOLS_H

#include <stddef.h>

/* A function's name, and the pointer that it goes to. */
typedef struct peali_symbol {
    const char *name;
    void *place;
} peali_symbol;

/* Fills the places of the N SYMBOLS from LIBRARY, which dlopen returned. NULL; or the name of the first that it lacks. */
const char *peali_symbols_find(void *library, const peali_symbol *symbols, size_t n);

#endif
