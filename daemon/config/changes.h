/* The sections that two configurations differ in. Any thread. */
#ifndef DAEMON_CONFIG_CHANGES_H
#define DAEMON_CONFIG_CHANGES_H

#include "daemon/config/config.h"

/*
 * Calls FOUND for the title, such as "[host example.org]" (not terminated), of each section without
 * keys in config.def that is in one configuration only or has other lines in the other one: first
 * those of AFTER, then those of BEFORE alone. Returns 0, or -1: out of memory.
 */
int config_changed_sections(const struct config *before, const struct config *after,
                            void (*found)(void *owner, const char *title, size_t length),
                            void *owner);

#endif
