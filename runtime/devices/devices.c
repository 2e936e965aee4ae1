/* devices.c - see devices.h. */
#include "devices.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "list.h"

#define DECLARE(name, numbered, in_c) extern const struct backend name##_backend;
BACKENDS(DECLARE)

#define ROW(name, numbered, in_c) &name##_backend,
static const struct backend *const list[] = {BACKENDS(ROW)};
enum { COUNT = sizeof list / sizeof *list };

struct devices {
    const struct resources *resources;
    pthread_mutex_t lock;
    void *opened[COUNT]; /* NULL until somebody asks; under lock */
};

/* Tried again at each call until it succeeds, since a driver may be installed meanwhile. */
static int open_backend(struct devices *d, int i, void **out, struct gen_error *err)
{
    int result = 0;
    pthread_mutex_lock(&d->lock);
    if (!d->opened[i])
        result = list[i]->open(d->resources, &d->opened[i], err);
    *out = d->opened[i];
    pthread_mutex_unlock(&d->lock);
    return result;
}

int devices_open(const struct resources *resources, struct devices **out, struct gen_error *err)
{
    struct devices *d = calloc(1, sizeof *d);
    *out = NULL;
    if (!d)
        return gen_out_of_memory(err, NULL);
    d->resources = resources;
    pthread_mutex_init(&d->lock, NULL);
    for (int i = 0; i < COUNT; i++) {
        void *ignored;
        if (list[i]->at_once && open_backend(d, i, &ignored, err) != 0) {
            devices_close(d);
            return -1;
        }
    }
    *out = d;
    return 0;
}

void devices_close(struct devices *d)
{
    if (!d)
        return;
    for (int i = 0; i < COUNT; i++)
        list[i]->close(d->opened[i]);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

int devices_find(struct devices *d, const char *name, attn_compiler compiler, struct device **out,
                 struct gen_error *err)
{
    int index = -1, i = name ? device_parse(name, &index) : 0;
    void *opened;
    *out = NULL;
    if (i < 0) {
        snprintf(err->text, sizeof err->text, "device '%.40s' is unknown; expected " DEVICE_NAMES, name);
        return -1;
    }
    return open_backend(d, i, &opened, err) ? -1 : list[i]->device(opened, index, compiler, out, err);
}

attn_status devices_adopt(struct devices *d, const struct attn_problem *problem, struct device **out,
                          struct gen_error *err)
{
    *out = NULL;
    for (int i = 0; i < COUNT; i++) {
        void *opened;
        if (!list[i]->brings || !list[i]->brings(problem))
            continue;
        return open_backend(d, i, &opened, err) ? ATTN_UNSUPPORTED : list[i]->adopt(opened, problem, out, err);
    }
    return ATTN_OK;
}

int devices_for(struct devices *d, enum language language, struct device **out, struct gen_error *err)
{
    *out = NULL;
    for (int i = 0; i < COUNT; i++) {
        void *opened;
        if (list[i]->language == language)
            return open_backend(d, i, &opened, err) ? -1 : list[i]->device(opened, -1, ATTN_TCC, out, err);
    }
    snprintf(err->text, sizeof err->text, "no device compiles kernels in %s", language_names[language]);
    return -1;
}

int devices_shipping(struct devices *d, const char *form, struct device **out, struct gen_error *err)
{
    struct gen_error why = {0};
    int devices = 0;
    *out = NULL;
    for (int i = 0; i < COUNT; i++) {
        const struct backend *b = list[i];
        void *opened;
        if (!b->ship || open_backend(d, i, &opened, &why) != 0)
            continue;
        for (int k = 0; k < b->count(opened); k++, devices++) {
            struct device *device;
            if (b->device(opened, k, ATTN_TCC, &device, &why) != 0)
                continue;
            if (device->ships && !strcmp(device->ships, form)) {
                *out = device;
                return 0;
            }
            device_release(device);
        }
    }
    if (devices == 0 && why.text[0])
        *err = why;
    else
        snprintf(err->text, sizeof err->text, "no device makes %s; expected one that does among %d", form, devices);
    return -1;
}

void device_release(struct device *device)
{
    if (device && device->backend->release)
        device->backend->release(device);
}

int devices_count(struct devices *d, const char *backend)
{
    struct gen_error ignored = {0};
    void *opened;
    for (int i = 0; i < COUNT; i++)
        if (!strcmp(list[i]->name, backend))
            return open_backend(d, i, &opened, &ignored) ? 0 : list[i]->count(opened);
    return 0;
}

void devices_describe(struct devices *d, struct buf *out)
{
    for (int i = 0; i < COUNT; i++) {
        struct gen_error err = {0};
        void *opened;
        if (open_backend(d, i, &opened, &err) != 0) {
            buf_printf(out, "%s  none: %s\n", list[i]->name, err.text);
            continue;
        }
        const int n = list[i]->count(opened);
        for (int k = 0; k < n; k++) {
            list[i]->describe(opened, k, out);
            buf_putc(out, '\n');
        }
        if (n == 0)
            buf_printf(out, "%s  none: %s\n", list[i]->name, list[i]->none);
    }
}
