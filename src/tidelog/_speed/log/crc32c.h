/* CRC-32C (Castagnoli, reflected polynomial 0x82F63B78).
 *
 * Where the processor has an instruction for it, three independent streams run side by side, because one
 * instruction takes three cycles but a new one can start in each; the three results are joined by shifting a CRC
 * over the zero bytes that stand for its neighbours' data, which is a linear map kept in tables.  Elsewhere a table
 * of 8 x 256 entries takes eight bytes a step. */
#ifndef TIDELOG_CRC32C_H
#define TIDELOG_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define CRC_HAVE_NATIVE 1
#define CRC_TARGET __attribute__((target("sse4.2")))
#define CRC_STEP8(crc, word) ((uint32_t)__builtin_ia32_crc32di((crc), (word)))
#define CRC_STEP1(crc, byte) (__builtin_ia32_crc32qi((crc), (byte)))
static int crc_native_here(void) { return __builtin_cpu_supports("sse4.2"); }
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define CRC_HAVE_NATIVE 1
#define CRC_TARGET
#define CRC_STEP8(crc, word) (__crc32cd((crc), (word)))
#define CRC_STEP1(crc, byte) (__crc32cb((crc), (byte)))
static int crc_native_here(void) { return 1; }
#else
#define CRC_HAVE_NATIVE 0
#endif

#define CRC_POLYNOMIAL 0x82F63B78u
#define CRC_LONG 4096
#define CRC_SHORT 256

static uint32_t crc_table[8][256];
static uint32_t crc_shift_long[4][256];
static uint32_t crc_shift_short[4][256];
static int crc_native = 0;

/* The state after `zeros` zero bytes, the slow way: used only to fill the tables. */
static uint32_t crc_over_zeros(uint32_t crc, size_t zeros) {
    while (zeros--) crc = (crc >> 8) ^ crc_table[0][crc & 0xff];
    return crc;
}

static void crc_fill_shift(uint32_t table[4][256], size_t zeros) {
    uint32_t column[32];
    for (int bit = 0; bit < 32; bit++) column[bit] = crc_over_zeros(1u << bit, zeros);
    for (int byte = 0; byte < 4; byte++)
        for (int value = 0; value < 256; value++) {
            uint32_t sum = 0;
            for (int bit = 0; bit < 8; bit++)
                if (value >> bit & 1) sum ^= column[8 * byte + bit];
            table[byte][value] = sum;
        }
}

static void crc_prepare(void) {
    for (int value = 0; value < 256; value++) {
        uint32_t crc = (uint32_t)value;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >> 1) ^ CRC_POLYNOMIAL : crc >> 1;
        crc_table[0][value] = crc;
    }
    for (int value = 0; value < 256; value++)
        for (int row = 1; row < 8; row++)
            crc_table[row][value] = (crc_table[row - 1][value] >> 8) ^ crc_table[0][crc_table[row - 1][value] & 0xff];
    crc_fill_shift(crc_shift_long, CRC_LONG);
    crc_fill_shift(crc_shift_short, CRC_SHORT);
#if CRC_HAVE_NATIVE
    crc_native = crc_native_here();
#endif
}

static uint32_t crc_by_table(uint32_t crc, const uint8_t *data, size_t size) {
    for (; size >= 8; data += 8, size -= 8) {
        uint32_t low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
        crc = crc_table[7][low & 0xff] ^ crc_table[6][low >> 8 & 0xff] ^ crc_table[5][low >> 16 & 0xff] ^
              crc_table[4][low >> 24] ^ crc_table[3][data[4]] ^ crc_table[2][data[5]] ^ crc_table[1][data[6]] ^
              crc_table[0][data[7]];
    }
    for (; size; data++, size--) crc = (crc >> 8) ^ crc_table[0][(crc ^ *data) & 0xff];
    return crc;
}

#if CRC_HAVE_NATIVE
static uint32_t crc_shift(uint32_t table[4][256], uint32_t crc) {
    return table[0][crc & 0xff] ^ table[1][crc >> 8 & 0xff] ^ table[2][crc >> 16 & 0xff] ^ table[3][crc >> 24];
}

static uint64_t crc_word(const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, 8);
    return word;
}

CRC_TARGET static uint32_t crc_by_instruction(uint32_t crc, const uint8_t *data, size_t size) {
    static const size_t steps[2] = {CRC_LONG, CRC_SHORT};
    for (int pass = 0; pass < 2; pass++) {
        const size_t step = steps[pass];
        uint32_t(*shift)[256] = pass == 0 ? crc_shift_long : crc_shift_short;
        while (size >= 3 * step) {
            uint32_t first = crc, second = 0, third = 0;
            for (size_t at = 0; at < step; at += 8) {
                first = CRC_STEP8(first, crc_word(data + at));
                second = CRC_STEP8(second, crc_word(data + step + at));
                third = CRC_STEP8(third, crc_word(data + 2 * step + at));
            }
            crc = crc_shift(shift, crc_shift(shift, first) ^ second) ^ third;
            data += 3 * step;
            size -= 3 * step;
        }
    }
    for (; size >= 8; data += 8, size -= 8) crc = CRC_STEP8(crc, crc_word(data));
    for (; size; data++, size--) crc = CRC_STEP1(crc, *data);
    return crc;
}
#endif

/* Goes on from `value` (0 at the start), like zlib's crc32(). */
static uint32_t crc32c_update(uint32_t value, const uint8_t *data, size_t size) {
#if CRC_HAVE_NATIVE
    if (crc_native) return ~crc_by_instruction(~value, data, size);
#endif
    return ~crc_by_table(~value, data, size);
}

#endif
