/*
 * Fuzzing of the readers of schedules and programs. Whatever the bytes, a reader ends without a crash; it refuses with a cause, or
 * what it took is printed as the same bytes and is fit for use.
 *
 * This file is a test by itself: from a fixed seed it mutates the texts of all algorithms. Under clang's fuzzer it is the target;
 * `fuzz_text --seeds DIR` writes the texts for it to begin with, to a new folder. tests/meson.build says how.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lower/program_text.h"
#include "sched/text.h"
#include "text_samples.h"

static void fail(const char *what, const uint8_t *data, size_t size)
{
    fprintf(stderr, "%s\n%.*s\n", what, (int)size, (const char *)data);
    abort();
}

static void same(const peal_sched *s, const peali_program *p, const uint8_t *data, size_t size)
{
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    if (s)
        peali_sched_print(s, to);
    else
        peali_program_print(p, to);
    fclose(to);
    if (length != size || memcmp(text, data, size) != 0)
        fail("what was read is printed otherwise", data, size);
    free(text);
}

static void fit_sched(const peal_sched *s, const uint8_t *data, size_t size)
{
    peali_order order;
    for (int32_t i = 0; i < s->nops; i++) {
        const peali_op *op = &s->ops[i];
        bool message = op->verb == PEALI_SEND || op->verb == PEALI_RECV;
        bool good = op->first >= 0 && op->first < op->end && op->end <= s->nblocks && op->lane < s->nlanes;
        good &= op->dst != PEAL_BUF_IN && op->dst < s->nbufs && op->src < s->nbufs;
        good &= !message || (op->peer >= 0 && op->peer < s->nranks && op->peer != s->rank);
        if (!good)
            fail("an operation is out of bounds", data, size);
    }
    if (peali_order_infer(s, &order) != PEAL_OK)
        fail("no order", data, size);
    peali_order_free(&order);
}

static bool fit_instr(const peali_program *p, int32_t no)
{
    const peali_instr *i = &p->instrs[no];
    bool whole = i->kind == PEALI_I_ENTER || i->kind == PEALI_I_EXIT || i->nsrc + i->ndst == 0;
    bool good = whole || (i->first >= 0 && i->first < i->end && i->end < p->ncuts);
    for (int32_t k = 0; k < i->nsrc + i->ndst; k++) {
        const peali_loc *l = &p->locs[i->locs + k];
        good &= l->rank >= 0 && l->rank < p->nreach && l->base >= 0 && l->base <= i->first;
        good &= l->buf < 0 || l->buf - PEAL_BUF_TMP < p->nscratch;
        good &= l->buf >= 0 || p->land_start[l->rank] - 1 - l->buf < p->land_start[l->rank + 1];
    }
    for (int32_t k = 0; k < i->nwaits; k++)
        good &= p->waits[i->waits + k] >= 0 && p->waits[i->waits + k] < no;
    for (int32_t k = 0; k < i->nawaits; k++) {
        const peali_await *a = &p->awaits[i->awaits + k];
        good &= a->rank >= 0 && a->rank < p->nreach && a->flag >= 0 && a->flag < p->most_flags;
    }
    return good && i->lane < p->nlanes && i->flag < p->nflags && i->peer < p->nranks;
}

static void fit_program(const peali_program *p, const uint8_t *data, size_t size)
{
    bool good = p->rank < p->nranks && p->me < p->nreach && p->nreach <= p->nranks && p->nflags <= p->most_flags;
    for (int32_t k = 0; k < p->ncuts; k++)
        good &= p->cuts[k] <= p->nblocks && p->cuts[k] > (k ? p->cuts[k - 1] : -1);
    for (int32_t k = 0; k < p->nland; k++)
        good &= p->land_first[k] < p->land_end[k] && p->land_end[k] < p->ncuts;
    for (int32_t no = 0; no < p->ninstrs; no++)
        good &= fit_instr(p, no);
    if (!good)
        fail("a program is out of bounds", data, size);
}

/* True where the bytes were a schedule or a program. */
static bool taken(const uint8_t *data, size_t size)
{
    char why[PEALI_SCAN_WHY];
    peal_sched *sched = NULL;
    peali_program *program = NULL;
    peal_status read[2];
    read[0] = peali_sched_read((const char *)data, size, &sched, why);
    if ((read[0] == PEAL_OK) != (why[0] == '\0') || (read[0] == PEAL_OK) != (sched != NULL))
        fail("a schedule is neither taken nor refused", data, size);
    read[1] = peali_program_read((const char *)data, size, &program, why);
    if ((read[1] == PEAL_OK) != (why[0] == '\0') || (read[1] == PEAL_OK) != (program != NULL))
        fail("a program is neither taken nor refused", data, size);
    if (sched)
        fit_sched(sched, data, size);
    if (program)
        fit_program(program, data, size);
    if (sched || program)
        same(sched, program, data, size);
    peali_sched_free(&sched);
    peali_program_free(&program);
    return read[0] == PEAL_OK || read[1] == PEAL_OK;
}

#ifdef PEALI_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    taken(data, size);
    return 0;
}
#else
enum { MOST_TEXTS = 4096, LONGEST = 8192, INPUTS = 2000000 };

typedef struct corpus {
    char *at[MOST_TEXTS];
    size_t length[MOST_TEXTS];
    int n;
} corpus;

static void keep(const peal_sched *s, const peali_program *p, void *ctx)
{
    corpus *c = ctx;
    if (c->n == MOST_TEXTS)
        return;
    FILE *to = open_memstream(&c->at[c->n], &c->length[c->n]);
    if (s)
        peali_sched_print(s, to);
    else
        peali_program_print(p, to);
    fclose(to);
    c->n++;
}

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 11;
}

typedef struct input {
    char at[LONGEST];
    size_t length;
} input;

/* LENGTH bytes at AT become the COUNT bytes WITH, if there is room. */
static void splice(input *in, size_t at, size_t length, const char *with, size_t count)
{
    if (in->length - length + count > LONGEST)
        return;
    memmove(in->at + at + count, in->at + at + length, in->length - at - length);
    memmove(in->at + at, with, count);
    in->length += count - length;
}

/* The line around AT, its end included. */
static size_t line_at(const input *in, size_t at, size_t *length)
{
    size_t first = at, end = at;
    while (first > 0 && in->at[first - 1] != '\n')
        first--;
    while (end < in->length && in->at[end++] != '\n')
        continue;
    *length = end - first;
    return first;
}

static void mutate_number(input *in, size_t at, uint64_t *state)
{
    static const int64_t edges[] = {0,     1,     2,     63,        64,         255,        256,       16382,
                                    32767, 32768, 65535, 65536,     2147483646, 2147483647, 2147483648};
    while (at < in->length && (in->at[at] < '0' || in->at[at] > '9'))
        at++;
    size_t end = at;
    while (end < in->length && in->at[end] >= '0' && in->at[end] <= '9')
        end++;
    char text[24];
    uint64_t kind = draw(state) % 3, edge = draw(state) % (sizeof edges / sizeof *edges);
    int64_t value = kind == 0 ? edges[edge] : (int64_t)(draw(state) % 10);
    int n = snprintf(text, sizeof text, "%" PRId64, value);
    if (at < end)
        splice(in, at, end - at, text, (size_t)n);
}

static void mutate(input *in, const corpus *c, uint64_t *state)
{
    static const char alphabet[] = "0123456789 \n[]():@+->',abcdefghilmnoprstuwxy_";
    size_t at = draw(state) % (in->length + 1), length, other = draw(state) % (uint64_t)c->n;
    size_t first = line_at(in, at, &length);
    char copy[LONGEST], byte = alphabet[draw(state) % (sizeof alphabet - 1)];
    switch (draw(state) % 8) {
    case 0: splice(in, at, at < in->length, &byte, 1); break;
    case 1: splice(in, at, 0, &byte, 1); break;
    case 2: splice(in, at, at < in->length, "", 0); break;
    case 3: splice(in, first, length, "", 0); break;
    case 4: memcpy(copy, in->at + first, length); splice(in, first, 0, copy, length); break;
    case 5: splice(in, at, in->length - at, c->at[other] + c->length[other] / 2, (c->length[other] + 1) / 2); break;
    case 6: in->at[at < LONGEST ? at : 0] = (char)draw(state); break;
    default: mutate_number(in, at, state); break;
    }
}

static int write_seeds(const corpus *c, const char *dir)
{
    if (mkdir(dir, 0777) != 0) {
        perror(dir);
        return 1;
    }
    for (int i = 0; i < c->n; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%04d", dir, i);
        FILE *to = fopen(name, "w");
        if (!to || fwrite(c->at[i], 1, c->length[i], to) != c->length[i] || fclose(to) != 0) {
            perror(name);
            return 1;
        }
    }
    return 0;
}

static int test(const corpus *c)
{
    uint64_t state = 0x9e3779b97f4a7c15u;
    long count = 0;
    for (long k = 0; k < INPUTS; k++) {
        static input in;
        size_t from = draw(&state) % (uint64_t)c->n;
        if (c->length[from] > LONGEST)
            continue;
        memcpy(in.at, c->at[from], in.length = c->length[from]);
        for (uint64_t edits = 1 + draw(&state) % 3; edits > 0; edits--)
            mutate(&in, c, &state);
        uint8_t *data = memcpy(malloc(in.length + 1), in.at, in.length); /* of its size, for the sanitizers */
        count += taken(data, in.length);
        free(data);
    }
    printf("%d texts, %d inputs, of which %ld were texts\n", c->n, INPUTS, count);
    return count < INPUTS / 1000; /* else the mutations miss what is behind the first line */
}

int main(int argc, char **argv)
{
    static corpus c;
    for (int n = 1; n <= 4; n++)
        text_samples(n, keep, &c);
    int result = argc == 3 && strcmp(argv[1], "--seeds") == 0 ? write_seeds(&c, argv[2]) : test(&c);
    for (int i = 0; i < c.n; i++)
        free(c.at[i]);
    return result;
}
#endif
