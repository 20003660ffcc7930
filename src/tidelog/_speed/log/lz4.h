/* LZ4 blocks, written and read.
 *
 * A block is a row of sequences: a token (4 bits for the number of literals, 4 for the length of a match less 4), the
 * literals, and where the match begins, as a distance of 16 bits.  15 in either half means that more bytes follow, each
 * adding up to 255.  The last sequence has literals only: at least 5 bytes, and no match begins in the last 12. */
#ifndef TIDELOG_LZ4_H
#define TIDELOG_LZ4_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LZ4_TABLE_BITS 12
#define LZ4_FAR 65535
#define LZ4_TAIL 5
#define LZ4_LAST_MATCH 12
#define LZ4_LEAST 4
#define LZ4_SLACK 32 /* what a copy in steps may write behind its end */

static inline uint16_t lz4_get16(const uint8_t *at) { return (uint16_t)(at[0] | at[1] << 8); }
static inline uint32_t lz4_get32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}
static inline void lz4_put32(uint8_t *at, uint32_t value) {
    for (int byte = 0; byte < 4; byte++) at[byte] = (uint8_t)(value >> 8 * byte);
}
static inline uint64_t lz4_word(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}
static inline uint32_t lz4_half(const uint8_t *at) {
    uint32_t half;
    memcpy(&half, at, 4);
    return half;
}

/* Of six bytes: fewer are found again by chance too often, and a match that short saves next to nothing. */
static inline uint32_t lz4_hash(const uint8_t *at) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    uint64_t six = lz4_word(at) & 0xFFFFFFFFFFFF0000ull;
#else
    uint64_t six = lz4_word(at) << 16;
#endif
    return (uint32_t)((six * 0x9E3779B185EBCA87ull) >> (64 - LZ4_TABLE_BITS));
}

static inline uint8_t *lz4_put_length(uint8_t *out, size_t rest) {
    for (; rest >= 255; rest -= 255) *out++ = 255;
    *out++ = (uint8_t)rest;
    return out;
}

/* Both may be read and written up to LZ4_SLACK bytes past their end. */
static inline void lz4_copy(uint8_t *to, const uint8_t *from, size_t size) {
    for (size_t at = 0; at < size; at += 16) memcpy(to + at, from + at, 16);
}

static inline uint8_t *lz4_put_sequence(uint8_t *out, const uint8_t *literals, size_t count, size_t distance, size_t match) {
    uint8_t *token = out++;
    *token = (uint8_t)((count < 15 ? count : 15) << 4);
    if (count >= 15) out = lz4_put_length(out, count - 15);
    memcpy(out, literals, count);
    out += count;
    if (!match) return out;
    *out++ = (uint8_t)distance;
    *out++ = (uint8_t)(distance >> 8);
    *token |= (uint8_t)(match - LZ4_LEAST < 15 ? match - LZ4_LEAST : 15);
    if (match - LZ4_LEAST >= 15) out = lz4_put_length(out, match - LZ4_LEAST - 15);
    return out;
}

static inline size_t lz4_same(const uint8_t *a, const uint8_t *b, const uint8_t *end) {
    const uint8_t *start = b;
    while (end - b >= 8) {
        uint64_t differs = lz4_word(a) ^ lz4_word(b);
        if (differs) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
            return (size_t)(b - start) + (size_t)(__builtin_clzll(differs) >> 3);
#else
            return (size_t)(b - start) + (size_t)(__builtin_ctzll(differs) >> 3);
#endif
        }
        a += 8;
        b += 8;
    }
    while (b < end && *a == *b) a++, b++;
    return (size_t)(b - start);
}

/* The size of the block, which is at most size + size / 255 + 16; `table` has 1 << LZ4_TABLE_BITS entries. */
static size_t lz4_write_block(const uint8_t *data, size_t size, uint8_t *out, uint32_t *table) {
    const uint8_t *literals = data, *at = data + 1, *end = data + size;
    uint8_t *start = out;
    if (size > LZ4_LAST_MATCH) {
        const uint8_t *last = end - LZ4_LAST_MATCH;
        memset(table, 0, sizeof(uint32_t) << LZ4_TABLE_BITS);
        while (at <= last) {
            /* The longer nothing is found, the longer the steps: what cannot be compressed is passed quickly. */
            size_t tries = 1 << 6;
            const uint8_t *match = NULL;
            for (; at <= last; at += tries++ >> 6) {
                uint32_t *place = &table[lz4_hash(at)];
                const uint8_t *before = data + *place;
                *place = (uint32_t)(at - data);
                if (at - before <= LZ4_FAR && lz4_half(before) == lz4_half(at)) {
                    match = before;
                    break;
                }
            }
            if (match == NULL) break;
            while (at > literals && match > data && at[-1] == match[-1]) at--, match--;
            size_t length = LZ4_LEAST + lz4_same(match + LZ4_LEAST, at + LZ4_LEAST, end - LZ4_TAIL);
            out = lz4_put_sequence(out, literals, (size_t)(at - literals), (size_t)(at - match), length);
            at += length;
            literals = at;
            if (at <= last) table[lz4_hash(at - 2)] = (uint32_t)(at - 2 - data);
        }
    }
    return (size_t)(lz4_put_sequence(out, literals, (size_t)(end - literals), 0, 0) - start);
}

static inline int lz4_get_length(const uint8_t **at, const uint8_t *end, size_t *length) {
    uint8_t byte;
    do {
        if (*at >= end) return 0;
        byte = *(*at)++;
        *length += byte;
    } while (byte == 255);
    return 1;
}

/* A match may overlap what it makes: a distance of 1 repeats one byte. */
static inline void lz4_repeat(uint8_t *out, size_t distance, size_t length, const uint8_t *limit) {
    const uint8_t *from = out - distance;
    size_t at = 0;
    if (distance == 1) {
        memset(out, *from, length);
        return;
    }
    if (distance >= 8) {
        /* As far as whole steps stay below the limit. */
        size_t step = distance >= 16 ? 16 : 8, room = (size_t)(limit - out);
        size_t safe = room > LZ4_SLACK ? room - LZ4_SLACK : 0;
        if (safe > length) safe = length;
        if (step == 16)
            for (; at < safe; at += 16) memcpy(out + at, from + at, 16);
        else
            for (; at < safe; at += 8) memcpy(out + at, from + at, 8);
    }
    for (; at < length; at++) out[at] = from[at];
}

/* How many bytes the block holds, written to `out` but not past `limit`; -1 when it is damaged or holds more.
 * Matches may reach back to `first`. */
static ptrdiff_t lz4_read_block(const uint8_t *at, size_t size, const uint8_t *first, uint8_t *out, const uint8_t *limit) {
    const uint8_t *end = at + size;
    uint8_t *start = out;
    while (at < end) {
        uint8_t token = *at++;
        size_t length = token >> 4;
        /* Most sequences are short ones: with room to spare they need neither loops nor their lengths. */
        if (length < 15 && end - at >= 18 && limit - out >= 64) {
            memcpy(out, at, 16);
            size_t distance = lz4_get16(at + length), match = token & 15;
            if (match < 15 && distance >= 8 && distance <= (size_t)(out + length - first)) {
                at += length + 2;
                out += length;
                memcpy(out, out - distance, 8);
                memcpy(out + 8, out + 8 - distance, 8);
                memcpy(out + 16, out + 16 - distance, 2);
                out += match + LZ4_LEAST;
                continue;
            }
        }
        if (length == 15 && !lz4_get_length(&at, end, &length)) return -1;
        if (length > (size_t)(end - at) || length > (size_t)(limit - out)) return -1;
        if ((size_t)(end - at) >= length + LZ4_SLACK && (size_t)(limit - out) >= length + LZ4_SLACK && length <= 256)
            lz4_copy(out, at, length);
        else
            memcpy(out, at, length);
        at += length;
        out += length;
        if (at == end) return out - start;
        if (end - at < 2) return -1;
        size_t distance = lz4_get16(at);
        at += 2;
        length = token & 15;
        if (length == 15 && !lz4_get_length(&at, end, &length)) return -1;
        length += LZ4_LEAST;
        if (distance == 0 || distance > (size_t)(out - first) || length > (size_t)(limit - out)) return -1;
        lz4_repeat(out, distance, length, limit);
        out += length;
    }
    return -1;
}

/* XXH32 of less than 16 bytes with seed 0: enough for a frame's descriptor. */
static uint32_t lz4_xxh32_short(const uint8_t *data, size_t size) {
    const uint32_t p1 = 0x9E3779B1u, p2 = 0x85EBCA77u, p3 = 0xC2B2AE3Du, p4 = 0x27D4EB2Fu, p5 = 0x165667B1u;
    uint32_t hash = p5 + (uint32_t)size;
    for (; size >= 4; data += 4, size -= 4) {
        hash += lz4_get32(data) * p3;
        hash = (hash << 17 | hash >> 15) * p4;
    }
    for (; size; data++, size--) {
        hash += *data * p5;
        hash = (hash << 11 | hash >> 21) * p1;
    }
    hash = (hash ^ hash >> 15) * p2;
    hash = (hash ^ hash >> 13) * p3;
    return hash ^ hash >> 16;
}

#endif
