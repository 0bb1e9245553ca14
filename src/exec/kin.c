/*
 * Each fork has a token: a file of one page, mapped shared and writable when the child is made, and unmapped in the parent right
 * after. While any process has it mapped so, the kernel refuses to seal it against writing; when it can be sealed, all are gone.
 * A pipe would not do: a child that closes descriptors that it does not know would seem dead. Waiting for the child would not
 * either: it may run another program and live on, and have children of its own.
 */
#include "exec/kin.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exec/memfile.h"

enum { TOKENS = 16 }; /* descriptors that living children cost at most; further forks share the last token */

struct token {
    peali_memfile file; /* none: could not be had, its children live for ever */
    uint32_t first, last; /* forks */
};

/* Of this process, because its children are. Guarded by peali_pool's lock. */
static struct {
    struct token token[TOKENS];
    int n;
    uint32_t forks;
    void *mapped; /* the last token, while a fork is under way */
} kin;

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* The token of the next child: a new one, or the last where there are too many. */
static struct token *choose(void)
{
    if (kin.n == TOKENS)
        return &kin.token[TOKENS - 1];
    struct token *t = &kin.token[kin.n++];
    t->first = kin.forks;
    if (!peali_memfile_open(&t->file, page()))
        t->file.fd = -1;
    return t;
}

uint32_t peali_kin_expect(void)
{
    kin.forks++;
    if (!kin.mapped) {
        peali_kin_count();
        struct token *t = choose();
        if (peali_memfile_ours(&t->file))
            kin.mapped = mmap(NULL, page(), PROT_READ | PROT_WRITE, MAP_SHARED, t->file.fd, 0);
        if (kin.mapped == MAP_FAILED)
            kin.mapped = NULL;
        if (!kin.mapped)
            peali_memfile_close(&t->file);
    }
    kin.token[kin.n - 1].last = kin.forks;
    return kin.forks;
}

uint32_t peali_kin_last(void)
{
    return kin.forks;
}

void peali_kin_settle(void)
{
    if (kin.mapped)
        munmap(kin.mapped, page());
    kin.mapped = NULL;
}

/* The token stays mapped: that is how the child counts as alive. */
void peali_kin_leave(void)
{
    for (int i = 0; i < kin.n; i++)
        peali_memfile_close(&kin.token[i].file);
    kin.n = 0;
    kin.mapped = NULL;
}

static bool gone(struct token *t)
{
    return peali_memfile_ours(&t->file) && fcntl(t->file.fd, F_ADD_SEALS, F_SEAL_WRITE) == 0;
}

void peali_kin_count(void)
{
    int kept = 0;
    for (int i = 0; i < kin.n; i++) {
        if (gone(&kin.token[i]))
            peali_memfile_close(&kin.token[i].file);
        else
            kin.token[kept++] = kin.token[i];
    }
    kin.n = kept;
}

bool peali_kin_lives(uint32_t first, uint32_t last)
{
    for (int i = 0; i < kin.n; i++)
        if (kin.token[i].first <= last && first <= kin.token[i].last)
            return true;
    return false;
}
