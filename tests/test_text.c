/*
 * Texts of schedules and programs: what is printed is read back as an equal thing, the text is the one it has been, and whatever is
 * no such text is refused with its line and cause. And the picture of rounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "lower/program_text.h"
#include "sched/text.h"
#include "study/draw.h"
#include "text_samples.h"

typedef struct text {
    char *at;
    size_t length;
} text;

static text print(const peal_sched *s, const peali_program *p)
{
    text t = {NULL, 0};
    FILE *to = open_memstream(&t.at, &t.length);
    assert_non_null(to);
    if (s)
        peali_sched_print(s, to);
    else
        peali_program_print(p, to);
    fclose(to);
    return t;
}

static void equal_scheds(const peal_sched *a, const peal_sched *b)
{
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->nranks, b->nranks);
    assert_int_equal(a->nblocks, b->nblocks);
    assert_int_equal(a->nbufs, b->nbufs);
    assert_int_equal(a->nlanes, b->nlanes);
    assert_int_equal(a->nops, b->nops);
    for (int32_t i = 0; i < a->nops; i++) {
        const peali_op *x = &a->ops[i], *y = &b->ops[i];
        assert_true(x->verb == y->verb && x->lane == y->lane && x->dst == y->dst && x->src == y->src);
        assert_true(x->peer == y->peer && x->first == y->first && x->end == y->end);
    }
}

static void equal_lists(const void *a, const void *b, int32_t n, size_t size)
{
    if (n > 0)
        assert_memory_equal(a, b, (size_t)n * size);
}

static void equal_heads(const peali_program *a, const peali_program *b)
{
    assert_ptr_equal(a->algo, b->algo);
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->nranks, b->nranks);
    assert_int_equal(a->me, b->me);
    assert_int_equal(a->nreach, b->nreach);
    assert_int_equal(a->mode, b->mode);
    assert_int_equal(a->nblocks, b->nblocks);
    assert_int_equal(a->ncuts, b->ncuts);
    assert_int_equal(a->ninstrs, b->ninstrs);
    assert_int_equal(a->nflags, b->nflags);
    assert_int_equal(a->nlanes, b->nlanes);
    assert_int_equal(a->most_flags, b->most_flags);
    assert_int_equal(a->nscratch, b->nscratch);
    assert_int_equal(a->nland, b->nland);
}

static void equal_programs(const peali_program *a, const peali_program *b)
{
    int32_t nlocs = 0, nwaits = 0, nawaits = 0;
    equal_heads(a, b);
    for (int32_t i = 0; i < a->ninstrs; i++) {
        nlocs += a->instrs[i].nsrc + a->instrs[i].ndst;
        nwaits += a->instrs[i].nwaits;
        nawaits += a->instrs[i].nawaits;
        peali_instr one = a->instrs[i], other = b->instrs[i];
        one.reread = other.reread = 0; /* not in the text */
        assert_memory_equal(&one, &other, sizeof one);
    }
    equal_lists(a->locs, b->locs, nlocs, sizeof *a->locs);
    equal_lists(a->waits, b->waits, nwaits, sizeof *a->waits);
    equal_lists(a->awaits, b->awaits, nawaits, sizeof *a->awaits);
    equal_lists(a->cuts, b->cuts, a->ncuts, sizeof *a->cuts);
    equal_lists(a->slot_blocks, b->slot_blocks, a->nscratch, sizeof *a->slot_blocks);
    equal_lists(a->land_start, b->land_start, a->nreach + 1, sizeof *a->land_start);
    equal_lists(a->land_first, b->land_first, a->nland, sizeof *a->land_first);
    equal_lists(a->land_end, b->land_end, a->nland, sizeof *a->land_end);
    equal_lists(a->stores_to, b->stores_to, a->nreach, 1);
    equal_lists(a->knows, b->knows, a->nreach, 1);
}

static void round_trip(const peal_sched *s, const peali_program *p, void *ctx)
{
    char why[PEALI_SCAN_WHY];
    text t = print(s, p), again;
    peal_sched *sched = NULL;
    peali_program *program = NULL;
    peal_status status = s ? peali_sched_read(t.at, t.length, &sched, why) : peali_program_read(t.at, t.length, &program, why);
    if (status != PEAL_OK)
        fail_msg("%s in\n%s", why, t.at);
    if (s)
        equal_scheds(s, sched);
    else
        equal_programs(p, program);
    again = print(sched, program);
    assert_string_equal(t.at, again.at);
    peali_sched_free(&sched);
    peali_program_free(&program);
    free(t.at);
    free(again.at);
    ++*(long *)ctx;
}

static void test_round_trips(void **state)
{
    long count = 0;
    for (int n = 1; n <= 9; n++)
        text_samples(n, round_trip, &count);
    print_message("%ld texts\n", count);
    assert_true(count > 3000);
}

static const char schedule_text[] =
    "schedule rank 1 of 4 blocks 4\n"
    "0 copy out[0:4) from in\n"
    "1 send out[1:2) to 2\n"
    "2 recv tmp0[0:1) from 0\n"
    "3 reduce out[0:1) with tmp0\n"
    "4 send out[0:1) to 2\n"
    "5 recv tmp1[3:4) from 0\n"
    "6 reduce out[3:4) with tmp1\n"
    "7 send out[3:4) to 2\n"
    "8 recv tmp0[2:3) from 0\n"
    "9 reduce out[2:3) with tmp0\n"
    "10 send out[2:3) to 2\n"
    "11 recv out[1:2) from 0\n"
    "12 send out[1:2) to 2\n"
    "13 recv out[0:1) from 0\n"
    "14 send out[0:1) to 2\n"
    "15 recv out[3:4) from 0\n"
    "end\n";

static const char program_text[] =
    "program allreduce ring rank 1 of 4\n"
    "reach 0 of 1 pull\n"
    "blocks 4 lanes 1 flags 0\n"
    "cuts 0 1 2 3 4\n"
    "scratch 1 0 1\n"
    "stores-to\n"
    "knows 0\n"
    "0 enter\n"
    "1 send [1:2) in to 2\n"
    "2 recv [0:1) tmp0 from 0\n"
    "3 reduce [0:1) in + tmp0 -> out after 2\n"
    "4 send [0:1) out to 2\n"
    "5 recv [3:4) tmp1 from 0\n"
    "6 reduce [3:4) in + tmp1 -> out after 5\n"
    "7 send [3:4) out to 2\n"
    "8 recv [2:3) tmp0 from 0\n"
    "9 reduce [2:3) in + tmp0 -> out after 8\n"
    "10 send [2:3) out to 2\n"
    "11 recv [1:2) out from 0 after 1\n"
    "12 send [1:2) out to 2 after 11\n"
    "13 recv [0:1) out from 0 after 4\n"
    "14 send [0:1) out to 2 after 13\n"
    "15 recv [3:4) out from 0 after 7\n"
    "16 exit after 15, 14, 12, 10\n"
    "end\n";

static const char picture[] =
    "\"3>1\": sends block 3 to rank 1; \"3+>1\": rank 1 adds it to its own; *: all blocks\n"
    "rank      0    1    2    3\n"
    "round 0   0+>1 1+>2 2+>3 3+>0\n"
    "round 1   3+>1 0+>2 1+>3 2+>0\n"
    "round 2   2+>1 3+>2 0+>3 1+>0\n"
    "round 3   1>1  2>2  3>3  0>0\n"
    "round 4   0>1  1>2  2>3  3>0\n"
    "round 5   3>1  0>2  1>3  2>0\n";

static const char two_panels[] =
    "\"3>1\": sends block 3 to rank 1; \"3+>1\": rank 1 adds it to its own; *: all blocks\n"
    "rank      0   1\n"
    "round 0   *>2 .\n"
    "          *>1\n"
    "round 1   .   .\n"
    "rank      2   3\n"
    "round 0   .   .\n"
    "round 1   *>3 .\n";

static void drawn(peal_kind kind, const char *name, int columns, const char *want)
{
    peal_problem problem = {.kind = kind, .op = PEAL_SUM, .nranks = 4, .nnodes = 1};
    text t = {NULL, 0};
    FILE *to = open_memstream(&t.at, &t.length);
    assert_int_equal(peali_draw(peali_algo_find(kind, name), &problem, columns, to), PEAL_OK);
    fclose(to);
    assert_string_equal(t.at, want);
    free(t.at);
}

static void test_golden(void **state)
{
    const peal_algo *ring = peali_algo_find(PEAL_ALLREDUCE, "ring");
    peal_problem problem = {.kind = PEAL_ALLREDUCE, .op = PEAL_SUM, .nranks = 4, .nnodes = 1};
    int32_t alone = 1;
    peal_sched *sched;
    peali_program *program;
    assert_int_equal(peali_sched_build(ring, &problem, 1, &sched), PEAL_OK);
    assert_int_equal(peali_lower(ring, &problem, &(peali_reach){1, &alone, PEALI_PULL}, 1, &program), PEAL_OK);
    text s = print(sched, NULL), p = print(NULL, program);
    assert_string_equal(s.at, schedule_text);
    assert_string_equal(p.at, program_text);
    free(s.at);
    free(p.at);
    peali_sched_free(&sched);
    peali_program_free(&program);
}

static void test_pictures(void **state)
{
    drawn(PEAL_ALLREDUCE, "ring", 132, picture);
    drawn(PEAL_BROADCAST, "binomial", 20, two_panels);
}

/* A text with all that there is, which no algorithm wrote. */
static const char all_words[] =
    "program allreduce ring rank 1 of 4\n"
    "reach 1 of 2 push\n"
    "blocks 8 lanes 2 flags 4\n"
    "cuts 0 2 4 8\n"
    "scratch 4 0 2\n"
    "land 0 [0:2) [2:8)\n"
    "land 1 [4:8)\n"
    "stores-to 0\n"
    "knows 0 1\n"
    "0 enter\n"
    "1 recv [0:4) tmp0 from 2 lane 1\n"
    "2 reduce [2:4) in + tmp0(0) -> out, tmp1, land1@0 after 1 flag 0\n"
    "3 send [4:8) land0 to 3\n"
    "4 copy [2:4) out@0 -> out await 0:0, 0:2 flag 1\n"
    "5 wait after 3 flag 2\n"
    "6 exit reads land0 await 0:3\n"
    "end\n";

/* In a right text FROM becomes TO (NULL: the text ends there). Reading says WHY. */
typedef struct flaw {
    const char *from, *to, *why;
} flaw;

static const flaw schedule_flaws[] = {
    {"schedule", "", "line 1: 'schedule rank ' comes here, not ' rank 1 of 4 blocks 4"},
    {"rank 1", "rank 4", "line 1: the number of ranks is a number from 5"},
    {"rank 1", "rank -1", "line 1: the rank is a number from 0"},
    {"rank 1", "rank 01", "line 1: the rank is a number from 0"},
    {"rank 1", "rank 4294967297", "line 1: the rank is a number from 0"},
    {"rank 1", "rank 99999999999999999999999", "line 1: the rank is a number from 0"},
    {"rank 1", "rank 2147483647", "line 1: the rank is a number from 0"},
    {"blocks 4", "blocks 0", "line 1: the number of blocks is a number from 1"},
    {"blocks 4", "blocks 3", "line 2: the end of the blocks is a number from 1 to 3, not '4) from in'"},
    {"blocks 4", "blocks 4 ", "line 1: the line ends here, not in ' '"},
    {"0 copy", "1 copy", "line 2: operation 0 comes here"},
    {"0 copy", "0  copy", "line 2: a verb is"},
    {"copy", "kopy", "line 2: a verb is"},
    {"out[0:4) from in", "in[0:4) from out", "line 2: IN is written"},
    {"from in", "from out", "line 2: a buffer is its own source"},
    {"from in", "from", "line 2: ' from ' comes here, not ' from'"},
    {"from in", "from inn", "line 2: the line ends here, not in 'n'"},
    {"[0:4)", "[4:4)", "line 2: the first block is a number from 0 to 3"},
    {"[1:2)", "[1:1)", "line 3: the end of the blocks is a number from 2 to 4"},
    {"[1:2)", "[1,2)", "line 3: ':' comes here, not ',2) to 2'"},
    {"to 2", "to 1", "line 3: rank 1 is the peer of itself"},
    {"to 2", "to 4", "line 3: the peer is a number from 0 to 3"},
    {"to 2", "from 2", "line 3: ' to ' comes here"},
    {"to 2", "to 2 lane 0", "line 3: the lane is a number from 1 to "},
    {"to 2", "to 2 lane 64", "line 3: the lane is a number from 1 to "},
    {"to 2", "to 2\t", "line 3: the line ends here, not in '?'"},
    {"tmp0", "tmp", "line 4: the slot is a number"},
    {"tmp0", "tmp16383", "line 4: the slot is a number from 0 to 16382"},
    {"tmp0", "tmq0", "line 4: a buffer is"},
    {"1 send", "1 send\n", "line 3: a verb is"},
    {"15 recv", NULL, "line 17: the operation is a number from 0 to 2147483647, not the end of the text"},
    {"end\n", "end", "line 18: the operation is a number"},
    {"end\n", "end\nend\n", "line 19: the text ends here, not in 'end'"},
};

static const flaw program_flaws[] = {
    {"program", "programm", "line 1: 'program ' comes here"},
    {"ring", "rign", "line 1: there is no algorithm allreduce rign"},
    {"allreduce", "allreduse", "line 1: there is no algorithm allreduse ring"},
    {"ring", "Ring", "line 1: the algorithm is a name"},
    {"rank 1 of 4", "rank 1 of 1", "line 1: the number of ranks is a number from 2"},
    {"reach 1", "reach 2", "line 2: the place within reach is a number from 0 to 1"},
    {"of 2 push", "of 5 push", "line 2: the number of ranks within reach is a number from 2 to 4"},
    {"of 2 push", "of 1 push", "line 2: the number of ranks within reach is a number from 2 to 4"},
    {"push", "shove", "line 2: 'pull' comes here"},
    {"push", "pull", "line 6: 'stores-to' comes here, not 'land 0"},
    {"blocks 8", "blocks 2147483647", "line 3: the number of blocks is a number from 1 to 2147483646"},
    {"blocks 8", "blocks 7", "line 4: a cut, ascending, is a number from 5 to 7"},
    {"lanes 2", "lanes 65", "line 3: the number of lanes is a number from 1 to "},
    {"lanes 2", "lanes 1", "line 11: the lane: there is none, not '1'"},
    {"flags 4", "flags 16777217", "line 3: the number of flags is a number"},
    {"flags 4", "flags 2", "line 14: the flag is a number from 0 to 1"},
    {"cuts 0 2 4", "cuts 0 4 4", "line 4: a cut, ascending, is a number from 5 to 8"},
    {"cuts 0 2", "cuts 0 1", "line 6: block 2 is no cut"},
    {"scratch 4", "scratch 9", "line 5: the blocks of a slot is a number from 0 to 8"},
    {"scratch 4", "scratch 3", "line 11: scratch buffer 0 does not hold these blocks"},
    {"scratch 4 0 2", "scratch 4 0", "line 12: scratch buffer 2 does not hold these blocks"},
    {"land 0", "land 1", "line 6: the rank within reach is a number from 0 to 0"},
    {"[2:8)", "[4:4)", "line 6: the blocks end where they begin"},
    {"[2:8)", "[4:8)", "line 12: landing slot 1 of rank 0 does not hold these blocks"},
    {" [2:8)", "", "line 12: rank 0 within reach has no landing slot 1"},
    {"land 1 [4:8)\n", "", "line 7: 'land ' comes here"},
    {"stores-to 0", "stores-to 2", "line 8: a rank within reach, ascending, is a number from 0 to 1"},
    {"knows 0 1", "knows 1 0", "line 9: a rank within reach, ascending,: there is none"},
    {"0 enter\n", "", "line 10: instruction 0 comes here"},
    {"0 enter", "0 wait", "line 10: the first instruction is enter"},
    {"5 wait after 3", "5 enter", "line 15: the first instruction is enter"},
    {"recv [", "recv[", "line 11: ' ' comes here, not '[0:4) tmp0"},
    {"[0:4) tmp0", "[0:3) tmp0", "line 11: block 3 is no cut"},
    {"[0:4) tmp0", "[4:2) tmp0", "line 11: the blocks end where they begin"},
    {"tmp0 from 2", "tmp0 from 1", "line 11: rank 1 is the peer of itself"},
    {"tmp0 from 2", "tmp0 to 2", "line 11: ' from ' comes here"},
    {"lane 1\n", "lane 2\n", "line 11: the lane is a number from 1 to 1"},
    {"in + tmp0(0)", "in", "line 12: a copy has one source"},
    {"in + tmp0(0)", "in + ", "line 12: a buffer is"},
    {"in + tmp0(0)", "in(0) + tmp0", "line 12: a copy has one source"},
    {"tmp0(0)", "tmp0(2)", "line 12: contents that begin elsewhere"},
    {"tmp0(0)", "tmp0(1)", "line 12: block 1 is no cut"},
    {"land1@0", "land1@1", "line 12: @1 is this rank itself"},
    {"land1@0", "land1@2", "line 12: the rank within reach is a number from 0 to 1"},
    {"land1@0", "land32768@0", "line 12: the landing slot is a number from 0 to 32767"},
    {"after 1", "after 2", "line 12: a message before this instruction is a number from 0 to 1"},
    {"after 1", "after 0", "line 12: instruction 0 is no message"},
    {"flag 0", "flag 1", "line 12: the flag is a number from 0 to 0"},
    {"land0 to 3", "land0, in to 3", "line 13: ' to ' comes here"},
    {"copy [2:4) out@0", "copy [2:4) out@0 + in", "line 14: a copy has one source"},
    {"-> out await", "-> await", "line 14: a buffer is"},
    {"await 0:0", "await 1:0", "line 14: a flag of this rank itself is awaited"},
    {", 0:2", ", 0:4", "line 14: the flag is a number from 0 to 3"},
    {", 0:2", ", 0:", "line 14: the flag is a number from 0 to 3"},
    {"reads land0", "reads land1", "line 16: rank 1 within reach has no landing slot 1"},
    {"6 exit", "6 wait", "line 16: the line ends here"},
    {"6 exit", NULL, "line 16: the instruction is a number from 0 to 2147483647, not the end of the text"},
    {"end\n", "end\n\n", "line 18: the text ends here, not in the end of the line"},
};

static bool refused(const char *wrong, size_t length, bool schedule, char *why)
{
    peal_sched *sched = NULL;
    peali_program *program = NULL;
    /* of its own, without a 0 at the end, so that a sanitizer sees every byte read beyond it */
    char *copy = memcpy(malloc(length + !length), wrong, length);
    peal_status status = schedule ? peali_sched_read(copy, length, &sched, why) : peali_program_read(copy, length, &program, why);
    free(copy);
    assert_true(status == PEAL_OK || status == PEAL_ERR_INVALID);
    assert_true((status == PEAL_OK) == (why[0] == '\0'));
    assert_true((status == PEAL_OK) == (sched || program));
    peali_sched_free(&sched);
    peali_program_free(&program);
    return status != PEAL_OK;
}

static void refuses(const char *right, bool schedule, const flaw *f)
{
    char wrong[2048], why[PEALI_SCAN_WHY];
    const char *at = strstr(right, f->from);
    assert_non_null(at);
    const char *to = f->to ? f->to : "", *rest = f->to ? at + strlen(f->from) : "";
    int n = snprintf(wrong, sizeof wrong, "%.*s%s%s", (int)(at - right), right, to, rest);
    if (!refused(wrong, (size_t)n, schedule, why))
        fail_msg("'%s' for '%s' was taken", f->to ? f->to : "nothing", f->from);
    if (!strstr(why, f->why))
        fail_msg("'%s' for '%s': \"%s\" does not say \"%s\"", f->to ? f->to : "nothing", f->from, why, f->why);
}

static void test_flaws(void **state)
{
    char why[PEALI_SCAN_WHY];
    assert_false(refused(schedule_text, sizeof schedule_text - 1, true, why));
    assert_false(refused(all_words, sizeof all_words - 1, false, why));
    for (size_t i = 0; i < sizeof schedule_flaws / sizeof *schedule_flaws; i++)
        refuses(schedule_text, true, &schedule_flaws[i]);
    for (size_t i = 0; i < sizeof program_flaws / sizeof *program_flaws; i++)
        refuses(all_words, false, &program_flaws[i]);
}

static void test_all_words(void **state)
{
    char why[PEALI_SCAN_WHY];
    peali_program *program;
    assert_int_equal(peali_program_read(all_words, sizeof all_words - 1, &program, why), PEAL_OK);
    text again = print(NULL, program);
    assert_string_equal(again.at, all_words);
    assert_int_equal(program->nflags, 3);
    assert_int_equal(program->nland, 3);
    assert_int_equal(program->locs[program->instrs[2].locs + 1].base, 0);
    free(again.at);
    peali_program_free(&program);
}

/* No beginning of a text is a text. */
static void test_short(void **state)
{
    char why[PEALI_SCAN_WHY];
    for (size_t n = 0; n + 1 < sizeof schedule_text; n++)
        assert_true(refused(schedule_text, n, true, why));
    for (size_t n = 0; n + 1 < sizeof all_words; n++)
        assert_true(refused(all_words, n, false, why));
}

static void test_too_long(void **state)
{
    char why[PEALI_SCAN_WHY];
    peal_sched *sched;
    assert_int_equal(peali_sched_read("schedule", (size_t)1 << 31, &sched, why), PEAL_ERR_INVALID);
    assert_non_null(strstr(why, "2147483648 bytes"));
}

/* Each allocation fails once: memory is what is missing, and nothing leaks (the sanitizers look). */
static void starve(const text *t, bool schedule)
{
    char why[PEALI_SCAN_WHY];
    peal_sched *sched = NULL;
    peali_program *program = NULL;
    peal_status status = PEAL_ERR_MEMORY;
    long n = 0;
    while (status != PEAL_OK) {
        peali_alloc_fail_at(++n);
        status = schedule ? peali_sched_read(t->at, t->length, &sched, why) : peali_program_read(t->at, t->length, &program, why);
        assert_true(status == PEAL_OK || status == PEAL_ERR_MEMORY);
        assert_true((status == PEAL_OK) == (sched || program));
    }
    peali_alloc_fail_at(0);
    assert_true(n > 1);
    peali_sched_free(&sched);
    peali_program_free(&program);
}

static void starve_both(const peal_sched *s, const peali_program *p, void *ctx)
{
    if (s ? s->nops <= 16 : p->nreach < 2)
        return;
    text t = print(s, p);
    starve(&t, s != NULL);
    free(t.at);
    ++*(int *)ctx;
}

static void test_memory(void **state)
{
    int count = 0;
    text_samples(9, starve_both, &count);
    assert_true(count > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips), cmocka_unit_test(test_golden), cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_all_words),   cmocka_unit_test(test_flaws),  cmocka_unit_test(test_short),
        cmocka_unit_test(test_too_long),    cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
