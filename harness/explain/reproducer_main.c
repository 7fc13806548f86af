/* SPDX-License-Identifier: Apache-2.0 */
/* reproducer_main.c - the end of each reproducer: the code that runs the data before it. It is not
 * compiled into the program; the program writes it out. */

static size_t element_size(const struct attn_tensor *t)
{
    return t->dtype == ATTN_F64 ? 8 : t->dtype == ATTN_F32 || t->dtype == ATTN_I32 ? 4 : 2;
}

static int64_t count_of(const struct attn_tensor *t)
{
    int64_t count = 1;
    for (uint32_t a = 0; a < t->rank; a++)
        count *= t->shape[a];
    return count;
}

/* The index in memory of element n, and its place. */
static int64_t index_of(const struct attn_tensor *t, int64_t n, int64_t at[4])
{
    int64_t index = 0, rest = n;
    for (uint32_t a = t->rank; a-- > 0; rest /= t->shape[a]) {
        at[a] = rest % t->shape[a];
        index += at[a] * t->stride[a];
    }
    return index;
}

static uint64_t bits_of(const struct attn_tensor *t, int64_t index)
{
    uint64_t bits = 0; /* little-endian, as the data above is */
    size_t size = element_size(t);
    memcpy(&bits, (const char *)t->data + (size_t)index * size, size);
    return bits;
}

static double value_of(const struct attn_tensor *t, int64_t index)
{
    uint64_t bits = bits_of(t, index);
    if (t->dtype == ATTN_I32)
        return (int32_t)(uint32_t)bits;
    if (t->dtype == ATTN_F64) {
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    if (t->dtype == ATTN_F16) {
        int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
        double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                       : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                      : ldexp(fraction, -24);
        return bits >> 15 ? -value : value;
    }
    uint32_t word = (uint32_t)(t->dtype == ATTN_BF16 ? bits << 16 : bits);
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

/* The class first, then the error against its bound: NaN fails. */
static int holds(double got, double want, double bound)
{
    if (isinf(bound) && !isinf(want)) /* an earlier step may overflow: nothing is known */
        return 1;
    if (isnan(want))
        return isnan(got);
    if (isinf(want)) /* with an infinite bound, 0 * Inf may be there instead */
        return got == want || (isnan(got) && isinf(bound));
    if (isinf(got))
        return fabs(want) + bound >= OVERFLOWS && !signbit(got) == !signbit(want);
    return fabs(got - want) <= bound;
}

static long check(const struct attn_tensor *t, const struct operand *o)
{
    long wrong = 0, averaged = 0;
    double sum = 0;
    int64_t count = count_of(t);
    for (int64_t n = 0; n < count; n++) {
        int64_t at[4] = {0};
        double got = value_of(t, index_of(t, n, at));
        if (o->unit && o->unit[n] > 0) {
            sum += (got - o->answer[n]) / o->unit[n];
            averaged++;
        }
        if (holds(got, o->answer[n], o->bound[n]))
            continue;
        if (wrong++ < 10)
            printf("%s[%d %d %d %d] is %.9g, the reference says %.9g, allowed error %.3g\n",
                   o->name, (int)at[0], (int)at[1], (int)at[2], (int)at[3], got, o->answer[n],
                   o->bound[n]);
    }
    printf("%s: %ld of %ld elements wrong\n", o->name, wrong, (long)count);
    if (averaged) {
        double mean = sum / (double)averaged;
        int right = fabs(mean) <= MOST_MEAN_ERROR; /* false for NaN */
        printf("%s: the mean signed error is %+.3f units of rounding, %s %g\n", o->name, mean,
               right ? "within" : "beyond", MOST_MEAN_ERROR);
        wrong += !right;
    }
    return wrong;
}

/* The bytes of whole pages, at least one, with room for so many. */
static size_t room_for(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page) / page * page;
}

/* Memory that ends at a page without access. All bytes are 0xff: NaN, until it is written. */
static void *guarded(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = room_for(bytes);
    char *memory =
        mmap(NULL, pages + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + pages, page, PROT_NONE)) {
        perror("no memory");
        exit(2);
    }
    memset(memory, 0xff, pages);
    return memory + pages - bytes;
}

/* Has a byte of the output's memory been written that is none of an element? */
static long stray(const struct attn_tensor *t, const struct operand *o)
{
    size_t size = element_size(t), before = room_for(o->bytes) - o->bytes, found = 0;
    const unsigned char *memory = (const unsigned char *)t->data - before;
    unsigned char *own = calloc(before + o->bytes, 1);
    int64_t count = count_of(t), at[4] = {0}, first = 0;
    for (int64_t n = 0; own && n < count; n++)
        memset(own + before + (size_t)index_of(t, n, at) * size, 1, size);
    for (size_t b = 0; own && b < before + o->bytes; b++)
        if (!own[b] && memory[b] != 0xff && found++ == 0)
            first = (int64_t)b - (int64_t)before;
    if (found)
        printf("%s: %lu bytes outside its elements are written, the first at byte %ld\n", o->name,
               (unsigned long)found, (long)first);
    free(own);
    return found > 0;
}

/* What of the floating-point state a slot has to leave as it was. */
static uint64_t state_now(void)
{
#if defined(__x86_64__)
    unsigned short x87;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (uint64_t)x87 << 32 | (__builtin_ia32_stmxcsr() & ~0x3fu);
#else
    return (uint64_t)fegetround();
#endif
}

static long has_changed(const char *slot, uint64_t *state)
{
    uint64_t was = *state;
    *state = state_now();
    if (*state != was)
        printf("%s leaves the floating-point state changed (%#llx -> %#llx)\n", slot,
               (unsigned long long)was, (unsigned long long)*state);
    return *state != was;
}

/* Runs the same binding again: do the outputs have the same bits? */
static long rerun(const struct attn_backend *backend, void *binding,
                  const struct attn_tensor *bound)
{
    char why[512] = "";
    void *first[N_TENSORS] = {NULL};
    long wrong = 0;
    for (int t = 0; t < N_TENSORS; t++)
        if (operands[t].answer && (first[t] = malloc(operands[t].bytes + 1)))
            memcpy(first[t], bound[t].data, operands[t].bytes);
    for (int r = 0; r < RERUNS && !wrong; r++) {
        for (int t = 0; t < N_TENSORS; t++)
            if (first[t])
                memset(bound[t].data, 0xff, operands[t].bytes);
        wrong = backend->run(binding, why, sizeof why) ||
                (backend->fetch && backend->fetch(binding, why, sizeof why));
        if (wrong)
            printf("run %d: %s\n", r + 2, why);
        for (int t = 0; t < N_TENSORS && !wrong; t++)
            if (first[t] && memcmp(first[t], bound[t].data, operands[t].bytes)) {
                printf("run %d gives other bits in %s than the first\n", r + 2, operands[t].name);
                wrong = 1;
            }
    }
    for (int t = 0; t < N_TENSORS; t++)
        free(first[t]);
    return wrong;
}

static void *take(void *context, size_t bytes, size_t alignment)
{
    void *memory = NULL;
    (void)context;
    return posix_memalign(&memory, alignment, bytes ? bytes : 1) ? NULL : memory;
}

static void give(void *context, void *memory)
{
    (void)context;
    free(memory);
}

static void say(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "%s\n", text);
}

/* The exit code if there is no answer: 2 if the plugin does not support the problem, else 1. */
static int answerless(const char *slot, int result, const char *why)
{
    printf("%s: %s\n", slot, why);
    return result == ATTN_UNSUPPORTED || result == ATTN_NO_DEVICE ? 2 : 1;
}

int main(int argc, char **argv)
{
    char why[512] = "";
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    const struct attn_plugin *plugin = library ? dlsym(library, ATTN_PLUGIN_SYMBOL) : NULL;
    const struct attn_backend *backend = NULL;
    if (!plugin) {
        fprintf(stderr, "usage: %s PLUGIN.so\n%s\n", argv[0], argc == 2 ? dlerror() : "");
        return 2;
    }
    for (uint32_t b = 0; b < plugin->n_backends; b++)
        if (!strcmp(plugin->backends[b]->name, BACKEND))
            backend = plugin->backends[b];
    if (!backend)
        return answerless(BACKEND, ATTN_UNSUPPORTED, "the plugin has no backend of this name");

    struct attn_services services = {.struct_size = sizeof services,
                                     .threads = THREADS,
                                     .n_options = N_OPTIONS,
                                     .options = options,
                                     .alloc = take,
                                     .free = give,
                                     .log = say};
    void *plan = NULL, *binding = NULL;
    int result;
    long wrong = 0;
    uint64_t state = state_now();
    problem.tensors = tensors;
    problem.n_tensors = N_TENSORS;
    if (plugin->init && (result = plugin->init(&services, why, sizeof why)))
        return answerless("init", ATTN_NO_DEVICE, why);
    wrong += has_changed("init", &state);
    if (backend->probe && (result = backend->probe(&services, why, sizeof why)))
        return answerless("probe", ATTN_NO_DEVICE, why);
    wrong += has_changed("probe", &state);
    if ((result = backend->supports(&problem, &services, why, sizeof why)))
        return answerless("supports", result, why);
    wrong += has_changed("supports", &state);
    if ((result = backend->create(&problem, &services, &plan, why, sizeof why)))
        return answerless("create", result, why);
    wrong += has_changed("create", &state);

    struct attn_tensor bound[N_TENSORS];
    memcpy(bound, tensors, sizeof bound);
    for (int t = 0; t < N_TENSORS; t++) {
        bound[t].data = guarded(operands[t].bytes);
        if (operands[t].bits)
            memcpy(bound[t].data, operands[t].bits, operands[t].bytes);
    }
    if ((result = backend->bind(plan, bound, N_TENSORS, &binding, why, sizeof why)))
        return answerless("bind", result, why);
    wrong += has_changed("bind", &state);
    if ((result = backend->run(binding, why, sizeof why)))
        return answerless("run", result, why);
    wrong += has_changed("run", &state);
    if (backend->fetch && (result = backend->fetch(binding, why, sizeof why)))
        return answerless("fetch", result, why);
    wrong += has_changed("fetch", &state);
    for (int t = 0; t < N_TENSORS; t++) {
        if (operands[t].answer)
            wrong += check(&bound[t], &operands[t]) + stray(&bound[t], &operands[t]);
        if (operands[t].bits && memcmp(bound[t].data, operands[t].bits, operands[t].bytes)) {
            printf("input %s was modified\n", operands[t].name);
            wrong++;
        }
    }
    wrong += rerun(backend, binding, bound);
    backend->release(binding);
    backend->destroy(plan);
    return wrong > 0;
}
