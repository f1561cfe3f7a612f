/*
 * A page: content that is made for one answer and not kept, as a listing is, often by an offload
 * thread. It is a resource that no cache knows.
 */
#ifndef DAEMON_PAGE_H
#define DAEMON_PAGE_H

#include "daemon/content/listing.h"
#include "daemon/content/resource.h"
#include "daemon/transaction/arithmetic.h"

struct site;
struct page_order;

/*
 * Makes the page that ORDER asks for at PATH. Returns 0 with *PAGE holding one reference of the
 * caller's, or an errno. Any thread; may block.
 */
typedef int page_maker(const struct site *site, const struct page_order *order, struct span path,
                       struct resource **page);

/* What is to be made: copied into the job that makes it. */
struct page_order {
    page_maker *make;
    enum thread_state state; /* of a thread that makes it, for the consoles */
    struct listing_order listing;
    struct arithmetic_question arithmetic;
    bool json; /* rather than HTML or text */
};

/* The page with these FIELDS ("Name: value\r\n" each, Content-Type first; without Content-Length) and
 * this body. */
int page_new(struct span path, const char *fields, const char *body, size_t length,
             struct resource **page);

#endif
