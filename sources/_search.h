/* Finds any of many literal texts, and counts newlines, in one pass over a block; knows nothing of Python.
 *
 * Each needle is looked for by three or four of its bytes (its window), those that logs hold least. A position is a
 * candidate when the low and high half of each of its bytes are among those of the windows of one of sixteen buckets:
 * two table look-ups a byte, 32 positions at a time ("Teddy", of Hyperscan). What a candidate is, a hash table of
 * windows tells, and the bytes themselves. Then, of needles of one group that overlap, only the first one counts.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define WIDE __attribute__((target("avx2,bmi,popcnt")))
#define WIDER __attribute__((target("avx512f,avx512bw,avx2,bmi,popcnt")))
#elif defined(__aarch64__)
#include <arm_neon.h>
#define WIDE
#else
#error "no search for this processor: perfmon does without"
#endif

enum { TRIED = 4 }; /* windows of a needle for which each bucket is weighed: those that are rarest by themselves */
enum { SETS = 2, BUCKETS = 8 * SETS, WINDOW = 4, SLOTS = 4096, FURTHEST = 60, MOST = 2000 };

typedef struct {
    char *text;
    int size, group, number; /* as Python knows it; here they stand in the order in which they are tried */
    int window, newlines;    /* where in `text` it begins, and how many stand before it there */
    uint32_t key;            /* the first three bytes of its window */
    uint32_t word, mask;     /* all of it, and what of it counts: needles of three bytes have no fourth */
} Needle;

typedef struct {
    Py_ssize_t begin, end, line; /* `line`: newlines before it */
    int needle, order; /* its number, its place in the order in which needles are tried */
} Hit;

typedef struct {
    int count, alone, room;
    Needle *needles;
    int *by_key;                   /* numbers of needles, those of one key side by side */
    int32_t slot[SLOTS];           /* place in by_key + 1, by hash */
    uint16_t fourth[SLOTS];        /* by the same hash, a bit for each low half of the byte that follows such a key */
    uint8_t low[SETS][WINDOW][16], high[SETS][WINDOW][16]; /* buckets, by half byte */
} Search;

typedef struct {
    Hit *hits;
    Py_ssize_t count, room;
} Hits;

static void search_free(Search *search)
{
    if (!search)
        return;
    for (int at = 0; at < search->count; at++)
        free(search->needles[at].text);
    free(search->needles);
    free(search->by_key);
    free(search);
}

static Search *search_new(int room, int alone)
{
    Search *search = calloc(1, sizeof *search);
    if (!search)
        return NULL;
    search->room = room;
    search->alone = alone;
    search->needles = calloc((size_t)room + 1, sizeof *search->needles);
    search->by_key = calloc((size_t)room + 1, sizeof *search->by_key);
    if (search->needles && search->by_key)
        return search;
    search_free(search);
    return NULL;
}

static int search_add(Search *search, const char *text, int size, int group, int number)
{
    Needle *needle = &search->needles[search->count];
    if (search->count == search->room || !(needle->text = malloc((size_t)size)))
        return 0;
    memcpy(needle->text, text, (size_t)size);
    needle->size = size;
    needle->group = group;
    needle->number = number;
    search->count++;
    return 1;
}

/* The newlines in a few bytes. */
static inline Py_ssize_t count_few(const char *p, const char *end)
{
    Py_ssize_t count = 0;
    while (p < end)
        count += *p++ == '\n';
    return count;
}

/* --- windows and buckets -------------------------------------------------------------------------------------- */
/* How many of 1000 bytes of logs are this one, roughly. */
static double share(int byte)
{
    static const char common[] = " etaoinsrldcpum";
    const char *found = byte ? strchr(common, byte) : NULL;
    if (byte == ' ')
        return 110;
    if (found)
        return 45 - 2.0 * (double)(found - common);
    if (byte >= '0' && byte <= '9')
        return 25;
    if (byte >= 'a' && byte <= 'z')
        return 8;
    if (byte == 0x1b || byte == '[' || byte == ':' || byte == '.' || byte == '/')
        return 20;
    if (byte == '=' || byte == ']' || byte == '-' || byte == '_' || byte == ',' || byte == '"')
        return 8;
    return byte < ' ' ? 1 : byte < 127 ? 4 : 0.5;
}

/* Lines that logs hold by the million though no pattern reads them: windows that stand in these cost more than the
 * shares of their bytes say. Only speed depends on them. */
static const char usual[] =
    "INFO:     10.0.0.7:33661 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK\n"
    "INFO 03-02 08:15:07 [async_llm.py:271] Added request chatcmpl-6f0b2d1c9e7a4853.\n"
    "INFO:     127.0.0.1:52814 - \"GET /health HTTP/1.1\" 200 OK\n"
    "2026-03-02 08:15:07,118 - httpx - INFO - HTTP Request: "
    "POST http://10.0.0.6:8000/v1/completions \"HTTP/1.1 200 OK\"\n"
    "\x1b[2m08:15:07\x1b[0m \x1b[34m\x1b[1m  DEBUG\x1b[0m \x1b[34m\x1b[1m"
    "rollout 916005 group 491 finished with reward 0.2149 after 8 turns\x1b[0m\n"
    "08:15:07\x1b[0m \x1b[34m\x1b[1m  DEBUG\x1b[0m \x1b[34m\x1b[1m\x1b[22mRollout 4711-3 (math) finished: reward 0.2149 in 12.3s, "
    "5 turns\x1b[0m\x1b[0m\x1b[34m\x1b[1m\x1b[22m [train_sink.py::93]\x1b[0m\x1b[0m\n"
    "08:15:07 SUCCESS Step 12 | Time: 34.51s | Throughput: 51234 tokens/s | Entropy: 0.4113 | 8.1 GiB\n"
    "08:15:07 DEBUG [verifiers.envs] scoring completed for example 36129 in 0.252s (judge=math-verify)\n"
    "(RolloutWorker pid=4170, ip=10.0.0.3) [rank3]: WARNING: the process group was not destroyed before the end\n"
    "[2026-03-02 08:15:07 TP0] Prefill batch. new-seq: 1, new-token: 512, cached-token: 0, full token usage: 0.31\n"
    "{\"level\": \"info\", \"time\": \"2026-03-02T08:15:07.118Z\", \"name\": \"train\", \"message\": \"loading the data set\"}\n"
    "Loading safetensors checkpoint shards:  75% Completed | 3/4 [00:12<00:04,  4.10s/it]\n"
    "epoch=1 step=200 lr=1.0e-06 grad_norm=0.412 loss=0.0213 entropy=0.31 samples/s=14.2\n";
enum { PLACES = sizeof usual - WINDOW, WORDS = (PLACES + 63) / 64 };

static const double COMPARED = 0.15;
/* What it costs to compare one more needle of a window that is met, beside looking the window up. */

typedef struct { uint16_t low[WINDOW], high[WINDOW]; double sum[WINDOW]; } Bucket; /* sum: of 1000 bytes, how many fit */
typedef struct { uint64_t bits[WORDS]; } Places; /* some of the places in those lines */
typedef struct { Places low[WINDOW][16], high[WINDOW][16]; } Usual; /* where the byte so far behind has this half */
typedef struct { Places low[WINDOW], high[WINDOW]; int count; } Met; /* where it has one of a bucket's; of all together */

static void widen(Bucket *bucket, const Needle *needle, int window, const double shares[256])
{
    for (int at = 0; at < WINDOW; at++) {
        if (window + at >= needle->size) { /* three bytes: the fourth may be any */
            bucket->low[at] = bucket->high[at] = 0xffff;
            bucket->sum[at] = 1000;
            continue;
        }
        uint8_t byte = (uint8_t)needle->text[window + at];
        unsigned low = byte & 15, high = byte >> 4;
        if (!(bucket->low[at] >> low & 1))
            for (unsigned left = bucket->high[at]; left; left &= left - 1)
                bucket->sum[at] += shares[__builtin_ctz(left) << 4 | low];
        bucket->low[at] |= (uint16_t)(1u << low);
        if (!(bucket->high[at] >> high & 1))
            for (unsigned left = bucket->low[at]; left; left &= left - 1)
                bucket->sum[at] += shares[high << 4 | __builtin_ctz(left)];
        bucket->high[at] |= (uint16_t)(1u << high);
    }
}

/* How likely a position is a candidate because of this bucket. */
static double cost_of(const Bucket *bucket)
{
    double cost = 1;
    for (int at = 0; at < WINDOW; at++)
        cost *= bucket->sum[at] > 1000 ? 1 : bucket->sum[at] / 1000;
    return cost;
}

static void usual_ready(Usual *lines)
{
    memset(lines, 0, sizeof *lines);
    for (int place = 0; place < PLACES; place++)
        for (int at = 0; at < WINDOW; at++) {
            uint8_t byte = (uint8_t)usual[place + at];
            lines->low[at][byte & 15].bits[place / 64] |= (uint64_t)1 << place % 64;
            lines->high[at][byte >> 4].bits[place / 64] |= (uint64_t)1 << place % 64;
        }
}

/* How many places of the usual lines are candidates because of a bucket, once this window is in it too. */
WIDE static int met_by(const Met *met, const Usual *lines, const Needle *needle, int window)
{
    int count = 0;
    for (int word = 0; word < WORDS; word++) {
        uint64_t all = ~(uint64_t)0;
        for (int at = 0; at < WINDOW && window + at < needle->size; at++) {
            uint8_t byte = (uint8_t)needle->text[window + at];
            all &= met->low[at].bits[word] | lines->low[at][byte & 15].bits[word];
            all &= met->high[at].bits[word] | lines->high[at][byte >> 4].bits[word];
        }
        count += __builtin_popcountll(all);
    }
    return count;
}

/* Makes `met` that of a bucket into which a window came. */
static void meet(Met *met, const Usual *lines, const Bucket *bucket, int count)
{
    memset(met, 0, sizeof *met);
    met->count = count;
    for (int at = 0; at < WINDOW; at++)
        for (int half = 0; half < 16; half++)
            for (int word = 0; word < WORDS; word++) {
                met->low[at].bits[word] |= bucket->low[at] >> half & 1 ? lines->low[at][half].bits[word] : 0;
                met->high[at].bits[word] |= bucket->high[at] >> half & 1 ? lines->high[at][half].bits[word] : 0;
            }
}

/* Letters follow letters more often than chance has it: how much a window is within a word. */
static double wordy(const Needle *needle, int window)
{
    double factor = 1;
    for (int at = window; at + 1 < needle->size && at + 1 < window + WINDOW; at++) {
        uint8_t one = (uint8_t)needle->text[at] | 32, other = (uint8_t)needle->text[at + 1] | 32;
        factor *= one >= 'a' && one <= 'z' && other >= 'a' && other <= 'z' ? 3 : 1;
    }
    return factor;
}

/* Four bytes as a number, the first one lowest; fewer where no more are `left`. */
static inline uint32_t word_of(const char *text, Py_ssize_t left)
{
    uint32_t word = 0;
    if (left >= 4)
        memcpy(&word, text, 4);
    else if (left > 0)
        memcpy(&word, text, (size_t)left);
    return word;
}

static inline uint32_t key_at(const char *text) { return word_of(text, 3); }

static uint32_t slot_of(uint32_t key)
{
    return key * 2654435761u >> 20; /* the upper 12 bits: SLOTS is 4096 */
}

/* How rare each window of a needle is by itself, the rarest the lowest; returns how many there are, at least one. */
static int windows_of(const Needle *needle, const uint8_t times[SLOTS], const double shares[256], double rarity[FURTHEST])
{
    int count = 0;
    do {
        double rare = wordy(needle, count);
        for (int at = 0; at < WINDOW && count + at < needle->size; at++)
            rare *= shares[(uint8_t)needle->text[count + at]] / 1000;
        rarity[count] = rare + COMPARED * times[slot_of(key_at(needle->text + count))] / PLACES;
        count++;
    } while (count + WINDOW <= needle->size && count < FURTHEST);
    return count;
}

/* The value of which `rank` of some values are not above it. */
static double nth_least(const double *values, int count, int rank)
{
    double bar = 1e300;
    for (int at = 0; at < count; at++) {
        int below = 0;
        for (int other = 0; other < count; other++)
            below += values[other] < values[at];
        if (below >= rank - 1 && values[at] < bar)
            bar = values[at];
    }
    return bar;
}

/* Puts each needle in the bucket, by the window, that costs least; then builds the tables. */
static void search_ready(Search *search)
{
    Bucket buckets[BUCKETS] = {0};
    Met met[BUCKETS] = {0};
    Usual lines;
    double shares[256];
    uint8_t times[SLOTS] = {0}; /* how often the windows of a slot stand in the usual lines */
    usual_ready(&lines);
    for (int byte = 0; byte < 256; byte++)
        shares[byte] = share(byte);
    for (int place = 0; place < PLACES; place++)
        times[slot_of(key_at(usual + place))]++;
    for (int at = 0; at < search->count; at++) {
        Needle *needle = &search->needles[at];
        double least = 1e300;
        int into = 0, among = 0;
        double rarity[FURTHEST];
        const int windows = windows_of(needle, times, shares, rarity);
        const double bar = nth_least(rarity, windows, TRIED);
        for (int window = 0; window < windows; window++) {
            if (rarity[window] > bar)
                continue;
            double compared = COMPARED * times[slot_of(key_at(needle->text + window))] / PLACES;
            for (int bucket = 0; bucket < BUCKETS; bucket++) {
                Bucket wider = buckets[bucket];
                widen(&wider, needle, window, shares);
                double more = (cost_of(&wider) - cost_of(&buckets[bucket]) + 1e-7) * wordy(needle, window) + compared;
                if (more >= least)
                    continue;
                int count = met_by(&met[bucket], &lines, needle, window);
                more += (double)(count - met[bucket].count) / PLACES;
                if (more < least) {
                    least = more;
                    into = bucket;
                    among = count;
                    needle->window = window;
                }
            }
        }
        widen(&buckets[into], needle, needle->window, shares);
        meet(&met[into], &lines, &buckets[into], among);
        needle->key = key_at(needle->text + needle->window);
        needle->mask = needle->window + WINDOW <= needle->size ? 0xffffffff : 0xffffff;
        needle->word = word_of(needle->text + needle->window, needle->size - needle->window);
        search->fourth[slot_of(needle->key)] |= needle->mask >> 24 ? (uint16_t)(1u << (needle->word >> 24 & 15)) : 0xffff;
        needle->newlines = (int)count_few(needle->text, needle->text + needle->window);
        int place = at;
        for (; place && search->needles[search->by_key[place - 1]].key > needle->key; place--)
            search->by_key[place] = search->by_key[place - 1];
        search->by_key[place] = at;
    }
    for (int half = 0; half < 16; half++)
        for (int at = 0; at < WINDOW; at++)
            for (int bucket = 0; bucket < BUCKETS; bucket++) {
                search->low[bucket / 8][at][half] |= (uint8_t)((buckets[bucket].low[at] >> half & 1) << bucket % 8);
                search->high[bucket / 8][at][half] |= (uint8_t)((buckets[bucket].high[at] >> half & 1) << bucket % 8);
            }
    for (int at = search->count - 1; at >= 0; at--) { /* the first of a key comes last; others go to free slots */
        uint32_t key = search->needles[search->by_key[at]].key;
        if (at && search->needles[search->by_key[at - 1]].key == key)
            continue;
        uint32_t slot = slot_of(key);
        while (search->slot[slot])
            slot = (slot + 1) % SLOTS;
        search->slot[slot] = at + 1;
    }
}

/* --- 32 positions at once --------------------------------------------------------------------------------------- */
#if defined(__x86_64__)
typedef struct { __m256i low[SETS][WINDOW], high[SETS][WINDOW]; } Tables;

static int search_works(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt");
}

WIDE static inline void load_tables(Tables *tables, const Search *search)
{
    for (int set = 0; set < SETS; set++)
        for (int at = 0; at < WINDOW; at++) {
            const __m128i *low = (const __m128i *)search->low[set][at], *high = (const __m128i *)search->high[set][at];
            tables->low[set][at] = _mm256_broadcastsi128_si256(_mm_loadu_si128(low));
            tables->high[set][at] = _mm256_broadcastsi128_si256(_mm_loadu_si128(high));
        }
}

/* The newlines among 32 bytes, a bit for each. */
WIDE static inline uint32_t newlines_in(const char *p)
{
    __m256i bytes = _mm256_loadu_si256((const __m256i *)p);
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('\n')));
}

/* Candidates among the 32 positions from p (bit i: p + i); reads 35 bytes. */
WIDE static inline uint32_t candidates(const Tables *tables, const char *p)
{
    const __m256i half = _mm256_set1_epi8(15);
    __m256i found = _mm256_set1_epi8(-1), more = found, bytes = _mm256_loadu_si256((const __m256i *)p);
    for (int at = 0; at < WINDOW; at++) {
        if (at)
            bytes = _mm256_loadu_si256((const __m256i *)(p + at));
        __m256i low = _mm256_and_si256(bytes, half), high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), half);
        found = _mm256_and_si256(found, _mm256_shuffle_epi8(tables->low[0][at], low));
        found = _mm256_and_si256(found, _mm256_shuffle_epi8(tables->high[0][at], high));
        more = _mm256_and_si256(more, _mm256_shuffle_epi8(tables->low[1][at], low));
        more = _mm256_and_si256(more, _mm256_shuffle_epi8(tables->high[1][at], high));
    }
    found = _mm256_or_si256(found, more);
    return ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(found, _mm256_setzero_si256()));
}

/* The same with registers that are twice as wide, where the processor has them. */
typedef struct { __m512i low[SETS][WINDOW], high[SETS][WINDOW]; } WideTables;

static int has_wider(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
}

WIDER static inline void load_wide_tables(WideTables *tables, const Search *search)
{
    for (int set = 0; set < SETS; set++)
        for (int at = 0; at < WINDOW; at++) {
            const __m128i *low = (const __m128i *)search->low[set][at], *high = (const __m128i *)search->high[set][at];
            tables->low[set][at] = _mm512_broadcast_i32x4(_mm_loadu_si128(low));
            tables->high[set][at] = _mm512_broadcast_i32x4(_mm_loadu_si128(high));
        }
}

WIDER static inline uint64_t wide_newlines_in(const char *p)
{
    return _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(p), _mm512_set1_epi8('\n'));
}

/* Candidates among the 64 positions from p; reads 67 bytes. */
WIDER static inline uint64_t wide_candidates(const WideTables *tables, const char *p)
{
    const __m512i half = _mm512_set1_epi8(15);
    __m512i found = _mm512_set1_epi8(-1), more = found;
    for (int at = 0; at < WINDOW; at++) {
        __m512i bytes = _mm512_loadu_si512(p + at);
        __m512i low = _mm512_and_si512(bytes, half), high = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), half);
        /* 0x80: all three of them */
        found = _mm512_ternarylogic_epi32(found, _mm512_shuffle_epi8(tables->low[0][at], low),
                                          _mm512_shuffle_epi8(tables->high[0][at], high), 0x80);
        more = _mm512_ternarylogic_epi32(more, _mm512_shuffle_epi8(tables->low[1][at], low),
                                         _mm512_shuffle_epi8(tables->high[1][at], high), 0x80);
    }
    found = _mm512_or_si512(found, more);
    return _mm512_test_epi8_mask(found, found);
}
#else
typedef struct { uint8x16_t low[SETS][WINDOW], high[SETS][WINDOW]; } Tables;

static int search_works(void)
{
    return 1;
}

static inline void load_tables(Tables *tables, const Search *search)
{
    for (int set = 0; set < SETS; set++)
        for (int at = 0; at < WINDOW; at++) {
            tables->low[set][at] = vld1q_u8(search->low[set][at]);
            tables->high[set][at] = vld1q_u8(search->high[set][at]);
        }
}

static inline uint32_t bits(uint8x16_t all_or_none)
{
    static const uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t bits = vandq_u8(all_or_none, vld1q_u8(weights));
    return vaddv_u8(vget_low_u8(bits)) | (uint32_t)vaddv_u8(vget_high_u8(bits)) << 8;
}

static inline uint32_t newlines_in(const char *p)
{
    uint32_t low = bits(vceqq_u8(vld1q_u8((const uint8_t *)p), vdupq_n_u8('\n')));
    return low | bits(vceqq_u8(vld1q_u8((const uint8_t *)p + 16), vdupq_n_u8('\n'))) << 16;
}

static inline uint32_t candidates(const Tables *tables, const char *p)
{
    uint32_t found = 0;
    for (int part = 0; part < 32; part += 16) {
        uint8x16_t sum = vdupq_n_u8(255), more = sum;
        for (int at = 0; at < WINDOW; at++) {
            uint8x16_t bytes = vld1q_u8((const uint8_t *)p + part + at);
            uint8x16_t low = vandq_u8(bytes, vdupq_n_u8(15)), high = vshrq_n_u8(bytes, 4);
            sum = vandq_u8(sum, vandq_u8(vqtbl1q_u8(tables->low[0][at], low), vqtbl1q_u8(tables->high[0][at], high)));
            more = vandq_u8(more, vandq_u8(vqtbl1q_u8(tables->low[1][at], low), vqtbl1q_u8(tables->high[1][at], high)));
        }
        sum = vorrq_u8(sum, more);
        found |= bits(vtstq_u8(sum, sum)) << part;
    }
    return found;
}
#endif

/* --- the search ------------------------------------------------------------------------------------------------- */
static int put(Hits *found, Hit hit)
{
    if (found->count == found->room) {
        Py_ssize_t room = found->room ? 2 * found->room : 256;
        Hit *more = realloc(found->hits, (size_t)room * sizeof *more);
        if (!more)
            return 0;
        found->hits = more;
        found->room = room;
    }
    found->hits[found->count++] = hit;
    return 1;
}

WIDE static Py_ssize_t count_newlines(const char *data, Py_ssize_t size)
{
    Py_ssize_t count = 0, at = 0;
    for (; size - at >= 32; at += 32)
        count += __builtin_popcount(newlines_in(data + at));
    return count + count_few(data + at, data + size);
}

/* Puts the needles whose window is at `at`, with `line` newlines before it; 0 when memory is short. */
static int verify(const Search *search, const char *data, Py_ssize_t size, Py_ssize_t at, Py_ssize_t line, Hits *found)
{
    if (size - at < 3)
        return 1;
    uint32_t word = word_of(data + at, size - at), key = word & 0xffffff, slot = slot_of(key);
    for (; search->slot[slot]; slot = (slot + 1) % SLOTS) {
        int place = search->slot[slot] - 1;
        if (search->needles[search->by_key[place]].key != key)
            continue;
        for (; place < search->count; place++) {
            int number = search->by_key[place];
            const Needle *needle = &search->needles[number];
            Py_ssize_t begin = at - needle->window;
            if (needle->key != key)
                break;
            if ((word & needle->mask) != needle->word)
                continue;
            if (begin < 0 || size - begin < needle->size || data[begin + needle->size - 1] != needle->text[needle->size - 1])
                continue;
            if (memcmp(data + begin, needle->text, (size_t)needle->size))
                continue;
            if (!put(found, (Hit){begin, begin + needle->size, line - needle->newlines, needle->number, number}))
                return 0;
        }
        return 1;
    }
    return 1;
}

/* Whether a needle may have its window there: says at once no to nearly all candidates that are none. Reads 4 bytes. */
static inline int may_be(const Search *search, const char *p)
{
    uint32_t word = word_of(p, 4);
    return search->fourth[slot_of(word & 0xffffff)] >> (word >> 24 & 15) & 1;
}

/* All places where a needle stands, and how many newlines there are; -1 when memory is short. As a macro, for a function
 * of one processor's kind cannot be put together out of those of another. */
#define SEARCH(name, target, tables_type, load, candidates_in, newlines_of, mask_type, count_bits, first_bit)            \
    target static Py_ssize_t name(const Search *search, const char *data, Py_ssize_t size, Hits *found)                  \
    {                                                                                                                    \
        enum { STEP = 8 * sizeof(mask_type) };                                                                           \
        tables_type tables;                                                                                              \
        Py_ssize_t lines = 0, at = 0;                                                                                    \
        char last[STEP + WINDOW] = {0};                                                                                  \
        load(&tables, search);                                                                                           \
        for (; at < size; at += STEP) {                                                                                  \
            const char *p = data + at;                                                                                   \
            mask_type newlines, hits;                                                                                    \
            if (size - at < STEP + WINDOW) { /* what is behind the end reads as NUL */                                   \
                memset(last, 0, sizeof last);                                                                            \
                memcpy(last, p, (size_t)(size - at));                                                                    \
                p = last;                                                                                                \
            }                                                                                                            \
            hits = candidates_in(&tables, p);                                                                            \
            newlines = newlines_of(p);                                                                                   \
            if (size - at < STEP)                                                                                        \
                hits &= ((mask_type)1 << (size - at)) - 1; /* the newlines of NUL bytes are none */                      \
            for (; hits; hits &= hits - 1) {                                                                             \
                int bit = first_bit(hits);                                                                               \
                if (!may_be(search, p + bit))                                                                            \
                    continue;                                                                                            \
                Py_ssize_t line = lines + count_bits(newlines & (((mask_type)1 << bit) - 1));                            \
                if (!verify(search, data, size, at + bit, line, found))                                                  \
                    return -1;                                                                                           \
            }                                                                                                            \
            lines += count_bits(newlines);                                                                               \
        }                                                                                                                \
        return lines;                                                                                                    \
    }

SEARCH(search_32, WIDE, Tables, load_tables, candidates, newlines_in, uint32_t, __builtin_popcount, __builtin_ctz)
#if defined(__x86_64__)
SEARCH(search_64, WIDER, WideTables, load_wide_tables, wide_candidates, wide_newlines_in, uint64_t,
       __builtin_popcountll, __builtin_ctzll)
#endif

static Py_ssize_t search_all(const Search *search, const char *data, Py_ssize_t size, Hits *found)
{
#if defined(__x86_64__)
    if (has_wider())
        return search_64(search, data, size, found);
#endif
    return search_32(search, data, size, found);
}

static int later(const Hit *one, const Hit *other, int by_end)
{
    if (one->begin != other->begin)
        return one->begin > other->begin;
    if (!by_end)
        return one->order > other->order;
    return one->end != other->end ? one->end > other->end : one->needle > other->needle;
}

/* By position; of one position in the order in which they are tried, or by end and number. They are nearly so: windows are near the begins. */
static void sort(Hits *found, int by_end)
{
    Hit *hits = found->hits;
    for (Py_ssize_t at = 1; at < found->count; at++) {
        Hit hit = hits[at];
        Py_ssize_t place = at;
        for (; place && later(&hits[place - 1], &hit, by_end); place--)
            hits[place] = hits[place - 1];
        hits[place] = hit;
    }
}

/* Hits by position, as `search.py` promises them, and the number of newlines; -1 when memory is short. */
static Py_ssize_t search_block(const Search *search, const char *data, Py_ssize_t size, Hits *found)
{
    Py_ssize_t lines = search_all(search, data, size, found), kept = 0;
    Py_ssize_t *until = calloc((size_t)search->count + 1, sizeof *until); /* where the last one of a group ended */
    if (lines >= 0 && until) {
        sort(found, 0);
        for (Py_ssize_t at = 0; at < found->count; at++) {
            Hit hit = found->hits[at];
            int group = search->needles[hit.order].group;
            if (hit.begin < until[group])
                continue;
            until[group] = hit.end;
            found->hits[kept++] = hit;
        }
        found->count = kept;
        sort(found, 1);
    }
    free(until);
    return until ? lines : -1;
}
