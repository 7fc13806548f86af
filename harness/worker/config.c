/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - what a worker sets up before its first request, and what it tells of its plugin. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host/confine.h"
#include "host/isolate.h"
#include "worker/channel.h"
#include "worker/keep.h"
#include "worker/load.h"
#include "worker/serve.h"
#include "worker/slots.h"

/* Sanitizers reserve terabytes that count as data. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMIT_DATA 0
#else
#define LIMIT_DATA 1
#endif

static void set_limits(const struct attn_message_config *config)
{
    const struct rlimit none = {0, 0}, data = {config->data_limit, config->data_limit};
    setrlimit(RLIMIT_CORE, &none);
    if (LIMIT_DATA && config->data_limit > 0)
        setrlimit(RLIMIT_DATA, &data);
}

/* Before any code of a plugin, and while there is one thread. What the host has found possible must
 * be had; but a worker with sanitizers, which have a thread of their own, goes on without. */
static int confine(const struct attn_message_config *config, struct attn_message_reply *reply)
{
    const uint32_t later = config->rungs & ~(1u << ATTN_RUNG_USER | 1u << ATTN_RUNG_PID);
    struct attn_confinement taken = {0};
    const int result = attn_isolate_self();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (result < 0 || (result > 0 && LIMIT_DATA) || getppid() != config->host) {
        attn_reply_set(reply, ATTN_ERROR, ATTN_NO_WORKER "no user namespace of its own: %s",
                       strerror(errno));
        return -1;
    }
    if (result > 0)
        return 0;
    if (config->rungs & 1u << ATTN_RUNG_PID && attn_keep() != 0) {
        attn_reply_set(reply, ATTN_ERROR, ATTN_NO_WORKER "no pid namespace of its own: %s",
                       strerror(errno));
        return -1;
    }
    attn_confine_self(later, &taken);
    for (int rung = 0; rung < ATTN_RUNG_NAMES; rung++)
        if (later & ~taken.rungs & 1u << rung) {
            attn_reply_set(reply, ATTN_ERROR,
                           ATTN_NO_WORKER "it is not confined as tried before: %s",
                           strerror(taken.errors[rung]));
            return -1;
        }
    return 0;
}

static int set_affinity(struct attn_setup *setup, const struct attn_message_config *config,
                        struct attn_message_reply *reply)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    attn_load_inherit();
    setup->n_processors = config->n_processors;
    for (uint32_t p = 0; p < config->n_processors; p++) {
        setup->processors[p] = config->processors[p];
        CPU_SET(config->processors[p], &set);
    }
    if (config->n_processors == 0 || sched_setaffinity(0, sizeof(set), &set) == 0)
        return 0;
    attn_reply_set(reply, ATTN_ERROR, "cannot set the affinity: %s", strerror(errno));
    return -1;
}

/* After a slot without a reply of its own: did it leave the floating-point state as it was. */
static int leave(uint32_t slot, struct attn_message_reply *reply)
{
    char broken[128];
    if (attn_slot_leave(broken, sizeof(broken)) == 0)
        return 0;
    attn_reply_set(reply, ATTN_FAIL, "%s, in %s", broken, attn_slot_name(slot));
    return -1;
}

/* Opens the plugin and calls its init, once. */
static int load(struct attn_setup *setup, const char *path, struct attn_message_reply *reply)
{
    char why[384] = "";
    attn_slot_enter(ATTN_SLOT_LOAD);
    const int refused = attn_plugin_load(path, &setup->loaded, why, sizeof(why));
    /* A plugin linked with fast-math flips flush-to-zero for the whole process here. */
    const int state = leave(ATTN_SLOT_LOAD, reply);
    if (refused)
        attn_reply_set(reply, ATTN_ERROR, "%s", why);
    if (refused || state != 0)
        return -1;
    if (!setup->loaded.plugin->init)
        return 0;
    attn_slot_enter(ATTN_SLOT_INIT);
    setup->init_result =
        setup->loaded.plugin->init(&setup->services, setup->init_why, sizeof(setup->init_why));
    return leave(ATTN_SLOT_INIT, reply);
}

/* Can the backend run here. If its probe breaks a promise, the reply says so. */
static bool available(struct attn_setup *setup, const struct attn_backend *backend, char *why,
                      size_t size, struct attn_message_reply *reply)
{
    why[0] = 0;
    if (setup->init_result != ATTN_OK) {
        snprintf(why, size, "%s",
                 setup->init_why[0] ? setup->init_why : "init of the plugin failed");
        return false;
    }
    if (!backend->probe)
        return true;
    attn_slot_enter(ATTN_SLOT_PROBE);
    const int result = backend->probe(&setup->services, why, size);
    if (leave(ATTN_SLOT_PROBE, reply) != 0)
        return false;
    if (result != ATTN_OK && !why[0])
        snprintf(why, size, "probe of the backend gave no reason");
    return result == ATTN_OK;
}

static int select_backend(struct attn_setup *setup, const struct attn_message_config *config,
                          struct attn_message_reply *reply)
{
    char why[256];
    const struct attn_backend *backend = attn_plugin_backend(&setup->loaded, config->backend);
    if (!backend) {
        attn_reply_set(reply, ATTN_ERROR, "the plugin has no backend %s", config->backend);
        return -1;
    }
    const struct attn_options_room room = {.text = setup->state.option_text,
                                           .size = sizeof(setup->state.option_text),
                                           .options = setup->state.options,
                                           .most = ATTN_OPTIONS_MAX};
    const int n = attn_options_parse(backend, config->options, &room, why, sizeof(why));
    if (n < 0) {
        attn_reply_set(reply, ATTN_ERROR, "%s", why);
        return -1;
    }
    setup->services.n_options = (uint32_t)n;
    if (!available(setup, backend, why, sizeof(why), reply)) {
        if (reply->status == ATTN_PASS)
            attn_reply_set(reply, ATTN_SKIP, "%s", why);
        return -1;
    }
    setup->backend = backend;
    return 0;
}

void attn_serve_config(struct attn_setup *setup, const struct attn_message_config *config,
                       struct attn_message_reply *reply)
{
    if (config->version != ATTN_PROTOCOL_VERSION) {
        attn_reply_set(reply, ATTN_ERROR, "host and worker are of different versions");
        return;
    }
    if (config->rungs && confine(config, reply) != 0)
        return;
    setup->threads = config->threads;
    attn_services_init(&setup->services, &setup->state, config->threads);
    set_limits(config);
    if (set_affinity(setup, config, reply) != 0 || !config->plugin[0])
        return;
    if (load(setup, config->plugin, reply) == 0 && config->backend[0])
        select_backend(setup, config, reply);
}

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

static void describe_options(const struct attn_backend *backend, struct attn_backend_info *info)
{
    for (uint32_t o = 0; o < backend->n_options && o < ATTN_OPTIONS_MAX; o++) {
        const struct attn_option_spec *spec = &backend->options[o];
        struct attn_option_info *to = &info->options[info->n_options++];
        copy(to->key, sizeof(to->key), spec->key);
        copy(to->choices, sizeof(to->choices), spec->choices);
        copy(to->fallback, sizeof(to->fallback), spec->default_value);
        copy(to->help, sizeof(to->help), spec->help);
        to->type = spec->type;
    }
}

void attn_serve_inspect(struct attn_setup *setup, struct attn_message_reply *reply)
{
    const struct attn_plugin *plugin = setup->loaded.plugin;
    for (uint32_t i = 0; plugin && i < plugin->n_backends && i < ATTN_BACKENDS_MAX; i++) {
        const struct attn_backend *backend = plugin->backends[i];
        struct attn_message_backend message = {
            .head = {.length = sizeof(message), .type = ATTN_MESSAGE_BACKEND}};
        struct attn_backend_info *info = &message.info;
        copy(info->name, sizeof(info->name), backend->name);
        copy(info->description, sizeof(info->description), backend->description);
        info->exactness = backend->exactness;
        info->device = backend->time_device != NULL;
        info->available = available(setup, backend, info->reason, sizeof(info->reason), reply);
        /* Where the library is not there its version cannot be asked for. */
        if (backend->version && info->available) {
            attn_slot_enter(ATTN_SLOT_VERSION);
            backend->version(info->version, sizeof(info->version));
            leave(ATTN_SLOT_VERSION, reply);
        }
        describe_options(backend, info);
        attn_channel_send(&message.head);
    }
}
