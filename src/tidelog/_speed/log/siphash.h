/* SipHash-2-4 with 128 bits of output: a keyed hash, so nobody who does not know the key can choose two inputs that
 * collide. */
#ifndef TIDELOG_SIPHASH_H
#define TIDELOG_SIPHASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SIP_ROTATE(x, bits) (((x) << (bits)) | ((x) >> (64 - (bits))))

static inline void sip_round(uint64_t v[4]) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = SIP_ROTATE(v[1], 13) ^ v[0];
    v[3] = SIP_ROTATE(v[3], 16) ^ v[2];
    v[0] = SIP_ROTATE(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = SIP_ROTATE(v[1], 17) ^ v[2];
    v[3] = SIP_ROTATE(v[3], 21) ^ v[0];
    v[2] = SIP_ROTATE(v[2], 32);
}

static inline uint64_t sip_word(const uint8_t* at, size_t size) {
    uint64_t word = 0;
    for (size_t i = 0; i < size; i++) word |= (uint64_t)at[i] << (8 * i);
    return word;
}

static inline void siphash128(
    uint64_t key_low, uint64_t key_high, const uint8_t* data, size_t size, uint64_t* low, uint64_t* high
) {
    uint64_t v[4] = {
        key_low ^ 0x736f6d6570736575ULL,
        key_high ^ 0x646f72616e646f6dULL ^ 0xee,
        key_low ^ 0x6c7967656e657261ULL,
        key_high ^ 0x7465646279746573ULL,
    };
    const uint8_t* end = data + (size & ~(size_t)7);
    uint64_t word;
    for (; data != end; data += 8) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        memcpy(&word, data, 8);
#else
        word = sip_word(data, 8);
#endif
        v[3] ^= word;
        sip_round(v);
        sip_round(v);
        v[0] ^= word;
    }
    word = sip_word(data, size & 7) | (uint64_t)size << 56;
    v[3] ^= word;
    sip_round(v);
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xee;
    for (int i = 0; i < 4; i++) sip_round(v);
    *low = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    for (int i = 0; i < 4; i++) sip_round(v);
    *high = v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
