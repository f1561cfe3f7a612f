#include "loadgen/lab/command.h"

#include "loadgen/base/interrupts.h"
#include "loadgen/lab/command_options.h"
#include "loadgen/lab/lab_report.h"
#include "loadgen/stats/result.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_MOST = 4096, WHY = 512 };

static int complain(const char *why)
{
    fprintf(stderr, "wsload: %s\n", why);
    return RESULT_WRONG_USE;
}

static uint32_t count_cores(void)
{
    cpu_set_t cores;

    return sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) > 0
               ? (uint32_t)CPU_COUNT(&cores)
               : 1;
}

static void set_up(struct lab *lab, const struct lab_orders *orders)
{
    *lab = (struct lab){
        .program = orders->program,
        .quick = orders->quick,
        .rounds = orders->quick ? 3 : 5,
        .trial_ms = orders->quick ? 400 : 3000,
        .cores = count_cores(),
        .shows_progress = !orders->quiet && isatty(STDERR_FILENO),
    };
    if (orders->rounds > 0)
        lab->rounds = orders->rounds;
    if (orders->duration_ms > 0)
        lab->trial_ms = orders->duration_ms;
}

/* The version of the server that is used, from one that is started for it. Returns 0, or -1. */
static int ask_version(struct lab *lab, char *version, size_t size)
{
    struct private_server *server = private_server_create(lab->program, lab->why, sizeof(lab->why));
    json_t *status = NULL;

    if (server != NULL && private_server_start(server, NULL, lab->why, sizeof(lab->why)) == 0)
        status = private_server_command(server, "status", lab->why, sizeof(lab->why));
    private_server_destroy(server);
    if (status == NULL)
        return -1;
    snprintf(version, size, "%s", json_string_value(json_object_get(status, "version")));
    json_decref(status);
    return 0;
}

/* ---- Pages ---- */

static FILE *open_page(const struct lab_orders *orders, const char *name, char *path)
{
    snprintf(path, PATH_MOST, "%s/%s.html", orders->folder, name);
    return fopen(path, "we");
}

static int close_page(FILE *page, const char *path)
{
    bool failed = page == NULL || ferror(page) != 0;
    char why[PATH_MOST + WHY];

    if (page != NULL && fclose(page) != 0)
        failed = true;
    if (!failed)
        return RESULT_GOOD;
    snprintf(why, sizeof(why), "cannot write %s: %s", path, strerror(errno != 0 ? errno : EIO));
    return complain(why);
}

static int write_page(const struct lab_orders *orders, const struct findings *findings,
                      const struct machine *machine)
{
    char path[PATH_MOST];
    FILE *page = open_page(orders, findings->name, path);

    if (page != NULL)
        lab_page_findings(page, findings, machine);
    if (close_page(page, path) != RESULT_GOOD)
        return RESULT_WRONG_USE;
    printf("\nPage: %s\n", path);
    fflush(stdout);
    return RESULT_GOOD;
}

static int write_index(const struct lab_orders *orders, struct findings *const *findings,
                       size_t count, const struct machine *machine)
{
    char path[PATH_MOST];
    FILE *page;

    if (count < 2)
        return RESULT_GOOD;
    page = open_page(orders, "index", path);
    if (page != NULL)
        lab_page_index(page, (const struct findings *const *)findings, count, machine);
    if (close_page(page, path) != RESULT_GOOD)
        return RESULT_WRONG_USE;
    printf("All of them: %s\n", path);
    return RESULT_GOOD;
}

/* ---- Experiments ---- */

static int conduct(struct lab *lab, const struct lab_orders *orders,
                   const struct experiment *experiment, struct findings *findings,
                   const struct machine *machine)
{
    char why[LAB_WHY + 64];

    if (lab_conduct(lab, experiment, findings) == 0) {
        lab_text_findings(stdout, findings);
        return write_page(orders, findings, machine);
    }
    if (lab->interrupted)
        return RESULT_INTERRUPTED;
    snprintf(why, sizeof(why), "%s: %s", experiment->name, lab->why);
    return complain(why);
}

/* One that fails does not keep the others from being conducted; a signal does. */
static int conduct_all(struct lab *lab, const struct lab_orders *orders,
                       const struct machine *machine)
{
    struct findings *findings[LAB_CHOSEN_MAX];
    size_t count = 0;
    int worst = RESULT_GOOD;

    for (size_t i = 0; i < orders->count && !lab_is_interrupted(lab); i++) {
        const struct experiment *experiment = orders->chosen[i];
        int status = RESULT_WRONG_USE;

        findings[count] = findings_create(experiment->name, experiment->title);
        if (findings[count] != NULL)
            status = conduct(lab, orders, experiment, findings[count], machine);
        if (status == RESULT_GOOD)
            count++;
        else
            free(findings[count]);
        worst = status > worst ? status : worst;
    }
    if (lab->interrupted)
        worst = RESULT_INTERRUPTED;
    if (write_index(orders, findings, count, machine) != RESULT_GOOD && worst == RESULT_GOOD)
        worst = RESULT_WRONG_USE;
    while (count > 0)
        free(findings[--count]);
    return worst;
}

static int carry_out(const struct lab_orders *orders)
{
    char version[64], why[PATH_MOST + WHY];
    struct machine machine;
    struct lab lab;

    set_up(&lab, orders);
    if (mkdir(orders->folder, 0777) != 0 && errno != EEXIST) {
        snprintf(why, sizeof(why), "cannot make the folder %s: %s", orders->folder,
                 strerror(errno));
        return complain(why);
    }
    if (ask_version(&lab, version, sizeof(version)) != 0)
        return complain(lab.why);
    machine_describe(&machine, version);
    lab_text_machine(stdout, &machine);
    return conduct_all(&lab, orders, &machine);
}

int lab_main(int argc, char **argv)
{
    struct lab_orders orders;
    char why[WHY];
    int status;

    if (lab_orders_read(&orders, argc, argv, why, sizeof(why)) != 0)
        return complain(why);
    if (orders.help || orders.count == 0) {
        lab_help(stdout);
        return RESULT_GOOD;
    }
    if (interrupts_begin() != 0)
        return complain("out of descriptors");
    status = carry_out(&orders);
    interrupts_end();
    return status;
}
