/*
 * `wsload lab` from its command line to its pages: runs the experiments and keeps their findings.
 * Main thread.
 */
#ifndef LOADGEN_LAB_SESSION_H
#define LOADGEN_LAB_SESSION_H

/* ARGV[0] is the word "lab". Returns the exit status of the program. */
int lab_main(int argc, char **argv);

#endif
