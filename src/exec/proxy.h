/*
 * The proxy: what sends and receives what a GPU's kernels order (lower/post.h), by one or several clerks of this process. It asks
 * nothing of CUDA but through a box's device.
 */
#ifndef PEALI_PROXY_H
#define PEALI_PROXY_H

#include <peal/algo.h>

#include "exec/parley.h"
#include "lower/post.h"

typedef struct peali_proxy peali_proxy;

/* Why messages of a post have ended. */
typedef struct peali_proxy_news {
    peal_status status; /* PEAL_OK: they have not; PEAL_ERR_NET; PEAL_ERR_MISMATCH: rank PEER made another call */
    int32_t peer;       /* of the message */
    uint32_t mine, its; /* mismatch: signatures */
} peali_proxy_news;

/* What a rank whose call failed tells the others. */
typedef struct peali_proxy_word {
    int64_t status; /* PEAL_OK: nothing */
    peali_quarrel quarrel;
} peali_proxy_word;

/* The post of a GPU, and where its messages lie. */
typedef struct peali_proxy_box {
    peali_post *post; /* with LINES_BYTES of lines behind it */
    size_t lines_bytes;
    unsigned char *messages;
    uint32_t lanes; /* of POST: the first ones */
    /*
     * Bytes, at least, that lie behind the place of each message that is to arrive, and none is longer: of a call that differs all
     * may be taken, so that it is known for one.
     */
    size_t most;
    /*
     * NULL: messages lie in host memory. Else in a device's, where NET takes and puts them; the head of each, which the host has to
     * see, is a message of its own, and what has arrived is there for kernels after a flush.
     */
    const struct peali_proxy_device {
        void *ctx;
        peal_status (*flush)(void *ctx);
    } *device;
} peali_proxy_box;

/* Its lowest tag is no proxy's; for who tries the transport before there is one. */
enum { PEALI_PROXY_TAGS = (PEAL_LANES + 1) << PEALI_NET_SLICE_BITS };

/*
 * Serves BOX over the NNETS of NETS, at most PEALI_CLERKS, the same on all ranks: each has a clerk, and lanes go to them in turn.
 * All but the structs stays the caller's. The first takes calls of any thread, one at a time for each request; the others are the
 * proxy's.
 *
 * PEAL_OK; PEAL_ERR_MEMORY; PEAL_ERR_SYSTEM there can be no thread (logged). Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_proxy_begin(peali_net *const *nets, int nnets, const peali_proxy_box *box, peali_proxy **proxy);

/*
 * What was sent or told has left, unless the transport cannot say so within PATIENCE_NS; what is under way is forgotten, and POST
 * is not touched any more. NULL does nothing. Threads: any.
 */
void peali_proxy_end(peali_proxy **proxy, int64_t patience_ns);

/* Threads: any. */
peali_proxy_news peali_proxy_ask(const peali_proxy *proxy);

/* Ends PROXY's messages, and tells all ranks WORD, once. Heard: what another rank, FROM, told; false: nothing new. Threads: any. */
void peali_proxy_tell(peali_proxy *proxy, const peali_proxy_word *word);
bool peali_proxy_heard(peali_proxy *proxy, int32_t *from, peali_proxy_word *word);

/* The rank whose message has been waited for longest, or -1; TEXT gets how it would come. Threads: any. */
int32_t peali_proxy_waits(peali_proxy *proxy, char *text, size_t bytes);

#endif
