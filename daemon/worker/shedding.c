#include "daemon/worker/shedding.h"

#include "daemon/connection/shedding.h"
#include "daemon/worker/internal.h"

void worker_shedding_pass(struct worker_shedding *shedding, struct shed_request *request,
                          struct serving_thread **threads, uint32_t count)
{
    if (request->closed < request->wanted && request->visited < count)
        mailbox_post(&threads[request->visited++]->loop.mailbox, &request->item, shed_visit);
    else if (request->asker != NULL)
        mailbox_post(request->asker, &request->item, shed_finish);
    else
        shedding->under_way = false;
}

void worker_shedding_begin(struct worker_shedding *shedding, enum shortage reason, uint32_t wanted,
                           struct serving_thread **threads, uint32_t count)
{
    if (shedding->under_way)
        return;
    shedding->under_way = true;
    shedding->request =
        (struct shed_request){.pass = worker_pass_shed_request, .reason = reason, .wanted = wanted};
    worker_shedding_pass(shedding, &shedding->request, threads, count);
}
