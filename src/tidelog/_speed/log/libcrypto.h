/* AES-256-GCM of OpenSSL's libcrypto, loaded when it is first needed: no headers of it and no link to it are needed to build. */
#ifndef TIDELOG_LIBCRYPTO_H
#define TIDELOG_LIBCRYPTO_H

#include <dlfcn.h>
#include <stddef.h>

enum { AES_GCM_GET_TAG = 0x10, AES_GCM_SET_TAG = 0x11, AES_GCM_TAG = 16 };

static struct {
    void* (*context_new)(void);
    void (*context_free)(void*);
    const void* (*aes_256_gcm)(void);
    int (*encrypt_init)(void*, const void*, void*, const unsigned char*, const unsigned char*);
    int (*encrypt_update)(void*, unsigned char*, int*, const unsigned char*, int);
    int (*encrypt_final)(void*, unsigned char*, int*);
    int (*decrypt_init)(void*, const void*, void*, const unsigned char*, const unsigned char*);
    int (*decrypt_update)(void*, unsigned char*, int*, const unsigned char*, int);
    int (*decrypt_final)(void*, unsigned char*, int*);
    int (*control)(void*, int, int, void*);
} libcrypto;

/* 1 when it is there; called with the GIL. */
static int libcrypto_load(void) {
    static const char* const names[] = {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"};
    static int loaded = 0;
    void* library = NULL;
    size_t number;
    if (loaded) return 1;
    for (number = 0; library == NULL && number < sizeof names / sizeof *names; number++)
        library = dlopen(names[number], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return 0;
#define LIBCRYPTO_FIND(field, name) if ((*(void**)&libcrypto.field = dlsym(library, name)) == NULL) return 0
    LIBCRYPTO_FIND(context_new, "EVP_CIPHER_CTX_new");
    LIBCRYPTO_FIND(context_free, "EVP_CIPHER_CTX_free");
    LIBCRYPTO_FIND(aes_256_gcm, "EVP_aes_256_gcm");
    LIBCRYPTO_FIND(encrypt_init, "EVP_EncryptInit_ex");
    LIBCRYPTO_FIND(encrypt_update, "EVP_EncryptUpdate");
    LIBCRYPTO_FIND(encrypt_final, "EVP_EncryptFinal_ex");
    LIBCRYPTO_FIND(decrypt_init, "EVP_DecryptInit_ex");
    LIBCRYPTO_FIND(decrypt_update, "EVP_DecryptUpdate");
    LIBCRYPTO_FIND(decrypt_final, "EVP_DecryptFinal_ex");
    LIBCRYPTO_FIND(control, "EVP_CIPHER_CTX_ctrl");
#undef LIBCRYPTO_FIND
    return loaded = 1;
}

/* A context for one key; NULL when there is no memory. */
static void* aes_gcm_new(const unsigned char* key, int encrypts) {
    void* context = libcrypto.context_new();
    if (context == NULL) return NULL;
    if ((encrypts ? libcrypto.encrypt_init : libcrypto.decrypt_init)(context, libcrypto.aes_256_gcm(), NULL, key, NULL) != 1) {
        libcrypto.context_free(context);
        return NULL;
    }
    return context;
}

static int aes_gcm_seal(
    void* context, const unsigned char* nonce, const unsigned char* associated, int associated_size,
    const unsigned char* plain, int size, unsigned char* sealed, unsigned char* tag
) {
    int count = 0;
    return libcrypto.encrypt_init(context, NULL, NULL, NULL, nonce) == 1
        && libcrypto.encrypt_update(context, NULL, &count, associated, associated_size) == 1
        && libcrypto.encrypt_update(context, sealed, &count, plain, size) == 1
        && libcrypto.encrypt_final(context, sealed + size, &count) == 1
        && libcrypto.control(context, AES_GCM_GET_TAG, AES_GCM_TAG, tag) == 1;
}

/* 1 when the tag is right; `plain` has garbage otherwise. */
static int aes_gcm_open(
    void* context, const unsigned char* nonce, const unsigned char* associated, int associated_size,
    const unsigned char* sealed, int size, unsigned char* plain, const unsigned char* tag
) {
    int count = 0;
    return libcrypto.decrypt_init(context, NULL, NULL, NULL, nonce) == 1
        && libcrypto.decrypt_update(context, NULL, &count, associated, associated_size) == 1
        && libcrypto.decrypt_update(context, plain, &count, sealed, size) == 1
        && libcrypto.control(context, AES_GCM_SET_TAG, AES_GCM_TAG, (void*)tag) == 1
        && libcrypto.decrypt_final(context, plain + size, &count) == 1;
}

#endif
