#include "console/ui/layout.h"

/* Lines of the shown parts, gaps included. */
static int total(const struct layout_part *parts, const int *sizes, size_t count)
{
    int lines = 0;

    for (size_t i = 0; i < count; i++)
        if (sizes[i] > 0)
            lines += sizes[i] + (lines > 0 ? parts[i].gap : 0);
    return lines;
}

static int shown(const int *sizes, size_t count)
{
    int parts = 0;

    for (size_t i = 0; i < count; i++)
        parts += sizes[i] > 0;
    return parts;
}

static void leave_one_out(const struct layout_part *parts, int *sizes, size_t count)
{
    size_t least = count;

    for (size_t i = 0; i < count; i++)
        if (sizes[i] > 0 && (least == count || parts[i].importance <= parts[least].importance))
            least = i;
    if (least < count)
        sizes[least] = 0;
}

/* Gives one line to the part that is smallest relative to its weight; false if none can grow. */
static bool grow_one(const struct layout_part *parts, int *sizes, size_t count)
{
    size_t next = count;

    for (size_t i = 0; i < count; i++) {
        bool grows =
            sizes[i] > 0 && parts[i].weight > 0 && (parts[i].max == 0 || sizes[i] < parts[i].max);

        if (grows &&
            (next == count || sizes[i] * parts[next].weight < sizes[next] * parts[i].weight))
            next = i;
    }
    if (next == count)
        return false;
    sizes[next]++;
    return true;
}

static void share(const struct layout_part *parts, size_t count, int room, int *sizes)
{
    for (size_t i = 0; i < count; i++)
        sizes[i] = parts[i].min;
    while (total(parts, sizes, count) > room && shown(sizes, count) > 1)
        leave_one_out(parts, sizes, count);
    for (int left = room - total(parts, sizes, count); left > 0; left--)
        if (!grow_one(parts, sizes, count))
            break;
}

int layout_stack(const struct canvas *canvas, const struct layout_part *parts, size_t count,
                 struct canvas *places)
{
    int sizes[LAYOUT_PARTS_MAX], at = 0;

    count = count < LAYOUT_PARTS_MAX ? count : LAYOUT_PARTS_MAX;
    share(parts, count, canvas->height, sizes);
    for (size_t i = 0; i < count; i++) {
        at += sizes[i] > 0 && at > 0 ? parts[i].gap : 0;
        places[i] = canvas_part(canvas, at, 0, sizes[i], canvas->width);
        at += sizes[i];
    }
    return shown(sizes, count);
}
