#include "traitor.h"

#include "common/macros.h"

uint64_t chance_number(struct chance *chance)
{
    uint64_t value = chance->state += UINT64_C(0x9e3779b97f4a7c15);

    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

uint64_t chance_below(struct chance *chance, uint64_t limit)
{
    return chance_number(chance) % limit;
}

uint64_t chance_edge(struct chance *chance)
{
    static const uint64_t fixed[] = {0,          1,         UINT64_MAX, INT64_MAX,
                                     UINT32_MAX, INT32_MAX, UINT16_MAX};
    uint64_t pick = chance_below(chance, 2 * ARRAY_LENGTH(fixed));

    if (pick < ARRAY_LENGTH(fixed))
        return fixed[pick];
    return (UINT64_C(1) << chance_below(chance, 64)) + chance_below(chance, 3) - 1;
}
