/* Pointers to functions are copied as bytes, for ISO C does not convert them from those to data. */
#include "base/symbols.h"

#include <dlfcn.h>
#include <string.h>

const char *peali_symbols_find(void *library, const peali_symbol *symbols, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(library, symbols[i].name);
        memcpy(symbols[i].place, &found, sizeof(found));
        if (!found)
            return symbols[i].name;
    }
    return NULL;
}
