/*
 * What test_mismatch plays: each scene is one communicator, on which one rank does not call what the others call, and what must be
 * said of it.
 */
#ifndef MISMATCH_SCENES_H
#define MISMATCH_SCENES_H

#include <stdbool.h>

#include "sched/sched.h"

enum defect { COUNT, TYPE, OP, ROOT, KIND, REFUSED, EXTRA, MISSING, DEFECTS };
extern const char *const defect_names[DEFECTS];

/* Bytes of the vector; the last two stand for counts on both sides of the first and the last place where the choice changes. */
enum size { SMALL, MIDDLE, LARGE, LOW_LIMIT, HIGH_LIMIT, SIZES };
extern const char *const size_names[SIZES];

struct scene {
    enum defect defect;
    enum size size;
    peal_kind kind;
    const peal_algo *algo; /* NULL: the table's choice */
    int bad;               /* the rank that differs */
    size_t count;          /* 0: not known yet, for it comes from the table */
};

struct call {
    peal_kind kind;
    size_t count;
    peal_type type;
    peal_op op;
    int root;
};

/* Up to MOST scenes for N ranks on NNODES nodes (of ranks 0 to n/2-1, and of the rest); how many there are. */
int scenes_list(int n, int nnodes, struct scene *scenes, int most);

/* The count of a scene whose size is a limit, from the choices of COMM; others keep theirs. */
void scene_settle(struct scene *s, const peal_comm *comm);

/* The calls of a rank, in order: BAD ones of the rank that differs. Answers false behind the last one. */
bool scene_call(const struct scene *s, bool bad, int index, struct call *call);

/* Starts CALL; IN and OUT hold LARGE and a few elements more. */
peal_status scene_begin(const struct call *call, const void *in, void *out, peal_comm *comm, peal_request **request);

/* True where LINE says in full what the rank that differs called, and what another of N ranks did; FIRST: number of their calls. */
bool scene_named(const struct scene *s, int n, unsigned long long first, const char *line);

/* For messages: which scene it is. Returns BUF. */
const char *scene_words(const struct scene *s, int n, char *buf, size_t bytes);

#ifdef __SANITIZE_THREAD__
enum { SCENE_LARGE_BYTES = 2 << 20 }; /* of a page that is touched first, TSan makes several */
#else
enum { SCENE_LARGE_BYTES = 16 << 20 };
#endif
enum { SCENE_SPARE_BYTES = 1024, SCENE_CALLS = 3 };

#endif
