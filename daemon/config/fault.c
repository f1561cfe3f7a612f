#include "daemon/config/fault.h"

#include <stdarg.h>
#include <stdio.h>

int config_fault_tell(const struct config_faults *faults, size_t offset, size_t length,
                      const char *advice, const char *format, ...)
{
    char problem[CONFIG_PROBLEM_MAX];
    struct config_fault fault = {offset, length, problem, advice};
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(problem, sizeof(problem), format, arguments);
    va_end(arguments);
    faults->tell(faults->owner, &fault);
    return -1;
}

int config_fault_memory(const struct config_faults *faults)
{
    return config_fault_tell(faults, 0, 0, "", "out of memory");
}
