/* Paths as the configuration writes them. Any thread. */
#ifndef DAEMON_CONFIG_PATH_H
#define DAEMON_CONFIG_PATH_H

/* The two together with a '/' between; owned by the caller. NULL: out of memory. */
char *config_path_join(const char *folder, const char *path);

#endif
