/* Tells when lines were printed, as far as that is seen at once; knows nothing of Python.
 *
 * Python reads the headers of lines in the general way, and what it read it hands on as a form: the text before and
 * behind a time of day, colours left out. A line of a known form has a stamp that differs from that of its form in the
 * time of day alone; a line without anything like a time has none. Of all other lines nothing is said ("odd"): whoever
 * asked reads them in the general way.
 */
#include <stdint.h>
#include <string.h>

enum { LOOKED_AT = 400, MOST_FORMS = 24, MOST_HINTS = 128, MOST_TEXT = 8192, PENDING = 128, UPTIME_WITHIN = 96, NEAR = 4096, MOST_BACK = 64, ANY = -1, NO_KIND = -2 };
typedef enum { ODD = -1, UNDATED = 0, DATED = 1 } Look;

typedef struct {
    int kind, before, before_size, sign, digits, after, after_size; /* texts: places in `text`; sign: 0 or `.` or `,` */
    double day_s, offset_s;
} Form;

typedef struct {
    int forms, hints, used;
    Form form[MOST_FORMS];
    struct { int at, size; } hint[MOST_HINTS]; /* how fields begin that tell times, too; they end in `=` or `': ` */
    char text[MOST_TEXT];
} Clocks;

static inline int is_digit(char c) { return c >= '0' && c <= '9'; }

/* Whether `0.00.000.000 ` stands within the first bytes of at..end: the time since the start of a process. */
static int has_uptime(const char *at, const char *end)
{
    const char *stop = end - at > UPTIME_WITHIN ? at + UPTIME_WITHIN : end;
    for (const char *p = at + 1; stop - p > 11 && (p = memchr(p, '.', (size_t)(stop - p - 11))); p++) {
        if (!is_digit(p[-1]) || p[3] != '.' || p[7] != '.' || p[11] != ' ')
            continue;
        int digits = 0;
        for (int place = 1; place < 11; place++)
            digits += is_digit(p[place]);
        if (digits == 8)
            return 1;
    }
    return 0;
}

/* Whether `0:00:`, nine digits or the time since a start stand in at..end. */
static int has_time(const char *at, const char *end)
{
    if (has_uptime(at, end))
        return 1;
    for (const char *p = at; end - p > 3 && (p = memchr(p, ':', (size_t)(end - p - 3))); p++)
        if (p > at && is_digit(p[-1]) && is_digit(p[1]) && is_digit(p[2]) && p[3] == ':')
            return 1;
    for (const char *p = at + 8; p < end; p += 9) { /* one of nine in a row stands here */
        const char *first = p, *last = p;
        if (!is_digit(*p))
            continue;
        while (first > at && is_digit(first[-1]))
            first--;
        while (last < end && is_digit(*last))
            last++;
        if (last - first >= 9)
            return 1;
    }
    return 0;
}

static const uint64_t ONES = 0x0101010101010101u, HIGH = 0x8080808080808080u;

/* Whether one of the eight bytes of a word is `c`, as its upper bits; those above the lowest one may be wrong. */
static inline uint64_t holds(uint64_t word, char c)
{
    uint64_t zero = word ^ ONES * (uint8_t)c;
    return (zero - ONES) & ~zero & HIGH;
}

static inline uint64_t word_at(const char *p)
{
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

/* Whether all bytes are ASCII, without escape sequences and braces. */
static int is_plain(const char *p, int size)
{
    uint64_t odd = 0, last = 0;
    for (int at = 0; size - at >= 8 && !odd; at += 8) {
        uint64_t word = word_at(p + at);
        odd = (word & HIGH) | holds(word, 0x1b) | holds(word, '{');
    }
    if (size >= 8) /* the last eight; some of them were looked at */
        last = word_at(p + size - 8);
    else
        memcpy(&last, p, (size_t)size);
    return !(odd | (last & HIGH) | holds(last, 0x1b) | holds(last, '{'));
}

/* Copies the head of a line without its colours; -1 where something in it is not plain text. */
static int bare_head(const char *p, const char *end, char *out)
{
    int size = 0;
    while (p < end) {
        uint8_t c = (uint8_t)*p;
        if (c == 0x1b) {
            if (end - p < 3 || p[1] != '[')
                return -1;
            for (p += 2; p < end && (is_digit(*p) || *p == ';'); p++)
                ;
            if (p == end || *p++ != 'm')
                return -1;
        } else if ((c >= 0xc2 && c <= 0xc3) || (c >= 0xe2 && c <= 0xe9)) {
            /* letters of Europe, dashes, arrows, blocks, Chinese: no digits of other scripts among them */
            int more = c < 0xe0 ? 1 : 2;
            for (int at = 1; at <= more; at++)
                if (end - p <= at || (uint8_t)p[at] >> 6 != 2)
                    return -1;
            memcpy(out + size, p, (size_t)more + 1);
            size += more + 1;
            p += more + 1;
        } else if (c >= 0x80 || c == '{') {
            return -1;
        } else {
            const char *escape = memchr(p, 0x1b, (size_t)(end - p)), *stop = escape ? escape : end;
            int run = is_plain(p, (int)(stop - p)) ? (int)(stop - p) : 1;
            memcpy(out + size, p, (size_t)run);
            size += run;
            p += run;
        }
    }
    return size;
}

/* Whether a field begins somewhere that may tell a time: `name=` or `'name': `. */
static int has_hint(const Clocks *clocks, const char *text, int size)
{
    const char *end = text + size;
    for (int quoted = 0; quoted < 2; quoted++)
        for (const char *p = text; p < end && (p = memchr(p, quoted ? '\'' : '=', (size_t)(end - p))); p++)
            for (int hint = 0; hint < clocks->hints; hint++) {
                int length = clocks->hint[hint].size;
                const char *stop = p + (quoted ? 3 : 1);
                if (stop <= end && stop - text >= length &&
                    !memcmp(clocks->text + clocks->hint[hint].at, stop - length, (size_t)length))
                    return 1;
            }
    return 0;
}

static int pair_at(const char *p) { return is_digit(p[0]) && is_digit(p[1]) ? 10 * (p[0] - '0') + p[1] - '0' : -1; }

/* Reads a head by one form: seconds as Python counts them, in the same order; 0 when it is of another form. */
static int reads(const Clocks *clocks, const Form *form, const char *p, const char *end, double *seconds)
{
    static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};
    if (end - p < form->before_size + 8 + (form->sign != 0) + form->digits + form->after_size)
        return 0;
    if (memcmp(p, clocks->text + form->before, (size_t)form->before_size))
        return 0;
    p += form->before_size;
    int hour = pair_at(p), minute = pair_at(p + 3), second = pair_at(p + 6);
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60 || p[2] != ':' || p[5] != ':')
        return 0;
    double time_s = hour * 3600 + minute * 60 + second;
    p += 8;
    if (form->sign) {
        double fraction = 0;
        if (*p++ != form->sign)
            return 0;
        for (int at = 0; at < form->digits; at++, p++) {
            if (!is_digit(*p))
                return 0;
            fraction = fraction * 10 + (*p - '0');
        }
        time_s += fraction / powers[form->digits];
    }
    if (memcmp(p, clocks->text + form->after, (size_t)form->after_size))
        return 0;
    p += form->after_size;
    if (!form->after_size && p < end && (is_digit(*p) || *p == '.' || *p == ',' || *p == ':')) /* the time goes on */
        return 0;
    if (p == end || (uint8_t)*p >= 0x80 || memchr("AP+-", *p, 4)) /* of AM, PM or a zone */
        return 0;
    *seconds = form->day_s + time_s - form->offset_s;
    return !has_time(p, end);
}

/* What p..end tells, a line without its newline; only stamps of one kind can be compared. With ANY that is set, too. */
static Look look(const Clocks *clocks, const char *p, const char *end, int *kind, double *seconds)
{
    char bare[LOOKED_AT];
    int size = end - p > LOOKED_AT ? LOOKED_AT : (int)(end - p);
    if (!is_plain(p, size)) {
        if ((size = bare_head(p, p + size, bare)) < 0)
            return ODD;
        p = bare;
    }
    if (!has_time(p, p + size))
        return has_hint(clocks, p, size) ? ODD : UNDATED;
    for (int at = 0; at < clocks->forms; at++)
        if ((*kind == ANY || clocks->form[at].kind == *kind) &&
            reads(clocks, &clocks->form[at], p, p + size, seconds)) {
            *kind = clocks->form[at].kind;
            return DATED;
        }
    return ODD;
}

static const char *line_begin(const char *data, const char *at)
{
    for (uint64_t word; at - data >= 8; at -= 8) {
        memcpy(&word, at - 8, 8);
        if (holds(word, '\n'))
            break;
    }
    while (at > data && at[-1] != '\n')
        at--;
    return at;
}

/* Passes over whole lines, `most` at most, that have no stamp or one of that kind in least..greatest: forward from
 * `at`, none that ends at `bound` or behind it, or back from `at`, none that begins before `bound`. Gives where it
 * stopped, and how many lines these were. */
static Py_ssize_t pass_lines(const Clocks *clocks, const char *data, Py_ssize_t at, Py_ssize_t bound, Py_ssize_t most,
                             int kind, double least, double greatest, Py_ssize_t *lines)
{
    int back = bound < at;
    for (*lines = 0; *lines < most && at != bound; ++*lines) {
        const char *begin = data + at, *end;
        double seconds = 0;
        if (back) {
            end = data + at - 1;
            begin = line_begin(data, end);
            if (*end != '\n' || begin < data + bound)
                break;
        } else if (!(end = memchr(begin, '\n', (size_t)(bound - at)))) {
            break;
        }
        Look seen = look(clocks, begin, end, &kind, &seconds);
        if (seen == ODD || (seen == DATED && !(least <= seconds && seconds <= greatest)))
            break;
        at = back ? begin - data : end + 1 - data;
    }
    return at;
}

/* Whether the last stamp in from..to is seen to be of that kind and second, or there is none. */
static int is_within(const Clocks *clocks, const char *data, Py_ssize_t from, Py_ssize_t to, int kind, double second)
{
    for (int lines = 0; from < to; lines++) {
        const char *end = data + to - 1, *begin = line_begin(data + from, end);
        double seconds = 0;
        Look seen = look(clocks, begin, end, &kind, &seconds);
        if (seen != UNDATED || lines == MOST_BACK)
            return seen == DATED && second <= seconds && seconds < second + 1;
        to = begin - data;
    }
    return 1;
}

/* Kind and seconds of the last stamp before a line, where that is seen near it; else UNDATED. */
static Look stamp_before(const Clocks *clocks, const char *data, Py_ssize_t at, int *kind, double *seconds)
{
    Py_ssize_t lines;
    at = pass_lines(clocks, data, at, at > NEAR ? at - NEAR : 0, NEAR, NO_KIND, 0, 0, &lines);
    *kind = ANY;
    return at ? look(clocks, line_begin(data, data + at - 1), data + at - 1, kind, seconds) : UNDATED;
}

/* The first dated line of a kind that begins in low..high, or with `back` the last one: DATED, its place and seconds;
 * UNDATED when there is none, ODD when that is not seen. */
static Look find_dated(const Clocks *clocks, const char *data, Py_ssize_t low, Py_ssize_t high, int back, int kind,
                       Py_ssize_t *place, double *seconds)
{
    while (low < high) {
        const char *begin = data + low, *end;
        if (back) {
            end = data + high - 1;
            begin = line_begin(data + low, end);
            if (*end != '\n')
                return ODD;
        } else if (!(end = memchr(begin, '\n', (size_t)(high - low)))) {
            return ODD;
        }
        Look seen = look(clocks, begin, end, &kind, seconds);
        if (seen != UNDATED) {
            *place = begin - data;
            return seen;
        }
        if (back)
            high = begin - data;
        else
            low = end + 1 - data;
    }
    return UNDATED;
}

typedef struct { Py_ssize_t at; double seconds; } Moment;

/* Whether it is seen that no dated neighbours between two dated lines lie `quiet` seconds apart: halves the lines until
 * all that is left is shorter, as `gaps.py` does. What goes beyond half a day may be a midnight: not seen here. */
static int is_continuous(const Clocks *clocks, const char *data, Moment low, Moment high, int kind, double quiet, double most)
{
    struct { Moment low, high; } pending[PENDING] = {{low, high}};
    for (int count = 1; count;) {
        Moment before = pending[--count].low, after = pending[count].high, middle = {0, 0};
        double passed = after.seconds - before.seconds;
        if (passed > most || passed < -most)
            return 0;
        if (after.at <= before.at || passed < quiet)
            continue;
        const char *half = data + (before.at + after.at) / 2, *stop = data + after.at;
        const char *found = memchr(half, '\n', (size_t)(stop - half));
        Py_ssize_t begin = found ? found + 1 - data : after.at;
        Look seen = find_dated(clocks, data, begin, after.at, 0, kind, &middle.at, &middle.seconds);
        if (seen == UNDATED) {
            found = memchr(data + before.at, '\n', (size_t)(after.at - before.at));
            if (!found)
                return 0;
            seen = find_dated(clocks, data, found + 1 - data, begin, 1, kind, &middle.at, &middle.seconds);
        }
        if (seen != DATED || count + 2 > PENDING)
            return 0;
        pending[count].low = middle;
        pending[count++].high = after;
        pending[count].low = before;
        pending[count++].high = middle;
    }
    return 1;
}
