/*
 * The reader fills arrays of its own, which double within the program's arena, because a text does not say how many there will be.
 * Slots are checked when a whole operand is known, since their rank is said last.
 */
#include "lower/program_text.h"

#include <string.h>

#include "sched/text.h"

enum { MOST_FLAGS = 1 << 24, MOST_REACH = INT16_MAX, MOST_SCRATCH = INT16_MAX - PEAL_BUF_TMP + 1, ROOM = 16 };

/* How an instruction is called, which for a reduce depends on its sources. */
enum word { W_ENTER, W_REDUCE, W_COPY, W_WAIT, W_SEND, W_RECV, W_EXIT, NWORDS };
static const struct word_form {
    const char *name;
    uint8_t kind;
    const char *link; /* before the peer */
} words[NWORDS] = {
    [W_ENTER] = {"enter", PEALI_I_ENTER, NULL},     [W_REDUCE] = {"reduce", PEALI_I_REDUCE, NULL},
    [W_COPY] = {"copy", PEALI_I_REDUCE, NULL},      [W_WAIT] = {"wait", PEALI_I_REDUCE, NULL},
    [W_SEND] = {"send", PEALI_I_SEND, " to "},      [W_RECV] = {"recv", PEALI_I_RECV, " from "},
    [W_EXIT] = {"exit", PEALI_I_EXIT, NULL},
};

static enum word word_of(const peali_instr *i)
{
    if (i->kind == PEALI_I_REDUCE)
        return i->nsrc == 0 ? W_WAIT : i->nsrc == 1 ? W_COPY : W_REDUCE;
    return i->kind == PEALI_I_ENTER ? W_ENTER : i->kind == PEALI_I_SEND ? W_SEND : i->kind == PEALI_I_RECV ? W_RECV : W_EXIT;
}

static bool has_range(enum word w)
{
    return w == W_REDUCE || w == W_COPY || w == W_SEND || w == W_RECV;
}

/* Printing. */

static void print_loc(const peali_program *p, const peali_instr *i, peali_loc loc, FILE *to)
{
    if (loc.buf < 0)
        fprintf(to, "land%d", -1 - loc.buf);
    else
        peali_text_buffer(loc.buf, to);
    if ((loc.buf < 0 || loc.buf >= PEAL_BUF_TMP) && loc.base != i->first)
        fprintf(to, "(%d)", (int)p->cuts[loc.base]);
    if (loc.rank != p->me)
        fprintf(to, "@%d", loc.rank);
}

/* Sources are added up; an exit only reads them. */
static void print_operands(const peali_program *p, const peali_instr *i, FILE *to)
{
    const char *before_src = i->kind == PEALI_I_EXIT ? " reads " : " ", *before_dst = i->nsrc > 0 ? " -> " : " ";
    for (int k = 0; k < i->nsrc; k++) {
        fputs(k == 0 ? before_src : i->kind == PEALI_I_EXIT ? ", " : " + ", to);
        print_loc(p, i, p->locs[i->locs + k], to);
    }
    for (int k = 0; k < i->ndst; k++) {
        fputs(k == 0 ? before_dst : ", ", to);
        print_loc(p, i, p->locs[i->locs + i->nsrc + k], to);
    }
}

static void print_instr(const peali_program *p, int32_t no, FILE *to)
{
    const peali_instr *i = &p->instrs[no];
    enum word w = word_of(i);
    fprintf(to, "%d %s", (int)no, words[w].name);
    if (has_range(w))
        fprintf(to, " [%d:%d)", (int)p->cuts[i->first], (int)p->cuts[i->end]);
    print_operands(p, i, to);
    if (words[w].link)
        fprintf(to, "%s%d", words[w].link, (int)i->peer);
    if (i->lane > 0)
        fprintf(to, " lane %d", i->lane);
    for (int32_t k = 0; k < i->nwaits; k++)
        fprintf(to, "%s%d", k ? ", " : " after ", (int)p->waits[i->waits + k]);
    for (int32_t k = 0; k < i->nawaits; k++) {
        const peali_await *a = &p->awaits[i->awaits + k];
        fprintf(to, "%s%d:%d", k ? ", " : " await ", (int)a->rank, (int)a->flag);
    }
    if (i->flag >= 0)
        fprintf(to, " flag %d", (int)i->flag);
    fputc('\n', to);
}

static void print_list(const char *name, const int32_t *list, int32_t n, FILE *to)
{
    fputs(name, to);
    for (int32_t i = 0; i < n; i++)
        fprintf(to, " %d", (int)list[i]);
    fputc('\n', to);
}

/* The ranks within reach that are marked. */
static void print_marks(const char *name, const uint8_t *marks, int32_t n, FILE *to)
{
    fputs(name, to);
    for (int32_t i = 0; i < n; i++)
        if (marks[i])
            fprintf(to, " %d", (int)i);
    fputc('\n', to);
}

static void print_landings(const peali_program *p, FILE *to)
{
    for (int32_t y = 0; y < p->nreach; y++) {
        fprintf(to, "land %d", (int)y);
        for (int32_t k = p->land_start[y]; k < p->land_start[y + 1]; k++)
            fprintf(to, " [%d:%d)", (int)p->cuts[p->land_first[k]], (int)p->cuts[p->land_end[k]]);
        fputc('\n', to);
    }
}

void peali_program_print(const peali_program *p, FILE *to)
{
    fprintf(to, "program %s %s rank %d of %d\n", peal_kind_name(p->algo->kind), p->algo->name, (int)p->rank, (int)p->nranks);
    fprintf(to, "reach %d of %d %s\n", (int)p->me, (int)p->nreach, peali_mode_name(p->mode));
    fprintf(to, "blocks %d lanes %d flags %d\n", (int)p->nblocks, (int)p->nlanes, (int)p->most_flags);
    print_list("cuts", p->cuts, p->ncuts, to);
    print_list("scratch", p->slot_blocks, p->nscratch, to);
    if (p->mode == PEALI_PUSH)
        print_landings(p, to);
    print_marks("stores-to", p->stores_to, p->nreach, to);
    print_marks("knows", p->knows, p->nreach, to);
    for (int32_t no = 0; no < p->ninstrs; no++)
        print_instr(p, no, to);
    fputs("end\n", to);
}

/* Reading. The arrays here are those of the program, while they can still be written. */

typedef struct reader {
    peali_scan scan;
    peali_program *p;
    bool full; /* memory ran out */
    int32_t nlocs, nwaits, nawaits;
    int32_t *cuts, *slot_blocks;
    int32_t *land_start, *land_first, *land_end;
    uint8_t *stores_to, *knows;
    peali_instr *instrs;
    peali_loc *locs;
    int32_t *waits;
    peali_await *awaits;
} reader;

static void *get(reader *r, int32_t n, size_t size)
{
    void *got = peali_arena_get(&r->p->arena, (size_t)n, size);
    if (!got) {
        r->full = true;
        peali_scan_fail(&r->scan, "no memory");
    }
    return got;
}

/* OLD, which holds N, with room for one more: rooms are ROOM times powers of two. NULL where memory ran out. */
static void *more(reader *r, void *old, int32_t n, size_t size)
{
    if (!old || n < ROOM || (n & (n - 1)))
        return old;
    void *got = get(r, 2 * n, size);
    return got ? memcpy(got, old, (size_t)n * size) : NULL;
}

static void add(reader *r, int32_t **list, int32_t *n, int32_t value)
{
    *list = more(r, *list, *n, sizeof value);
    if (*list)
        (*list)[(*n)++] = value;
}

static void add_loc(reader *r, peali_loc loc)
{
    r->locs = more(r, r->locs, r->nlocs, sizeof loc);
    if (r->locs)
        r->locs[r->nlocs++] = loc;
}

static void add_await(reader *r, peali_await await)
{
    r->awaits = more(r, r->awaits, r->nawaits, sizeof await);
    if (r->awaits)
        r->awaits[r->nawaits++] = await;
}

static void add_instr(reader *r, peali_instr i)
{
    peali_program *p = r->p;
    p->nflags += i.flag >= 0;
    r->instrs = more(r, r->instrs, p->ninstrs, sizeof i);
    if (r->instrs)
        r->instrs[p->ninstrs++] = i;
}

/* The cut at a block, which comes next. */
static int32_t read_cut(reader *r, const char *what)
{
    int32_t block = peali_scan_number(&r->scan, what, 0, r->p->nblocks), lo = 0, hi = r->p->ncuts;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (r->cuts[mid] < block)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < r->p->ncuts && r->cuts[lo] == block)
        return lo;
    peali_scan_fail(&r->scan, "block %d is no cut", (int)block);
    return 0;
}

static void read_range(reader *r, int32_t *first, int32_t *end)
{
    peali_scan_want(&r->scan, "[");
    *first = read_cut(r, "the first block");
    peali_scan_want(&r->scan, ":");
    *end = read_cut(r, "the end of the blocks");
    peali_scan_want(&r->scan, ")");
    if (*first >= *end)
        peali_scan_fail(&r->scan, "the blocks end where they begin, or before");
}

static void read_algo(reader *r)
{
    char kind[PEALI_SCAN_NAME], name[PEALI_SCAN_NAME];
    peali_scan_want(&r->scan, "program ");
    peali_scan_name(&r->scan, "the collective", kind);
    peali_scan_want(&r->scan, " ");
    peali_scan_name(&r->scan, "the algorithm", name);
    for (int k = 0; k < PEAL_KIND_COUNT && !r->p->algo; k++)
        if (strcmp(kind, peal_kind_name((peal_kind)k)) == 0)
            r->p->algo = peali_algo_find((peal_kind)k, name);
    if (!r->p->algo)
        peali_scan_fail(&r->scan, "there is no algorithm %s %s", kind, name);
}

static peali_mode read_mode(peali_scan *scan)
{
    for (int mode = PEALI_PUSH; mode < PEALI_MODES; mode++)
        if (peali_scan_try(scan, peali_mode_name((peali_mode)mode)))
            return (peali_mode)mode;
    peali_scan_want(scan, peali_mode_name(PEALI_PULL));
    return PEALI_PULL;
}

static void read_head(reader *r)
{
    peali_program *p = r->p;
    peali_scan *scan = &r->scan;
    read_algo(r);
    peali_scan_want(scan, " rank ");
    p->rank = peali_scan_number(scan, "the rank", 0, INT32_MAX - 1);
    peali_scan_want(scan, " of ");
    p->nranks = peali_scan_number(scan, "the number of ranks", p->rank + 1, INT32_MAX);
    peali_scan_want(scan, "\nreach ");
    p->me = peali_scan_number(scan, "the place within reach", 0, p->rank < MOST_REACH ? p->rank : MOST_REACH - 1);
    peali_scan_want(scan, " of ");
    int64_t most = (int64_t)p->me + p->nranks - p->rank; /* they ascend: no more than all ranks above this one follow it */
    most = most < MOST_REACH ? most : MOST_REACH;
    p->nreach = peali_scan_number(scan, "the number of ranks within reach", p->me + 1, (int32_t)most);
    peali_scan_want(scan, " ");
    p->mode = read_mode(scan);
    peali_scan_want(scan, "\nblocks ");
    p->nblocks = peali_scan_number(scan, "the number of blocks", 1, INT32_MAX - 1);
    peali_scan_want(scan, " lanes ");
    p->nlanes = peali_scan_number(scan, "the number of lanes", 1, PEAL_LANES);
    peali_scan_want(scan, " flags ");
    p->most_flags = peali_scan_number(scan, "the number of flags", 0, MOST_FLAGS);
    peali_scan_want(scan, "\n");
}

static void read_marks(reader *r, const char *name, uint8_t *marks)
{
    int32_t least = 0;
    peali_scan_want(&r->scan, name);
    while (peali_scan_try(&r->scan, " ")) {
        int32_t y = peali_scan_number(&r->scan, "a rank within reach, ascending,", least, r->p->nreach - 1);
        if (peali_scan_failed(&r->scan))
            return;
        marks[y] = 1;
        least = y + 1;
    }
    peali_scan_want(&r->scan, "\n");
}

static void read_landings(reader *r)
{
    peali_program *p = r->p;
    for (int32_t y = 0; y < p->nreach && !peali_scan_failed(&r->scan); y++) {
        peali_scan_want(&r->scan, "land ");
        peali_scan_number(&r->scan, "the rank within reach", y, y);
        while (peali_scan_try(&r->scan, " ")) {
            int32_t first, end, n = p->nland;
            read_range(r, &first, &end);
            add(r, &r->land_first, &n, first);
            add(r, &r->land_end, &p->nland, end);
        }
        peali_scan_want(&r->scan, "\n");
        r->land_start[y + 1] = p->nland;
    }
}

static void read_tables(reader *r)
{
    peali_program *p = r->p;
    peali_scan *scan = &r->scan;
    int32_t least = 0;
    peali_scan_want(scan, "cuts");
    while (peali_scan_try(scan, " ")) {
        add(r, &r->cuts, &p->ncuts, peali_scan_number(scan, "a cut, ascending,", least, p->nblocks));
        least = r->cuts ? r->cuts[p->ncuts - 1] + 1 : 0;
    }
    peali_scan_want(scan, "\nscratch");
    while (peali_scan_try(scan, " ")) {
        if (p->nscratch == MOST_SCRATCH)
            peali_scan_fail(scan, "there are at most %d scratch buffers", MOST_SCRATCH);
        add(r, &r->slot_blocks, &p->nscratch, peali_scan_number(scan, "the blocks of a slot", 0, p->nblocks));
    }
    peali_scan_want(scan, "\n");
    if (p->mode == PEALI_PUSH)
        read_landings(r);
    read_marks(r, "stores-to", r->stores_to);
    read_marks(r, "knows", r->knows);
}

/* The slot of LOC holds the range of I. An exit reads landing slots whole. */
static void check_slot(reader *r, const peali_instr *i, peali_loc loc)
{
    const peali_program *p = r->p;
    if (loc.buf >= PEAL_BUF_TMP) {
        int32_t slot = loc.buf - PEAL_BUF_TMP;
        if (slot >= p->nscratch || r->cuts[i->end] - r->cuts[loc.base] > r->slot_blocks[slot])
            peali_scan_fail(&r->scan, "scratch buffer %d does not hold these blocks", (int)slot);
    } else if (loc.buf < 0) {
        int32_t no = peali_land_slot(r->land_start, loc);
        if (no >= r->land_start[loc.rank + 1])
            peali_scan_fail(&r->scan, "rank %d within reach has no landing slot %d", loc.rank, -1 - loc.buf);
        else if (i->kind != PEALI_I_EXIT && (r->land_first[no] != loc.base || r->land_end[no] < i->end))
            peali_scan_fail(&r->scan, "landing slot %d of rank %d does not hold these blocks", -1 - loc.buf, loc.rank);
    }
}

static void read_loc(reader *r, const peali_instr *i)
{
    peali_scan *scan = &r->scan;
    peali_loc loc = {.rank = (int16_t)r->p->me};
    if (peali_scan_try(scan, "land"))
        loc.buf = (int16_t)(-1 - peali_scan_number(scan, "the landing slot", 0, INT16_MAX));
    else
        loc.buf = peali_text_read_buffer(scan);
    bool slot = loc.buf < 0 || loc.buf >= PEAL_BUF_TMP;
    loc.base = slot ? i->first : 0;
    if (slot && peali_scan_try(scan, "(")) {
        loc.base = read_cut(r, "the block at which the contents begin");
        if (loc.base >= i->first)
            peali_scan_fail(scan, "contents that begin elsewhere than the range begin before it");
        peali_scan_want(scan, ")");
    }
    if (peali_scan_try(scan, "@")) {
        loc.rank = (int16_t)peali_scan_number(scan, "the rank within reach", 0, r->p->nreach - 1);
        if (loc.rank == r->p->me)
            peali_scan_fail(scan, "@%d is this rank itself", loc.rank);
    }
    if (peali_scan_failed(scan))
        return;
    check_slot(r, i, loc);
    add_loc(r, loc);
}

/* At least one operand. */
static uint16_t read_locs(reader *r, const peali_instr *i, const char *between)
{
    int32_t n = 0;
    do {
        read_loc(r, i);
        if (++n > UINT16_MAX)
            peali_scan_fail(&r->scan, "there are at most %d operands", UINT16_MAX);
    } while (peali_scan_try(&r->scan, between));
    return (uint16_t)n;
}

static void read_operands(reader *r, enum word w, peali_instr *i)
{
    peali_scan *scan = &r->scan;
    i->locs = r->nlocs;
    if (w == W_EXIT && peali_scan_try(scan, " reads "))
        i->nsrc = read_locs(r, i, ", ");
    if (!has_range(w))
        return;
    peali_scan_want(scan, " ");
    read_range(r, &i->first, &i->end);
    peali_scan_want(scan, " ");
    if (w == W_SEND || w == W_RECV) {
        i->nsrc = w == W_SEND;
        i->ndst = w == W_RECV;
        read_loc(r, i);
        return;
    }
    i->nsrc = read_locs(r, i, " + ");
    if ((w == W_COPY) != (i->nsrc == 1))
        peali_scan_fail(scan, "a copy has one source, a reduce more");
    if (peali_scan_try(scan, " -> "))
        i->ndst = read_locs(r, i, ", ");
}

static void read_waits(reader *r, peali_instr *i)
{
    peali_scan *scan = &r->scan;
    i->waits = r->nwaits;
    if (!peali_scan_try(scan, " after "))
        return;
    do {
        int32_t no = peali_scan_number(scan, "a message before this instruction", 0, r->p->ninstrs - 1);
        if (peali_scan_failed(scan))
            return;
        if (r->instrs[no].kind != PEALI_I_SEND && r->instrs[no].kind != PEALI_I_RECV)
            peali_scan_fail(scan, "instruction %d is no message", (int)no);
        add(r, &r->waits, &r->nwaits, no);
        i->nwaits++;
    } while (peali_scan_try(scan, ", "));
}

static void read_awaits(reader *r, peali_instr *i)
{
    peali_scan *scan = &r->scan;
    i->awaits = r->nawaits;
    if (!peali_scan_try(scan, " await "))
        return;
    do {
        peali_await a;
        a.rank = peali_scan_number(scan, "a rank within reach", 0, r->p->nreach - 1);
        if (a.rank == r->p->me)
            peali_scan_fail(scan, "a flag of this rank itself is awaited");
        peali_scan_want(scan, ":");
        a.flag = peali_scan_number(scan, "the flag", 0, r->p->most_flags - 1);
        if (peali_scan_failed(scan))
            return;
        add_await(r, a);
        i->nawaits++;
    } while (peali_scan_try(scan, ", "));
}

/* The first instruction is enter; no other is. */
static enum word read_word(reader *r)
{
    for (int w = 0; w < NWORDS; w++)
        if (peali_scan_try(&r->scan, words[w].name)) {
            if ((w == W_ENTER) != (r->p->ninstrs == 0))
                peali_scan_fail(&r->scan, "the first instruction is enter, and no other is");
            return (enum word)w;
        }
    peali_scan_fail(&r->scan, "an instruction is enter, reduce, copy, wait, send, recv or exit");
    return W_WAIT;
}

static enum word read_instr(reader *r)
{
    peali_scan *scan = &r->scan;
    peali_program *p = r->p;
    peali_instr i = {.peer = -1, .flag = -1};
    if (peali_scan_number(scan, "the instruction", 0, INT32_MAX) != p->ninstrs)
        peali_scan_fail(scan, "instruction %d comes here", (int)p->ninstrs);
    peali_scan_want(scan, " ");
    enum word w = read_word(r);
    i.kind = words[w].kind;
    read_operands(r, w, &i);
    if (words[w].link) {
        peali_scan_want(scan, words[w].link);
        i.peer = peali_scan_number(scan, "the peer", 0, p->nranks - 1);
        if (i.peer == p->rank)
            peali_scan_fail(scan, "rank %d is the peer of itself", (int)p->rank);
        if (peali_scan_try(scan, " lane "))
            i.lane = (uint8_t)peali_scan_number(scan, "the lane", 1, p->nlanes - 1);
    }
    read_waits(r, &i);
    read_awaits(r, &i);
    if (peali_scan_try(scan, " flag "))
        i.flag = peali_scan_number(scan, "the flag", p->nflags, p->nflags < p->most_flags ? p->nflags : -1);
    peali_scan_want(scan, "\n");
    if (!peali_scan_failed(scan))
        add_instr(r, i);
    return w;
}

static void make_room(reader *r)
{
    r->cuts = get(r, ROOM, sizeof *r->cuts);
    r->slot_blocks = get(r, ROOM, sizeof *r->slot_blocks);
    r->land_first = get(r, ROOM, sizeof *r->land_first);
    r->land_end = get(r, ROOM, sizeof *r->land_end);
    r->instrs = get(r, ROOM, sizeof *r->instrs);
    r->locs = get(r, ROOM, sizeof *r->locs);
    r->waits = get(r, ROOM, sizeof *r->waits);
    r->awaits = get(r, ROOM, sizeof *r->awaits);
    r->land_start = get(r, r->p->nreach + 1, sizeof *r->land_start);
    r->stores_to = get(r, r->p->nreach, 1);
    r->knows = get(r, r->p->nreach, 1);
}

static void hand_over(const reader *r)
{
    peali_program *p = r->p;
    p->cuts = r->cuts;
    p->slot_blocks = r->slot_blocks;
    p->land_start = r->land_start;
    p->land_first = r->land_first;
    p->land_end = r->land_end;
    p->stores_to = r->stores_to;
    p->knows = r->knows;
    p->instrs = r->instrs;
    p->locs = r->locs;
    p->waits = r->waits;
    p->awaits = r->awaits;
}

peal_status peali_program_read(const char *text, size_t length, peali_program **out, char *why)
{
    reader r = {0};
    peali_arena arena = {0};
    peali_scan_begin(&r.scan, text, length, why);
    r.p = peali_arena_get(&arena, 1, sizeof *r.p);
    if (!r.p)
        return PEAL_ERR_MEMORY;
    r.p->arena = arena;
    read_head(&r);
    if (!peali_scan_failed(&r.scan))
        make_room(&r);
    if (!peali_scan_failed(&r.scan))
        read_tables(&r);
    while (!peali_scan_failed(&r.scan) && read_instr(&r) != W_EXIT)
        continue;
    peali_scan_want(&r.scan, "end\n");
    peali_scan_end(&r.scan);
    if (peali_scan_failed(&r.scan)) {
        peali_program_free(&r.p);
        return r.full ? PEAL_ERR_MEMORY : PEAL_ERR_INVALID;
    }
    hand_over(&r);
    *out = r.p;
    return PEAL_OK;
}
