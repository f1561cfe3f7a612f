/* Each experiment of experiments.def, as struct experiment's conduct() is. Main thread. */
#ifndef LOADGEN_LAB_EXPERIMENTS_H
#define LOADGEN_LAB_EXPERIMENTS_H

#include "loadgen/lab/lab.h"

#define EXPERIMENT(name, title, question)                                                          \
    int experiment_##name(struct lab *lab, struct findings *findings);
#include "loadgen/lab/experiments.def"
#undef EXPERIMENT

#endif
