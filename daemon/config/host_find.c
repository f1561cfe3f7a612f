#include "daemon/config/host_find.h"

#include "common/tables.h"

#include <stdlib.h>
#include <string.h>

bool config_host_name_is(const char *name, struct span text)
{
    return span_is_nocase(text, (struct span){name, strlen(name)});
}

const struct config_host *config_host_find(const struct config *config, struct span name)
{
    for (size_t i = 0; i < config->host_count; i++)
        if (config_host_name_is(config->hosts[i].names[0], name))
            return &config->hosts[i];
    return NULL;
}

bool config_host_require(const struct config *config, const char *name, const char *source,
                         struct config_report *report)
{
    struct config_place place = {.source = source};
    char advice[CONFIG_ADVICE_MAX] = "add a section [host NAME]";
    const char **names, *near = NULL;

    if (config_host_find(config, (struct span){name, strlen(name)}) != NULL)
        return true;
    names = calloc(config->host_count + 1, sizeof(*names));
    for (size_t i = 0; i < config->host_count && names != NULL; i++)
        names[i] = config->hosts[i].names[0];
    if (names != NULL)
        near = nearest_word(name, names, config->host_count);
    if (near != NULL)
        snprintf(advice, sizeof(advice), "did you mean '%s'? use the first name of a [host]", near);
    config_report_error(report, &place, advice, "there is no [host %s]", name);
    free(names);
    return false;
}
