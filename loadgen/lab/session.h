/*
 * `wsload lab` from its command line to its pages: runs the experiments and keeps their findings.
 * Main thread.
 */
#ifndef LOADGEN_LAB_SESSION_H
#define LOADGEN_LAB_SESSION_H

#include "loadgen/lab/findings.h"
#include "loadgen/lab/lab.h"

#include <jansson.h>
#include <stdio.h>

/* ARGV[0] is the word "lab". Returns the exit status of the program. */
int lab_main(int argc, char **argv);

/* ---- The command line ---- */

enum { LAB_CHOSEN_MAX = 64 };

/* All experiments, in the order of experiments.def. */
extern const struct experiment lab_experiments[];
extern const size_t lab_experiment_count;

/* A command line. */
struct lab_options {
    const char *page_directory;
    const char *program; /* NULL: searches for webserverd */
    bool quick, quiet, resume, help;
    bool all;             /* `all` was named: nobody waits at the terminal for questions */
    uint32_t rounds;      /* 0: the default */
    uint64_t duration_ms; /* 0: the default */
    uint64_t until_ms;    /* time for added rounds in an experiment; 0: none are added */
    uint64_t rate;        /* 0: the default */
    const struct experiment *chosen[LAB_CHOSEN_MAX];
    size_t count; /* 0: list the experiments */
};

/* ARGV[0] is ignored. Returns 0, or -1 with WHY. Pure. */
int lab_options_parse(struct lab_options *options, int argc, char *const *argv, char *why,
                      size_t size);

void lab_help(FILE *out);

/*
 * ---- The findings of finished experiments, as DIRECTORY/NAME.json (store.c) ----
 *
 * A lab that was stopped continues with the others (--resume). A file also has the conditions of
 * its measurement.
 */

/* A program in the conditions: its version and the digest of its file. */
enum { STORE_PROGRAM = 128 };
void store_describe_program(char *text, const char *version, pid_t pid);

/*
 * What must be equal for findings to belong together: settings, machine, programs. Label and text
 * each. Returns NULL if out of memory.
 */
json_t *store_conditions(const struct lab *lab, const struct machine *machine, const char *server,
                         const char *client);

/*
 * Writes TEXT to PATH, which never has a part of it: an error or a kill leaves the old file.
 * Returns 0, or -1 with WHY.
 */
int store_replace(const char *path, const char *text, size_t length, char *why, size_t size);

/* Returns 0, or -1 with WHY. */
int store_write(const char *directory, const char *name, const json_t *conditions,
                const struct machine *machine, const struct document *findings, char *why,
                size_t size);

enum store_outcome {
    STORE_FOUND,   /* the caller frees *FINDINGS */
    STORE_MISSING, /* the experiment has not finished */
    STORE_REFUSED, /* WHY: other conditions, or unreadable */
};

enum store_outcome store_read(const char *directory, const char *name, const json_t *conditions,
                              struct machine *machine, struct document **findings, char *why,
                              size_t size);

/* Removes the findings of an earlier lab. Returns 0, or -1 with WHY. */
int store_forget(const char *directory, const char *name, char *why, size_t size);

#endif
