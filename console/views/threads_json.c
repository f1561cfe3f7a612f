#include "console/views/threads_json.h"

#include "common/escape.h"
#include "common/tables.h"
#include "console/scene/summary.h"

#include <math.h>
#include <string.h>

static json_t *json_activity(const struct snapshot *now, const struct activity_copy *activity)
{
    char letter[2] = {server_state_letter(&now->server, activity->state), '\0'};
    char work[SEGMENT_WORK_WORDS * 8 * 4];
    uint64_t since = activity->since_ns;

    return json_pack("{s:i, s:s, s:s, s:I, s:s}", "tid", (int)activity->tid, "letter", letter,
                     "state", server_state_name(&now->server, activity->state), "since_ns",
                     (json_int_t)(now->time_ns > since ? now->time_ns - since : 0), "last_work",
                     escape_text(work, sizeof(work), activity->work, strlen(activity->work)));
}

/* Adds the metrics of SCOPE to OBJECT. */
static void json_add_values(json_t *object, const uint64_t *values, enum metric_scope scope)
{
    json_t *metrics = json_object();

    for (int i = 0; i < METRIC_COUNT; i++)
        if (metric_table[i].scope == scope)
            json_object_set_new(metrics, metric_table[i].name, json_integer((json_int_t)values[i]));
    json_object_set_new(object, "metrics", metrics);
}

static json_t *json_thread(const struct scene *scene, const struct thread_sample *thread)
{
    json_t *object = json_activity(model_now(scene->model), &thread->activity);
    double requests = model_thread_rate(scene->model, thread, METRIC_requests);
    double p99 = model_thread_percentile(scene->model, thread, 99);

    json_object_set_new(object, "slot", json_integer(thread->slot));
    json_object_set_new(object, "thread", json_integer(thread->thread));
    json_object_set_new(object, "requests_per_s",
                        isfinite(requests) ? json_real(requests) : json_null());
    json_object_set_new(object, "p99_ns", isfinite(p99) ? json_real(p99) : json_null());
    json_add_values(object, thread->values, SCOPE_THREAD);
    return object;
}

static json_t *json_worker(const struct scene *scene, const struct worker_sample *worker,
                           const struct thread_sample *const *order, uint32_t count)
{
    const struct snapshot *now = model_now(scene->model);
    json_t *threads = json_array(), *offload = json_array();
    json_t *object = json_pack(
        "{s:i, s:i, s:s, s:{s:i, s:i}, s:i, s:o, s:o}", "slot", (int)worker->slot, "pid",
        (int)worker->pid, "state",
        worker->state < WORKER_STATE_COUNT ? worker_state_names[worker->state] : "unknown",
        "threads", "wanted", (int)worker->threads_wanted, "actual", (int)worker->threads_actual,
        "starts", (int)worker->starts, "serving", threads, "offload", offload);

    for (uint32_t i = 0; i < count; i++)
        if (order[i]->worker == worker->slot)
            json_array_append_new(threads, json_thread(scene, order[i]));
    for (uint32_t i = 0; i < worker->offload_count; i++)
        json_array_append_new(offload, json_activity(now, &worker->offload[i].activity));
    json_add_values(object, worker->values, SCOPE_WORKER);
    return object;
}

json_t *threads_json(const struct scene *scene)
{
    const struct snapshot *now = model_now(scene->model);
    const struct thread_sample *const *order;
    uint32_t count = strip_sorted(now, &order);
    json_t *workers = json_array();

    for (uint32_t i = 0; i < now->worker_count; i++)
        if (now->workers[i].state != WORKER_NONE)
            json_array_append_new(workers, json_worker(scene, &now->workers[i], order, count));
    return json_pack("{s:o}", "workers", workers);
}
