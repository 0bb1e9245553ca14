/*
 * What one launch runs: the program of one rank, made concrete for a count and laid out for the kernel, which gets it as its
 * parameter. Read by C and by CUDA, so plain structs of fixed layout.
 *
 * A CTA runs whole slices, one after the other: CTA c of C runs slices c, c + C, c + 2C, ... Nothing passes between CTAs. What
 * peers store for CTA c lies in lane c of a rank's scratch, which has two areas; the slices of a lane are numbered on through all
 * calls (its epoch, kept on the device), and number e uses area e mod 2. This is "Epochs and credits" of LOWERING with W = 1 a
 * lane.
 *
 * The vector is PARTS parts of part_bytes: one, or (allgather, reduce_scatter) one for each rank. A part has P packs of 16 bytes,
 * the last one not full, which are dealt to K slices, and those of a slice to the m blocks of a part; wherever something does not
 * divide, the first ones have one pack more. The kernel divides nothing: q, r in x packs over y are x / y and x mod y, and a
 * division by m is a multiplication (there are fewer than 2^16 blocks, and m is at most half of them if there are parts). Block b
 * of all parts begins at pack pos(b) of a slice: (b / m) L + pos(b mod m) where L are the packs of a part in this slice.
 *
 * Messages to ranks out of reach lie in slots, too, of host memory or this device's: the kernel fills and drains them, and the
 * proxy sends and receives (lower/post.h).
 */
#ifndef PEALI_CUDA_CALL_H
#define PEALI_CUDA_CALL_H

#include <stdalign.h>
#include <stdint.h>

#include "lower/post.h"

enum {
    PEALI_CUDA_RANKS = 16, /* within reach */
    PEALI_CUDA_OPERANDS = 32, /* sources of an operation, messages among them, and destinations: each has a thread of a warp */
    PEALI_CUDA_FEW = 4, /* sources, for which each kernel has a loop */
    PEALI_CUDA_OPS = 72,
    PEALI_CUDA_LOCS = 272, /* with these two, a call takes less than the 4 KiB of parameters that every driver has */
    PEALI_CUDA_LANES = 64, /* with areas: enough CTAs to fill NVLink with what they store there */
    PEALI_CUDA_DIRECT_LANES = 128, /* and without: of direct calls, which on H200 move more with more CTAs */
    PEALI_CUDA_SLOTS = 64, /* landing slots of a rank in one slice */
    PEALI_CUDA_PACK = 16,
    PEALI_CUDA_VOTE = 48,        /* three lines of LL (cuda/direct.cuh) */
    PEALI_CUDA_LINE = 128,       /* of LL128 */
    PEALI_CUDA_LINE_WORDS = 15,  /* of 8 bytes of data in it */
    PEALI_CUDA_BLOCK = 512,      /* threads, at most: so that each can have 128 registers */
    PEALI_CUDA_BOARD = 32,       /* the last threads of a block: a warp that compares calls in CTA 0, and has no other work */
};

/* How data crosses. */
typedef enum peali_cuda_proto {
    PEALI_CUDA_LL,    /* lines of 16 bytes: 4 of data, flag, 4 of data, flag */
    PEALI_CUDA_LL128, /* lines of 128 bytes: 120 of data, flag of 8. A warp's store of a line arrives whole on NVLink only */
    PEALI_CUDA_BULK,  /* data, then one flag a slot */
    PEALI_CUDA_PROTOS
} peali_cuda_proto;

/* Where an operand lies. Its range is the operation's. */
enum {
    PEALI_CUDA_IN,
    PEALI_CUDA_OUT,
    PEALI_CUDA_TMP,
    PEALI_CUDA_SLOT,
    PEALI_CUDA_ARRIVES = PEALI_CUDA_SLOT + PEALI_CUDA_RANKS, /* a slot that a message fills; in lines, it is read like the others */
    PEALI_CUDA_LEAVES,                                       /* a slot that a message takes */
    PEALI_CUDA_WHERES
};
typedef struct peali_cuda_loc {
    uint8_t where; /* PEALI_CUDA_SLOT + i: of the rank with index i among those within reach */
    uint8_t slot;  /* slot: its number there, which is that of its flag */
    uint16_t base; /* slot, scratch: the block at which its contents begin */
    uint32_t at;   /* slot, scratch: its start, in units of 16 bytes from that of the area, or of a lane's scratch */
} peali_cuda_loc;

/*
 * What is among the operands: slots; more than one source in IN, OUT and scratch; slots or scratch that begin with another block
 * than the operation. From OWN_WHERE on: in which of IN, OUT, scratch or a slot that a message fills the one of those sources is.
 */
enum {
    PEALI_CUDA_FROM_SLOTS = 1,
    PEALI_CUDA_TO_SLOTS = 2,
    PEALI_CUDA_MANY_OWN = 4, /* or one that a message fills with lines, beside others */
    PEALI_CUDA_WITHIN = 8,
    PEALI_CUDA_OWN_WHERE = 16,
};

/*
 * When: after all threads of the CTA have done what stands before, for others have touched what this one does. RUN times a number:
 * of a run of operations that need nothing of each other, so many are left, this one included. Lines: warps share the run among
 * them. Bulk: the first one awaits the sources of all, or the last one tells of all (of those before it it is the number).
 */
enum { PEALI_CUDA_SYNC = 1, PEALI_CUDA_RUN = 2, PEALI_CUDA_LONGEST_RUN = 15 };

/*
 * Reduce nsrc sources in order, store to ndst destinations, of which the first nput are slots. No destination: the sources must
 * have arrived. No source: a message is to arrive at the destination.
 */
typedef struct peali_cuda_op {
    uint8_t nsrc, ndst;
    uint8_t order;  /* PEALI_CUDA_SYNC and so on */
    uint8_t slots;  /* PEALI_CUDA_FROM_SLOTS and so on */
    uint16_t locs;  /* sources, then destinations */
    uint16_t first, end; /* blocks */
    uint16_t peer;  /* of a message: rank of the communicator; of a run of lines: 256 over LANE, upwards */
    uint8_t lane;   /* and the algorithm's lane; the warps that each operation of it has */
    uint8_t number; /* and which of the slice's messages it is */
    uint8_t own;    /* the source that is in IN, OUT, scratch or a slot that a message fills; nsrc: none */
    uint8_t nput;
} peali_cuda_op;

/*
 * How all of a call is done where every rank's IN and OUT are mapped by all others: each CTA runs one slice, whose operations load
 * from INs and store into OUTs of any rank, where they lie. Of an operand, `where` is then PEALI_CUDA_SLOT + a rank, and `slot`
 * PEALI_CUDA_IN or PEALI_CUDA_OUT. Whether it is done so, the ranks agree on in the call itself (cuda/direct.cuh). Where they do
 * not, those CTAs whose lanes have areas run the slices.
 */
typedef struct peali_cuda_direct {
    uint32_t slices;     /* 0: no call is done so, and no rank votes */
    uint32_t slice_packs, long_slices, block_packs, long_blocks; /* as in the call */
    uint32_t first, end; /* operations of the call, behind its own: none where a rank has nothing to move */
    uint32_t room;       /* 0: they found none, and this rank votes against it */
} peali_cuda_direct;

/* Where a rank's vectors begin, as some device sees them; both 0: it does not. */
typedef struct peali_cuda_view {
    uint64_t in, out;
} peali_cuda_view;

/*
 * Calls by copy engines (cuda/engines.cuh) are several launches, each of which does one step, with copies between them. Each rank
 * has an area that peers reach as they reach scratch: this head, then [chunk mod 2][rank] pieces of room_bytes: those that the
 * others copied here, and in place of this rank's own what it has reduced.
 */
enum { PEALI_CUDA_NO_STEP, PEALI_CUDA_MEET, PEALI_CUDA_ALIGN, PEALI_CUDA_REDUCE };
typedef struct peali_cuda_head {
    uint32_t aligned[PEALI_CUDA_RANKS]; /* how often a rank has aligned */
    uint32_t alignments;                /* this rank's own */
    uint64_t scalars[PEALI_CUDA_RANKS];
} peali_cuda_head;
enum { PEALI_CUDA_HEAD = 4096 };

typedef struct peali_cuda_engines {
    uint64_t areas[PEALI_CUDA_RANKS]; /* of each rank, as this device sees it */
    uint64_t room_bytes;
    uint64_t at;    /* REDUCE: bytes from the start of the vector to this rank's piece */
    uint32_t chunk; /* REDUCE: it */
} peali_cuda_engines;

/* Of the scratch of every rank of a communicator, alike on all: bytes from its start, and of one area. */
typedef struct peali_cuda_layout {
    uint32_t lanes;        /* the first ones, which have areas and scratch: */
    uint32_t direct_lanes; /* all, which direct calls take */
    uint64_t board; /* [call mod 2][rank] uint64_t: what that rank calls: number of the call << 32 | signature */
    uint64_t left;  /* [direct lane][rank] uint32_t: the last epoch that this rank has left */
    uint64_t flags; /* [direct lane][area][PEALI_CUDA_SLOTS] uint32_t; direct: one of each rank, which has ended its part */
    uint64_t votes; /* [direct lane][area][rank] of PEALI_CUDA_VOTE bytes: where that rank's vectors lie here, and its scalar */
    uint64_t tmp, tmp_bytes; /* [lane] of tmp_bytes: the program's own scratch buffers, which no peer touches */
    uint64_t areas[PEALI_CUDA_PROTOS];      /* [lane][area] of area_bytes each: apart, so no data looks like a flag */
    uint64_t area_bytes[PEALI_CUDA_PROTOS]; /* whole KiB */
    uint64_t bytes;
} peali_cuda_layout;

/* A lane's own state, in device memory that no peer sees. Zeroed once, with scratch. */
typedef struct peali_cuda_lane {
    uint32_t epoch; /* slices so far; numbers begin at 1 */
    uint32_t heard; /* 1: by the end of the last one, every rank was known to have begun it */
    uint32_t calls; /* lane 0: so far */
    uint32_t dead;  /* 1: the report is not FINE */
    uint32_t orders;  /* so far */
    uint32_t before;  /* orders before those of the last slice that had any, */
    uint32_t posted;  /* which was of this epoch */
    uint32_t over;    /* orders up to this one, at least, are over */
    uint32_t noticed; /* lane 0: 1: this call has told that it waits */
    uint32_t pad[3];
} peali_cuda_lane;

/* What a kernel tells the host, in host memory mapped into the device; zeroed once, written once, KIND last. */
enum { PEALI_CUDA_FINE, PEALI_CUDA_LATE, PEALI_CUDA_DIFFERS, PEALI_CUDA_ABORTED };
typedef struct peali_cuda_report {
    uint32_t kind;
    uint32_t rank;      /* index within reach: who did not come, or called otherwise; PEALI_CUDA_RANKS: all came and call alike */
    uint32_t mine, its; /* signatures; its is 0 where it has not called */
    /*
     * Where it waits; op PEALI_CUDA_OPS: for credit, + 1: for calls, + 2: for messages, + 3: for votes, + 4: for peers to end,
     * + 5: between copies.
     */
    uint32_t epoch, lane, op, slot;
} peali_cuda_report;

/*
 * A call that is one exchange of words (cuda/exchange.cuh) with each of the others, in which this rank
 *   SUMS      gives all the same, and sums what it gets with that,
 *   SCATTERS  gives each what is its, and sums what it gets with its own,
 *   MOVES     gives all the same, and keeps what it gets of each,
 *   SHARES    (by lines alone) does as SCATTERS does, of each slice, gives all its sum, and keeps the sums that it gets of each;
 * or in which words go one way, and this rank
 *   GIVES     gives all the same, and gets nothing,
 *   TAKES     gives nothing, and sums what it gets with its own,
 *   KEEPS     gives nothing, and keeps what it gets.
 * What is stored and loaded is a line for each word, from here on in area 0 of lane 0; areas are area_bytes apart. In a plan put,
 * get and left are from the start of scratch, and what depends on buffers is open (peali_cuda_place).
 */
enum {
    PEALI_CUDA_NO_EXCHANGE,
    PEALI_CUDA_SUMS,
    PEALI_CUDA_SCATTERS,
    PEALI_CUDA_MOVES,
    PEALI_CUDA_SHARES,
    PEALI_CUDA_GIVES,
    PEALI_CUDA_TAKES,
    PEALI_CUDA_KEEPS,
    PEALI_CUDA_SHAPES
};
enum { PEALI_CUDA_WORDS = 4 }; /* of a thread, at most: 2 ranks, 512 KiB, 64 lanes */
typedef struct peali_cuda_exchange {
    uint64_t put[PEALI_CUDA_FEW - 1];
    uint64_t get[PEALI_CUDA_FEW - 1]; /* in the order of the sum */
    uint32_t area_bytes;
    uint32_t bytes, plain; /* of a part; and of it, in words that are aligned and whole */
    uint32_t others, before; /* so many it has words for or of, and come before this rank in the sum */
    uint32_t words; /* of a thread: 1, 2 or 4 */
    uint32_t early; /* bytes from IN to what is loaded first: what is put first */
    uint32_t mine;  /* SCATTERS: from IN to this rank's own part; MOVES, GIVES: from OUT to it; SHARES: the block that it sums */
    /* SCATTERS: from IN to what is put; MOVES, KEEPS: from OUT to where it is kept; SHARES: the block that is put */
    uint32_t part[PEALI_CUDA_FEW - 1];
    uint8_t uneven; /* by lines: not all slices have as many */
    uint8_t copies; /* MOVES, GIVES: 1: its own, too, from IN to OUT */
    uint8_t to[PEALI_CUDA_FEW - 1]; /* whose scratch is put to */
    uint64_t left;  /* of lane 0: what the ranks have left */
    uint64_t put_share[PEALI_CUDA_FEW - 1]; /* SHARES: where this rank's sum goes, in the order of put, */
    uint64_t get_share[PEALI_CUDA_FEW - 1]; /* and where theirs come, in that of part */
} peali_cuda_exchange;

typedef struct peali_cuda_call {
    /* What an exchange needs comes first, in few lines of the cache of parameters. */
    const void *in; /* as the user gives them */
    void *out;
    peali_cuda_lane *lane;
    uint64_t part_bytes;
    uint32_t slice_packs, long_slices; /* packs of a part over slices */
    uint32_t signature; /* never 0 */
    uint8_t me, nranks; /* within reach */
    uint8_t proto;      /* peali_cuda_proto */
    uint8_t all_hear;   /* the end of every rank waits for the begin of all: no credits are needed */
    uint8_t type, op;   /* peal_type, peal_op: of the elements as the kernel reduces them */
    uint8_t aligned;    /* in and out begin at a multiple of 16 bytes, and so do all parts */
    uint8_t scaled;     /* premultiplied sum: this rank's elements count SCALAR times */
    uint8_t messages;   /* of a slice */
    uint8_t rare;       /* it needs a kernel that has everything (cuda/protocol.cuh) */
    uint8_t step;       /* by copy engines */
    uint8_t exchanges;  /* PEALI_CUDA_SUMS and so on: it is an exchange */
    uint16_t stores_to; /* bit per rank: it has slots that this one fills */
    uint16_t hears;     /* bit per rank: this one's end waits for its begin */
    uint32_t threads;   /* of a block: PEALI_CUDA_BOARD of them for the board */
    union {
        peali_cuda_exchange exchange;
        peali_cuda_view views[PEALI_CUDA_RANKS]; /* direct: of this rank's vectors, by each rank's device */
        peali_cuda_engines engines;
    };
    uint64_t in_skip, out_skip; /* bytes of the vector that lie before what the user has there */
    uint32_t parts, blocks, slices;    /* blocks of a part */
    uint32_t block_packs, long_blocks; /* slice_packs over blocks */
    uint32_t part_of;                  /* block b is of part (b * part_of) >> 31 */
    uint32_t nops;      /* at least 1 */
    uint32_t ranks;     /* average: when all is done, the blocks [wanted[0], wanted[1]) of OUT are divided by this; else 0 */
    uint32_t wanted[2];
    uint64_t touch, touch_bytes; /* from IN on: so much of it, in slices one after the other, is what the first operation loads */
    uint64_t scalar;    /* over and over in 8 bytes */
    peali_cuda_direct direct;
    /* the communicator */
    /* Of each rank, as this device sees it; and those that make areas of slots out of those of messages. */
    unsigned char *scratch[PEALI_CUDA_WHERES - PEALI_CUDA_SLOT];
    peali_cuda_layout layout;
    peali_post *post;
    peali_cuda_report *report; /* two: what it ended with, and for whom it waits and goes on waiting: zeroed again by who read it */
    const uint32_t *abort; /* in host memory: not 0, leave. Read once in a while by who waits */
    uint64_t deadline_ns;  /* of one wait; 0: none */
    uint64_t notice_ns;    /* a wait of so long for a rank that has not come is told to the host, once a call; 0: never */
    /* The program, of which an exchange needs nothing. */
    alignas(8) peali_cuda_op ops[PEALI_CUDA_OPS];
    peali_cuda_loc locs[PEALI_CUDA_LOCS];
} peali_cuda_call;

#ifdef __cplusplus
static_assert(sizeof(peali_cuda_call) <= 4096 && sizeof(peali_cuda_head) <= PEALI_CUDA_HEAD, "kernel parameters, and room");
#else
_Static_assert(sizeof(peali_cuda_call) <= 4096 && sizeof(peali_cuda_head) <= PEALI_CUDA_HEAD, "kernel parameters, and room");
#endif

#endif
