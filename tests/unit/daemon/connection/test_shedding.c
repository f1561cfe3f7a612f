/* When a thread asks the others to close a connection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "daemon/connection/shedding.h"

#define NOW_NS (1000 * NS_PER_S)

static struct mailbox main_thread;
static struct worker_context worker;
static struct event_loop loop; /* too large for the stack */

static void count_request(struct mailbox_item *item, void *receiver)
{
    unsigned *count = receiver;

    assert_ptr_equal(item, &loop.shed.item);
    (*count)++;
}

static void begin(void)
{
    assert_int_equal(mailbox_open(&main_thread, 0, NULL), 0);
    worker.main = &main_thread;
    loop = (struct event_loop){.pass_shed_request = count_request,
                               .context = {.worker = &worker, .loop_now_ns = NOW_NS}};
}

/* Number of requests that the main thread has received. */
static unsigned asked(void)
{
    unsigned count = 0;

    mailbox_deliver(&main_thread, &count);
    return count;
}

static void one_request_is_under_way(void **state)
{
    (void)state;
    begin();
    shed_ask(&loop, SHORTAGE_CONNECTIONS);
    assert_int_equal(asked(), 1);
    shed_ask(&loop, SHORTAGE_CONNECTIONS);
    assert_int_equal(asked(), 0);
    loop.shed.closed = 1;
    shed_finish(&loop.shed.item, &loop);
    shed_ask(&loop, SHORTAGE_CONNECTIONS);
    assert_int_equal(asked(), 1);
    mailbox_close(&main_thread);
}

static void request_in_vain_is_not_repeated_at_once(void **state)
{
    (void)state;
    begin();
    shed_ask(&loop, SHORTAGE_CONNECTIONS);
    assert_int_equal(asked(), 1);
    shed_finish(&loop.shed.item, &loop);
    shed_ask(&loop, SHORTAGE_CONNECTIONS);
    assert_int_equal(asked(), 0);
    loop.context.loop_now_ns += NS_PER_S;
    shed_ask(&loop, SHORTAGE_CONNECTIONS);
    assert_int_equal(asked(), 1);
    mailbox_close(&main_thread);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_request_is_under_way),
        cmocka_unit_test(request_in_vain_is_not_repeated_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
