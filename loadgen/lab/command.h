/* `wsload lab`: the command line of the experiments, and what it does. Main thread. */
#ifndef LOADGEN_LAB_COMMAND_H
#define LOADGEN_LAB_COMMAND_H

/* ARGV[0] is the word "lab". Returns the exit status of the program. */
int lab_main(int argc, char **argv);

#endif
