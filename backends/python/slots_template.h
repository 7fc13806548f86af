/* SPDX-License-Identifier: Apache-2.0 */
/* slots_template.h - the slots of one backend that must know which adapter they are for.
 *
 * probe, supports, create and version get no pointer to the table they stand in, so each backend
 * needs functions of its own. An instance sets SLOT, its index in the table of adapters, before it
 * includes this file. */
#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define OWN(name)   JOIN(name, SLOT)

static int OWN(probe_)(const struct attn_services *services, char *why, size_t size)
{
    return attn_python_probe(&adapters[SLOT], services, why, size);
}

static void OWN(version_)(char *text, size_t size)
{
    attn_python_version(&adapters[SLOT], text, size);
}

static int OWN(supports_)(const struct attn_problem *problem, const struct attn_services *services,
                          char *why, size_t size)
{
    return attn_python_supports(&adapters[SLOT], problem, services, why, size);
}

static int OWN(create_)(const struct attn_problem *problem, const struct attn_services *services,
                        void **plan, char *why, size_t size)
{
    return attn_python_create(&adapters[SLOT], problem, services, plan, why, size);
}

static const struct slots OWN(slots_) = {OWN(probe_), OWN(version_), OWN(supports_), OWN(create_)};

#undef JOIN_
#undef JOIN
#undef OWN
#undef SLOT
