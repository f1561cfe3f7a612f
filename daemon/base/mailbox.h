/*
 * How a thread is reached by others: a queue of letters and one eventfd that its loop watches. The
 * mutex guards the queue only and is held for a few instructions; nothing else is taken inside.
 *
 * A letter is the first member of whatever it carries. Posting hands it to the mailbox's thread,
 * which owns it once taken.
 */
#ifndef DAEMON_MAILBOX_H
#define DAEMON_MAILBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct letter {
    struct letter *next;
    int kind;     /* the reader's own enum */
    bool counted; /* offered, not posted: it takes one of the bounded places */
};

struct mailbox {
    int eventfd; /* readable while letters wait */
    uint32_t limit;
    _Atomic uint32_t offered; /* letters waiting that were offered */
    pthread_mutex_t lock;     /* guards first and last */
    struct letter *first;
    struct letter **last;
};

/* LIMIT is how many offered letters may wait. Returns 0, or -1 with errno. */
int mailbox_open(struct mailbox *mailbox, uint32_t limit);
void mailbox_close(struct mailbox *mailbox);

/* For what must arrive: always taken. Any thread. */
void mailbox_post(struct mailbox *mailbox, struct letter *letter, int kind);

/* For new work: false, and the letter stays the caller's, when LIMIT of them wait. Any thread. */
bool mailbox_offer(struct mailbox *mailbox, struct letter *letter, int kind);

/* How many offered letters wait. Any thread. */
uint32_t mailbox_waiting(const struct mailbox *mailbox);

/* All letters in the order of their arrival, linked by next; NULL when empty. The mailbox's thread.
 */
struct letter *mailbox_take(struct mailbox *mailbox);

#endif
