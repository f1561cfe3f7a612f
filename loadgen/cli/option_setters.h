/*
 * The setter of each option of options.def: parses the value and stores it in reader->plan. Returns false
 * with the error set, or to end the parsing (--help, --version). Defined in load_options.c and
 * request_options.c.
 */
#ifndef LOADGEN_OPTION_SETTERS_H
#define LOADGEN_OPTION_SETTERS_H

#include "loadgen/cli/option_reader.h"

#define GROUP(title)
#define OPTION(name, letter, spelling, argument, help)                                             \
    bool option_set_##name(struct option_reader *reader, struct option_value value);
#define ALIAS(name, letter, spelling)
#include "loadgen/cli/options.def"
#undef GROUP
#undef OPTION
#undef ALIAS

#endif
