/* Each key has one place, so that writing needs no search; a reader looks at the key before and after. */
#include "comm/ledger.h"

#include <string.h>

#include "base/atomics.h"

enum { WORDS = sizeof(peali_ledger_call) / sizeof(uint64_t) };

static_assert(sizeof(peali_ledger_call) == WORDS * sizeof(uint64_t), "written word by word");

void peali_ledger_write(peali_ledger *ledger, uint32_t key, const peali_ledger_call *call)
{
    uint64_t words[WORDS], *at = ledger->entries[key % PEALI_LEDGER_ENTRIES].words;
    uint64_t *its_key = &ledger->entries[key % PEALI_LEDGER_ENTRIES].key;
    memcpy(words, call, sizeof words);
    if (*its_key == key)
        return;
    peali_store_relaxed(its_key, 0);
    for (int k = 0; k < WORDS; k++)
        peali_store_release(&at[k], words[k]); /* not before the key is gone */
    peali_store_release(its_key, key); /* pairs with peali_ledger_read */
}

bool peali_ledger_read(const peali_ledger *ledger, uint32_t key, peali_ledger_call *call)
{
    const uint64_t *at = ledger->entries[key % PEALI_LEDGER_ENTRIES].words;
    const uint64_t *its_key = &ledger->entries[key % PEALI_LEDGER_ENTRIES].key;
    uint64_t words[WORDS], before = peali_load_acquire(its_key);
    for (int k = 0; k < WORDS; k++)
        words[k] = peali_load_acquire(&at[k]);
    if (before != key || peali_load_relaxed(its_key) != key)
        return false;
    memcpy(call, words, sizeof words);
    return true;
}
