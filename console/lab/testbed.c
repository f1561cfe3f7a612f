#include "console/lab/testbed.h"

#include "common/macros.h"
#include "common/private_server.h"
#include "console/data/child.h"
#include "console/lab/stalled.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MAX = 32, LOAD_TEXT = 1024, URL_BYTES = 64 };

struct load {
    struct child child;
    bool wanted;
    uint64_t failed, failed_before; /* of the process that runs; of those before */
    char said[256];                 /* last, and no progress */
};

struct lab_stage {
    const struct lab_scenario *scenario;
    struct private_server *server;
    struct load load[LAB_LOADS];
    struct lab_stalled stalled;
};

/* Files */

static int make_list(const struct lab_stage *stage, const struct lab_files *files, char *why,
                     size_t size)
{
    char path[PRIVATE_SERVER_PATH + 64];
    FILE *list;

    snprintf(path, sizeof(path), "%s/%s.urls", private_server_directory(stage->server),
             files->list);
    list = fopen(path, "we");
    if (list == NULL)
        return snprintf(why, size, "cannot write %s: %s", path, strerror(errno)), -1;
    for (unsigned i = 0; i < files->count; i++)
        fprintf(list, "http://127.0.0.1:%u/%s/%u.bin\n", private_server_port(stage->server),
                files->list, i);
    if (fclose(list) == 0)
        return 0;
    return snprintf(why, size, "cannot write %s: %s", path, strerror(errno)), -1;
}

static int make_files(const struct lab_stage *stage, const struct lab_files *files, char *why,
                      size_t size)
{
    char *bytes = malloc(files->bytes);
    int failed = bytes == NULL ? -1 : 0;
    char path[64];

    if (bytes == NULL)
        snprintf(why, size, "out of memory");
    for (unsigned i = 0; i < files->count && failed == 0; i++) {
        memset(bytes, 'a' + (int)(i % 26), files->bytes);
        snprintf(path, sizeof(path), "/%s/%u.bin", files->list, i);
        failed = private_server_put(stage->server, path, bytes, files->bytes, why, size);
    }
    free(bytes);
    return failed;
}

static int make_site(const struct lab_stage *stage, char *why, size_t size)
{
    static const char page[] = "<!doctype html><title>A page</title><p>A page of the stage.</p>\n";

    for (size_t i = 0; i < LAB_FILES; i++)
        if (stage->scenario->files[i].list != NULL &&
            make_files(stage, &stage->scenario->files[i], why, size) != 0)
            return -1;
    return private_server_put(stage->server, "/index.html", page, sizeof(page) - 1, why, size);
}

/* The lists name the port, which is known when the server runs. */
static int make_lists(const struct lab_stage *stage, char *why, size_t size)
{
    for (size_t i = 0; i < LAB_FILES; i++)
        if (stage->scenario->files[i].list != NULL &&
            make_list(stage, &stage->scenario->files[i], why, size) != 0)
            return -1;
    return 0;
}

static void link_path(const struct lab_stage *stage, char *path, size_t size)
{
    snprintf(path, size, "%s/access.log", private_server_directory(stage->server));
}

/* The access log leads to a full disk until LAB_LOG_BACK, where the scenario has a use for it. */
static int link_log(const struct lab_stage *stage, char *why, size_t size)
{
    char path[PRIVATE_SERVER_PATH + 32];
    bool wanted = false;

    for (size_t i = 0; i < LAB_STEPS; i++)
        for (size_t j = 0; j < LAB_ACTIONS; j++)
            wanted = wanted || stage->scenario->steps[i].first[j].act == LAB_LOG_BACK ||
                     stage->scenario->steps[i].then[j].act == LAB_LOG_BACK;
    link_path(stage, path, sizeof(path));
    if (!wanted || symlink("/dev/full", path) == 0)
        return 0;
    return snprintf(why, size, "cannot make %s: %s", path, strerror(errno)), -1;
}

/* Load */

/* WORDS with the stage's names put in. */
static void put_names(const struct lab_stage *stage, const char *words, char *text, size_t size)
{
    char url[URL_BYTES];
    const struct {
        const char *mark, *name;
    } names[] = {{"@URL@", url}, {"@FOLDER@", private_server_directory(stage->server)}};
    size_t used = 0;

    snprintf(url, sizeof(url), "http://127.0.0.1:%u", private_server_port(stage->server));
    while (*words != '\0' && used + 1 < size) {
        size_t i = 0;

        while (i < ARRAY_LENGTH(names) && strncmp(words, names[i].mark, strlen(names[i].mark)) != 0)
            i++;
        if (i == ARRAY_LENGTH(names)) {
            text[used++] = *words++;
            continue;
        }
        used += (size_t)snprintf(text + used, size - used, "%s", names[i].name);
        words += strlen(names[i].mark);
    }
    text[used < size ? used : size - 1] = '\0';
}

static int start_load(struct lab_stage *stage, int number, char *why, size_t size)
{
    struct load *load = &stage->load[number];
    const char *argv[WORDS_MAX + 1] = {"wsload",       "--progress", "--quiet",      "--json",
                                       "-t",           "1",          "--control-fd", "3",
                                       "--max-errors", "100%",       "-d",           "24h"};
    char text[LOAD_TEXT], *rest = NULL;
    size_t count = 12;

    put_names(stage, stage->scenario->loads[number], text, sizeof(text));
    for (char *word = strtok_r(text, " ", &rest); word != NULL && count < WORDS_MAX;
         word = strtok_r(NULL, " ", &rest))
        argv[count++] = word;
    load->failed_before += load->failed;
    load->failed = 0;
    load->said[0] = '\0';
    load->wanted = child_start(&load->child, argv, why, size) == 0;
    return load->wanted ? 0 : -1;
}

static void stop_load(struct load *load)
{
    load->wanted = false;
    child_release(&load->child);
}

static void take_line(void *context, const char *line)
{
    struct load *load = context;
    json_t *object = json_loads(line, 0, NULL);
    const json_t *failed = json_object_get(object, "failed");

    if (json_is_number(failed))
        load->failed = (uint64_t)json_number_value(failed);
    else if (object == NULL && line[0] != '\0')
        snprintf(load->said, sizeof(load->said), "%s", line);
    json_decref(object);
}

/* Actions */

static int command(const struct lab_stage *stage, const char *line, char *why, size_t size)
{
    json_t *answer = private_server_command(stage->server, line, why, size);
    int failed = answer == NULL ? -1 : 0;

    json_decref(answer);
    return failed;
}

static int kill_worker(const struct lab_stage *stage, pid_t worker, char *why, size_t size)
{
    if (worker > 0 && getpgid(worker) == private_server_pid(stage->server) &&
        kill(worker, SIGKILL) == 0)
        return 0;
    return snprintf(why, size, "there is no worker to kill"), -1;
}

int lab_stage_act(struct lab_stage *stage, const struct lab_action *action, pid_t worker, char *why,
                  size_t size)
{
    char path[PRIVATE_SERVER_PATH + 32];

    switch (action->act) {
    case LAB_NOTHING:
        break;
    case LAB_START:
        return start_load(stage, action->number, why, size);
    case LAB_STOP:
        stop_load(&stage->load[action->number]);
        break;
    case LAB_TELL:
        child_tell(&stage->load[action->number].child, action->text);
        break;
    case LAB_STALL:
        lab_stalled_set(&stage->stalled, action->number);
        break;
    case LAB_KILL:
        return kill_worker(stage, worker, why, size);
    case LAB_CONFIGURE:
        return private_server_configure(stage->server, action->text, why, size);
    case LAB_COMMAND:
        return command(stage, action->text, why, size);
    case LAB_LOG_BACK:
        link_path(stage, path, sizeof(path));
        unlink(path);
        break;
    }
    return 0;
}

/* Start and end */

static int set(struct lab_stage *stage, char *why, size_t size)
{
    const struct lab_scenario *scenario = stage->scenario;

    stage->server = private_server_create(NULL, why, size);
    if (stage->server == NULL || make_site(stage, why, size) != 0 ||
        link_log(stage, why, size) != 0 ||
        private_server_configure(stage->server, scenario->config, why, size) != 0 ||
        private_server_start(stage->server, scenario->settings, why, size) != 0 ||
        make_lists(stage, why, size) != 0)
        return -1;
    for (size_t i = 0; i < LAB_ACTIONS; i++)
        if (lab_stage_act(stage, &scenario->begin[i], 0, why, size) != 0)
            return -1;
    return 0;
}

struct lab_stage *lab_stage_open(const struct lab_scenario *scenario, char *why, size_t size)
{
    struct lab_stage *stage = calloc(1, sizeof(*stage));

    if (stage == NULL) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    stage->scenario = scenario;
    for (size_t i = 0; i < LAB_LOADS; i++)
        child_init(&stage->load[i].child);
    if (set(stage, why, size) == 0)
        return stage;
    lab_stage_close(stage);
    return NULL;
}

void lab_stage_close(struct lab_stage *stage)
{
    if (stage == NULL)
        return;
    for (size_t i = 0; i < LAB_LOADS; i++)
        child_release(&stage->load[i].child);
    lab_stalled_set(&stage->stalled, 0);
    private_server_destroy(stage->server);
    free(stage);
}

const char *lab_stage_name(const struct lab_stage *stage)
{
    return private_server_name(stage->server);
}

const char *lab_stage_socket(const struct lab_stage *stage)
{
    return private_server_socket(stage->server);
}

void lab_stage_update(struct lab_stage *stage, uint64_t now_ns)
{
    int status;

    for (size_t i = 0; i < LAB_LOADS; i++)
        child_update(&stage->load[i].child, take_line, &stage->load[i], &status);
    if (!private_server_runs(stage->server))
        return;
    lab_stalled_update(&stage->stalled, private_server_port(stage->server), now_ns);
}

uint64_t lab_stage_failed(const struct lab_stage *stage)
{
    uint64_t failed = 0;

    for (size_t i = 0; i < LAB_LOADS; i++)
        failed += stage->load[i].failed_before + stage->load[i].failed;
    return failed;
}

const char *lab_stage_trouble(const struct lab_stage *stage)
{
    for (size_t i = 0; i < LAB_LOADS; i++)
        if (stage->load[i].wanted && stage->load[i].child.pid == 0)
            return stage->load[i].said[0] != '\0' ? stage->load[i].said : "wsload has ended";
    return NULL;
}
