#include "loadgen/lab/machine.h"

#include "common/macros.h"
#include "common/units.h"

#include <curl/curl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

void machine_add(struct machine *machine, const char *label, const char *text, bool changes)
{
    struct machine_fact *fact = &machine->fact[machine->count];

    if (machine->count == MACHINE_FACTS)
        return;
    machine->count++;
    snprintf(fact->label, sizeof(fact->label), "%s", label);
    snprintf(fact->text, sizeof(fact->text), "%s", text);
    fact->changes = changes;
}

PRINTF_LIKE(3, 4)
static void add(struct machine *machine, const char *label, const char *format, ...)
{
    char text[MACHINE_TEXT];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    machine_add(machine, label, text, false);
}

/* The first line of a file. */
static bool read_line(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    bool good = file != NULL && fgets(text, (int)size, file) != NULL;

    if (file != NULL)
        fclose(file);
    if (good)
        text[strcspn(text, "\n")] = '\0';
    return good && text[0] != '\0';
}

/* The value of the first line "KEY <blanks> : VALUE" of a file. */
static bool read_value(const char *path, const char *key, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    char line[4096];
    bool found = false;

    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        const char *value = line + strlen(key);

        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        value += strspn(value, " \t");
        if (*value != ':')
            continue;
        value++;
        value += strspn(value, " \t");
        snprintf(text, size, "%.*s", (int)strcspn(value, "\n"), value);
        found = true;
    }
    if (file != NULL)
        fclose(file);
    return found;
}

static void add_processor(struct machine *machine)
{
    char model[MACHINE_TEXT / 2] = "unknown model", governor[32];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t allowed;
    int usable = (int)cores;

    read_value("/proc/cpuinfo", "model name", model, sizeof(model));
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
        usable = CPU_COUNT(&allowed);
    if (usable < cores)
        add(machine, "Processor", "%s, %ld cores, %d of them available", model, cores, usable);
    else
        add(machine, "Processor", "%s, %ld core%s", model, cores, cores == 1 ? "" : "s");
    if (read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor,
                  sizeof(governor)))
        add(machine, "Governor", "%s", governor);
}

static void add_memory(struct machine *machine)
{
    char text[64], bytes[UNITS_TEXT];

    if (read_value("/proc/meminfo", "MemTotal", text, sizeof(text)))
        add(machine, "Memory", "%s",
            units_format_bytes(bytes, sizeof(bytes), strtod(text, NULL) * 1024));
}

/* Other guests of the host may take CPU time. */
static void add_virtualisation(struct machine *machine)
{
    char flags[4096], product[64];
    bool container = access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0;
    bool virtual = read_value("/proc/cpuinfo", "flags", flags, sizeof(flags)) &&
                   strstr(flags, " hypervisor") != NULL;

    if (!virtual && !container)
        return;
    if (!read_line("/sys/class/dmi/id/product_name", product, sizeof(product)))
        product[0] = '\0';
    add(machine, "Virtual", "%s%s%s%s%s", virtual ? "a virtual machine" : "",
        virtual && product[0] != '\0' ? ": " : "", virtual ? product : "",
        virtual && container ? ", " : "", container ? "in a container" : "");
}

static void add_kernel(struct machine *machine)
{
    struct utsname name;

    if (uname(&name) == 0)
        add(machine, "Kernel", "%s %s, %s", name.sysname, name.release, name.machine);
}

static void add_load(struct machine *machine)
{
    double load[1];
    char text[MACHINE_TEXT];

    if (getloadavg(load, 1) != 1)
        return;
    snprintf(text, sizeof(text), "%.2f runnable processes, average of the last minute", load[0]);
    machine_add(machine, "Load", text, true);
}

static void add_time(struct machine *machine)
{
    time_t now = time(NULL);
    struct tm parts;
    char text[64];

    if (localtime_r(&now, &parts) != NULL &&
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M %Z", &parts) > 0)
        machine_add(machine, "Started", text, true);
}

void machine_describe(struct machine *machine, const char *server)
{
    machine->count = 0;
    add_processor(machine);
    add_memory(machine);
    add_virtualisation(machine);
    add_kernel(machine);
    add(machine, "Versions", "webserverd %s, wsload %s, libcurl %s", server, WEBSERVERD_VERSION,
        curl_version_info(CURLVERSION_NOW)->version);
    add_load(machine);
    add_time(machine);
}
