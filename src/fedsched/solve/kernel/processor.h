/* Which of the sets of instructions this processor has, and its system lets programs use. */
#ifndef FEDSCHED_PROCESSOR_H
#define FEDSCHED_PROCESSOR_H

#include <cpuid.h>

enum { BASELINE, AVX2, AVX512 };

static int has(unsigned value, unsigned bits) { return (value & bits) == bits; }

/* The registers that the system saves for a process: XCR0. */
static unsigned saved_registers(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static int instructions(void)
{
    unsigned a, b, c, d, saved, features;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return BASELINE;
    features = c;
    if (!has(features, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C | bit_MOVBE)) return BASELINE;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return BASELINE;
    saved = saved_registers();
    if (!has(saved, 0x6) || !has(b, bit_AVX2 | bit_BMI | bit_BMI2)) return BASELINE;
    if (has(saved, 0xe6) && has(b, bit_AVX512F | bit_AVX512VL | bit_AVX512BW | bit_AVX512DQ | bit_AVX512CD))
        return AVX512;
    return AVX2;
}

#endif
