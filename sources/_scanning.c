/* The compiled search: finds literal texts in a block of a log, numbers and dates their lines, reads those of weight
 * updates by templates, and leaves out lines that repeat each other. `CompiledSearch` in `search.py` uses it, and
 * `DatedLines` in `gaps.py` its clocks.
 *
 * A log is hostile: nothing is read outside of begin..end of a line or a block, and every loop is bounded by them. The
 * search runs without the interpreter's lock. What is odd in any respect is left to the Python that this stands for.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "_clocks.h"
#include "_search.h"

enum { DONE = 4 }; /* number of the last phase */
enum { MAX_TEMPLATES = 12, MAX_FIELDS = 16, MAX_NAMES = 4096, MAX_ID = 128, MAX_VALUE = 200, MAX_HEAD = 400 };
enum { MAX_TEXT = 65536, TEXTS = 1024 };
static const double LIMIT = 172800000.0;

/* --- templates: literal pieces with values after them ------------------------------------------------------------ */
typedef struct {
    uint8_t phase, fields, numeric[MAX_FIELDS];
    int8_t position[MAX_FIELDS]; /* position in a Joined, -1 for a value that is not read */
    uint16_t piece[MAX_FIELDS], size[MAX_FIELDS]; /* in `names`: the text before each value; one piece at least */
} Template;

typedef struct { /* kept in a Python bytes object, which never changes: another thread may learn meanwhile */
    int count;
    uint16_t opening; /* bytes of `names` that lines begin with at their needle */
    Template template[MAX_TEMPLATES];
    char names[MAX_NAMES];
} Templates;

typedef struct {
    const Template *template;
    const char *update;
    int update_size;
    struct { const char *text; int size; double number; } value[MAX_FIELDS];
} Parsed;

static inline int is_id(uint8_t c)
{
    return (c >= '-' && c <= ':') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static inline int is_value(uint8_t c)
{
    return c > ' ' && c < 127 && c != ',' && c != ';' && c != '|' && c != '[';
}

/* Plain decimals only: up to 15 digits are exact in both parts, the quotient is then what float() gives. */
static int number(const char *text, int size, double *out)
{
    static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    char copy[64];
    uint64_t whole = 0;
    int digits = 0, point = -1;
    for (int at = 0; at < size; at++) {
        uint8_t c = (uint8_t)text[at];
        if (c == '.' && point < 0)
            point = digits;
        else if (c >= '0' && c <= '9' && digits < 40) {
            whole = digits < 15 ? whole * 10 + (c - '0') : whole;
            digits++;
        } else
            return 0;
    }
    if (!digits)
        return 0;
    if (digits <= 15) {
        *out = (double)whole / powers[point < 0 ? 0 : digits - point];
    } else {
        memcpy(copy, text, (size_t)size); /* at most 40 digits and a point */
        copy[size] = 0;
        *out = PyOS_string_to_double(copy, NULL, NULL);
        if (PyErr_Occurred()) {
            PyErr_Clear();
            return 0;
        }
    }
    return *out < LIMIT;
}

/* The trailer of a line, colour resets and a carriage return, up to its end. */
static int is_trailer(const char *p, const char *end)
{
    while (end - p >= 2 && p[0] == 0x1b && p[1] == '[') {
        for (p += 2; p < end && ((*p >= '0' && *p <= '9') || *p == ';'); p++)
            ;
        if (p == end || *p != 'm')
            return 0;
        p++;
    }
    return p == end || (end - p == 1 && *p == '\r');
}

static int fits(const Templates *templates, const Template *template, const char *p, const char *end, Parsed *out)
{
    for (int at = 0; at == 0 || at < template->fields; at++) {
        if (end - p < template->size[at] || memcmp(p, templates->names + template->piece[at], template->size[at]))
            return 0;
        p += template->size[at];
        if (!template->fields)
            break;
        const char *value = p;
        while (p < end && is_value((uint8_t)*p))
            p++;
        if (p == value || p - value > 1 << 20)
            return 0;
        out->value[at].text = value;
        out->value[at].size = (int)(p - value);
        if (template->position[at] < 0)
            continue;
        if (template->numeric[at] ? !number(value, (int)(p - value), &out->value[at].number) : p - value > MAX_VALUE)
            return 0;
    }
    out->template = template;
    return is_trailer(p, end);
}

/* Reads the line whose needle is at p and whose newline is at end; 0 when it fits no template. */
static int parse(const Templates *templates, const char *p, const char *end, Parsed *out)
{
    if (end - p < templates->opening || memcmp(p, templates->names, templates->opening))
        return 0;
    out->update = p += templates->opening;
    while (p < end && is_id((uint8_t)*p))
        p++;
    if (p == out->update || p - out->update > MAX_ID || end - p < 2 || p[0] != ']' || p[1] != ' ')
        return 0;
    out->update_size = (int)(p - out->update);
    for (int at = 0; at < templates->count; at++)
        if (fits(templates, &templates->template[at], p + 2, end, out))
            return 1;
    return 0;
}

/* --- lines that repeat each other ------------------------------------------------------------------------------ */
enum { MOST_REPEATS = 64, MAX_REPEAT = 240 };

typedef struct { /* the end of lines that repeat others, their heads apart; or the begin of it, with a blank behind */
    int needle, index, group; /* of lines of one group nothing differs but place and time */
    int lead, size, whole;    /* bytes of the text before the needle; whether nothing may stand before it */
    int open;                 /* whether more may stand behind the text, which tells nothing */
    int timeless;             /* when such a line was printed, its head and so many bytes tell; 0: the whole line may */
    char first;               /* what is read begins so: it may not stand in the head, else that would be read */
    char text[MAX_REPEAT];
} Repeat;

typedef struct { /* the lines of one second that repeat each other */
    int group, kind; /* kind: NO_KIND where it is not seen */
    double second;
    Py_ssize_t begin, end, last, count; /* of the first line, where it begins; where the last one ends, its number */
    const Repeat *repeat;
    const char *head; /* of the last one whose stamp was read, and how that ends; its size is -1 where none has a stamp */
    Py_ssize_t head_size;
    int by_head;
} Run;

/* --- the type that searches ------------------------------------------------------------------------------------ */
typedef struct {
    PyObject_HEAD
    Search *search;
    PyObject *templates; /* bytes that hold Templates, or NULL */
    PyObject *texts[TEXTS]; /* urls and paths repeat: the last string of each hash */
    Repeat repeats[MOST_REPEATS];
    int known, next; /* of these, and which one to replace */
} Finder;

typedef struct { /* a line that a template reads */
    Py_ssize_t begin, needle, end, line;
    PyObject *stamp;
} PhaseLine;

typedef struct { /* what a block holds */
    PyObject_HEAD
    Finder *finder;
    PyObject *templates, *hits, *dated, *repeats, *repeated;
    Py_buffer block;
    Py_ssize_t lines, taken;
    PhaseLine *phases;
} Found;

typedef struct {
    PyObject_HEAD
    Clocks clocks;
} ClocksObject;

static PyTypeObject *FoundType, *ClocksType;

static void Finder_dealloc(Finder *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    search_free(self->search);
    Py_XDECREF(self->templates);
    for (int at = 0; at < TEXTS; at++)
        Py_XDECREF(self->texts[at]);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static void Found_dealloc(Found *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    for (Py_ssize_t at = 0; at < self->taken; at++)
        Py_DECREF(self->phases[at].stamp);
    free(self->phases);
    if (self->block.obj)
        PyBuffer_Release(&self->block);
    Py_XDECREF((PyObject *)self->finder);
    Py_XDECREF(self->templates);
    Py_XDECREF(self->hits);
    Py_XDECREF(self->dated);
    Py_XDECREF(self->repeats);
    Py_XDECREF(self->repeated);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Finder([(needle, group, number), ...], alone): in the order in which the needles of a group are tried. */
static PyObject *Finder_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    PyObject *needles;
    int alone;
    if (!PyArg_ParseTuple(args, "O!i", &PyList_Type, &needles, &alone))
        return NULL;
    Py_ssize_t count = PyList_Size(needles);
    Finder *self = (Finder *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self)
        return NULL;
    if (count <= MOST && !(self->search = search_new((int)count, alone)))
        PyErr_NoMemory();
    for (Py_ssize_t at = 0; self->search && at < count; at++) {
        const char *text;
        Py_ssize_t size;
        int group, number;
        if (!PyArg_ParseTuple(PyList_GetItem(needles, at), "y#ii", &text, &size, &group, &number))
            goto fail;
        if (size < 3 || size > 10000 || group < 0 || group >= count)
            goto odd;
        if (!search_add(self->search, text, (int)size, group, number)) {
            PyErr_NoMemory();
            goto fail;
        }
    }
    if (self->search) {
        search_ready(self->search);
        return (PyObject *)self;
    }
odd:
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "too many needles, or one of an odd size");
fail:
    Py_DECREF(self);
    return NULL;
}

/* set_templates(opening, [(phase, [(piece, position, numeric), ...]), ...]); raises ValueError for what has no room. */
static PyObject *Finder_set_templates(Finder *self, PyObject *args)
{
    const char *opening;
    Py_ssize_t size, used;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "y#O!", &opening, &size, &PyList_Type, &list))
        return NULL;
    PyObject *held = PyBytes_FromStringAndSize(NULL, sizeof(Templates));
    if (!held)
        return NULL;
    Templates *templates = (Templates *)PyBytes_AsString(held);
    memset(templates, 0, sizeof *templates);
    Py_ssize_t count = PyList_Size(list);
    if (size > MAX_NAMES / 2 || count > MAX_TEMPLATES)
        goto odd;
    memcpy(templates->names, opening, (size_t)size);
    templates->opening = (uint16_t)size;
    used = size;
    for (Py_ssize_t at = 0; at < count; at++) {
        Template *template = &templates->template[at];
        PyObject *parts;
        int phase;
        if (!PyArg_ParseTuple(PyList_GetItem(list, at), "iO!", &phase, &PyList_Type, &parts))
            goto fail;
        Py_ssize_t fields = PyList_Size(parts);
        if (fields < 1 || fields > MAX_FIELDS || phase < 0 || phase > DONE)
            goto odd;
        template->phase = (uint8_t)phase;
        for (Py_ssize_t part = 0; part < fields; part++) {
            const char *piece;
            int position, numeric;
            if (!PyArg_ParseTuple(PyList_GetItem(parts, part), "y#ip", &piece, &size, &position, &numeric))
                goto fail;
            if (size > MAX_NAMES - used || position < -2 || position > 100)
                goto odd;
            if (position == -2 && fields > 1) /* a piece without a value stands alone */
                goto odd;
            memcpy(templates->names + used, piece, (size_t)size);
            template->piece[part] = (uint16_t)used;
            template->size[part] = (uint16_t)size;
            template->position[part] = (int8_t)(position < 0 ? -1 : position);
            template->numeric[part] = (uint8_t)numeric;
            template->fields += position != -2;
            used += size;
        }
    }
    templates->count = (int)count;
    Py_XDECREF(self->templates);
    self->templates = held;
    Py_RETURN_NONE;
odd:
    PyErr_SetString(PyExc_ValueError, "templates that have no room");
fail:
    Py_DECREF(held);
    return NULL;
}

/* The bytes up to the second one that is shown, of a text in which no time stands, nor one that begins in front of it:
 * what a head ends with may be the first, and what follows that matters, too. 0 for another text. */
static int timeless_of(const char *text, int size)
{
    char bare[MAX_REPEAT];
    int first = 1, shown = bare_head(text, text + size, bare);
    if (shown < 2 || is_digit(*bare) || *bare == ':' || has_time(bare, bare + shown) ||
        memchr(bare, '=', (size_t)shown) || memchr(bare, '\'', (size_t)shown))
        return 0;
    while (bare_head(text, text + first, bare) < 2)
        first++;
    return first;
}

/* learn_ending(needle, lead, whole, first, text, open, index, group): remembers an `Ending` of search.py. */
static PyObject *Finder_learn_ending(Finder *self, PyObject *args)
{
    Repeat made;
    const char *text;
    Py_ssize_t size;
    int first;
    if (!PyArg_ParseTuple(args, "iipiy#pii", &made.needle, &made.lead, &made.whole, &first, &text, &size, &made.open,
                          &made.index, &made.group))
        return NULL;
    if (size > MAX_REPEAT || made.lead < 0 || made.lead > size) {
        PyErr_SetString(PyExc_ValueError, "a text that has no room");
        return NULL;
    }
    made.first = (char)first;
    made.size = (int)size;
    made.timeless = timeless_of(text, (int)size);
    memcpy(made.text, text, (size_t)size);
    self->repeats[self->next] = made;
    self->next = (self->next + 1) % MOST_REPEATS;
    self->known += self->known < MOST_REPEATS;
    Py_RETURN_NONE;
}

/* A string with this ASCII text, the same object as last time where that is at hand. */
static PyObject *text_of(Finder *self, const char *text, int size)
{
    uint32_t hash = 2166136261u;
    for (int at = 0; at < size; at++)
        hash = (hash ^ (uint8_t)text[at]) * 16777619u;
    PyObject **held = &self->texts[(hash ^ hash >> 15) % TEXTS];
    if (*held) {
        Py_ssize_t known_size;
        const char *known = PyUnicode_AsUTF8AndSize(*held, &known_size);
        if (known && known_size == size && !memcmp(known, text, (size_t)size))
            return Py_NewRef(*held);
    }
    PyObject *made = PyUnicode_DecodeUTF8(text, size, "replace");
    if (made) {
        Py_XDECREF(*held);
        *held = Py_NewRef(made);
    }
    return made;
}

/* --- what a block holds ------------------------------------------------------------------------------------------- */
static const char *newline(const char *from, const char *end)
{
    const char *found = from < end ? memchr(from, '\n', (size_t)(end - from)) : NULL;
    return found ? found : end;
}

/* The line without colours as a string, NULL without an error where only Python can tell what it says. */
static PyObject *clean(const char *p, const char *end)
{
    char small[1024], *copy = small;
    size_t used = 0;
    if (end - p > MAX_TEXT || memchr(p, '\r', (size_t)(end - p)) || (end - p > 2 && !memcmp(p, "\xef\xbb\xbf", 3)))
        return NULL; /* the last: the mark that a file may begin with */
    if (end - p > (Py_ssize_t)sizeof small && !(copy = malloc((size_t)(end - p))))
        return PyErr_NoMemory();
    while (p < end) {
        if (*p == 0x1b && end - p > 1 && p[1] == '[') {
            const char *q = p + 2;
            while (q < end && ((*q >= '0' && *q <= '9') || *q == ';'))
                q++;
            if (q < end && *q == 'm') {
                p = q + 1;
                continue;
            }
        }
        if (*p == 0x1b || *p == 0)
            break;
        copy[used++] = *p++;
    }
    PyObject *text = p == end ? PyUnicode_DecodeUTF8(copy, (Py_ssize_t)used, "replace") : NULL;
    if (copy != small)
        free(copy);
    return text;
}

typedef struct { /* the phase line that was read last */
    const char *head;
    Py_ssize_t head_size;
    PyObject *stamp; /* owned by a phase, or NULL */
    Py_ssize_t end;
    int apart; /* a line with hits came after it, which may have another stamp */
} Last;

/* The stamp of a head, from `heads` unless it is that of the line before; a new reference, NULL with an error. */
static PyObject *stamp_of(const Last *last, const char *head, Py_ssize_t size, PyObject *heads)
{
    if (last->stamp && last->head_size == size && !memcmp(last->head, head, (size_t)size))
        return Py_NewRef(last->stamp);
    PyObject *raw = PyBytes_FromStringAndSize(head, size);
    PyObject *stamp = raw ? PyObject_CallFunctionObjArgs(heads, raw, NULL) : NULL;
    Py_XDECREF(raw);
    return stamp;
}

static int append(PyObject *list, PyObject *made)
{
    int failed = !made || PyList_Append(list, made);
    Py_XDECREF(made);
    return !failed;
}

/* Takes the line of hits first..stop when it fits a template: 1, 0 for another one, -1 for an error. */
static int take_phase(Found *self, const Hit *hit, Py_ssize_t count, const char *begin, const char *end, Last *last,
                    PyObject *heads)
{
    const char *data = self->block.buf, *needle = NULL;
    Parsed parsed;
    for (Py_ssize_t at = 0; at < count; at++)
        if (hit[at].needle == self->finder->search->alone) {
            if (needle)
                return 0; /* glued lines */
            needle = data + hit[at].begin;
        }
    if (!needle || hit->begin < needle - data || needle - begin > MAX_HEAD || end == data + self->block.len)
        return 0; /* the first needle of a line decides what it is */
    if (!parse((const Templates *)PyBytes_AsString(self->templates), needle, end, &parsed))
        return 0;
    PyObject *stamp = stamp_of(last, begin, needle - begin, heads);
    if (!stamp || stamp == Py_None) {
        Py_XDECREF(stamp);
        return stamp ? 0 : -1;
    }
    if (self->taken % 256 == 0) {
        PhaseLine *more = realloc(self->phases, (size_t)(self->taken + 256) * sizeof *more);
        if (!more) {
            Py_DECREF(stamp);
            PyErr_NoMemory();
            return -1;
        }
        self->phases = more;
    }
    self->phases[self->taken++] = (PhaseLine){begin - data, needle - data, end - data, hit->line, stamp};
    if ((last->stamp != stamp || last->apart) && !append(self->dated, Py_BuildValue("(nO)", begin - data, stamp)))
        return -1;
    *last = (Last){begin, needle - begin, stamp, end - data, 0};
    return 1;
}

/* Whether nothing that stands behind what is read of a line may be a time. */
static int says_nothing(const Clocks *clocks, const char *begin, const char *tail, const char *end)
{
    int kind = ANY;
    double seconds;
    return end - begin <= LOOKED_AT && !memchr(tail, '\r', (size_t)(end - tail)) &&
           look(clocks, tail, end, &kind, &seconds) == UNDATED;
}

/* How a line ends that has this one hit, where that is known and nothing in it may be read otherwise. */
static const Repeat *repeat_of(const Finder *finder, const Clocks *clocks, const char *data, const Hit *hit,
                               const char *begin, const char *end)
{
    for (int at = 0; at < finder->known; at++) {
        const Repeat *repeat = &finder->repeats[at];
        const char *from = data + hit->begin - repeat->lead;
        if (repeat->needle != hit->needle || from < begin || (repeat->whole && from != begin) ||
            (repeat->open ? end - from < repeat->size : end - from != repeat->size))
            continue;
        if (!memcmp(from, repeat->text, (size_t)repeat->size))
            return memchr(begin, repeat->first, (size_t)(from - begin)) || memchr(begin, '\r', (size_t)(from - begin)) ||
                           (repeat->open && !says_nothing(clocks, begin, from + repeat->size, end))
                       ? NULL
                       : repeat;
    }
    return NULL;
}

/* Hands over how many lines came after the first one of a run, and where the last of them stands. */
static int end_run(Found *self, Run *run)
{
    int done = 1;
    if (run->count) {
        PyObject *key = PyLong_FromSsize_t(run->begin), *value = Py_BuildValue("(nn)", run->count, run->last);
        done = key && value && !PyDict_SetItem(self->repeats, key, value);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    run->count = 0;
    run->group = -1;
    return done;
}

typedef struct { /* what a line tells of when it was printed */
    Look seen;
    int kind;
    double seconds;
    int by_head; /* known from its head alone */
} Dating;

static Dating dating_of(const Clocks *clocks, const char *begin, const char *end)
{
    Dating dating = {ODD, ANY, 0, 0};
    dating.seen = look(clocks, begin, end, &dating.kind, &dating.seconds);
    return dating;
}

/* The same of a line that ends as others did, its text at `text`. */
static Dating dating_of_repeat(const Clocks *clocks, const Repeat *repeat, const char *begin, const char *text,
                               const char *end)
{
    Dating dating = {ODD, ANY, 0, 0};
    if (repeat->timeless)
        dating = dating_of(clocks, begin, text + repeat->timeless);
    dating.by_head = dating.seen != ODD;
    return dating.by_head ? dating : dating_of(clocks, begin, end);
}

/* Whether a line goes on with a run and is left out: 1, 0 when it begins another one, -1 for an error. */
static int goes_on(Found *self, Run *run, const Repeat *repeat, const Clocks *clocks, const Hit *hit, const char *begin,
                   const char *end, Dating *dating)
{
    const char *data = self->block.buf, *text = data + hit->begin - repeat->lead;
    int same = 0;
    Py_ssize_t head = text + repeat->timeless - begin;
    int alike = run->repeat == repeat || (repeat->timeless && run->by_head);
    int known = alike && run->group == repeat->group && run->head_size == head && !memcmp(begin, run->head, (size_t)head);
    if (known)
        *dating = (Dating){DATED, run->kind, run->second, 0}; /* what follows holds no other time, or the first were odd */
    else
        *dating = dating_of_repeat(clocks, repeat, begin, text, end);
    double seconds = dating->seconds, second = (double)(int64_t)seconds;
    int kind = dating->kind;
    if (run->group == repeat->group && dating->seen == UNDATED)
        same = is_within(clocks, data, run->end + 1, begin - data, run->kind, run->second);
    else if (run->group == repeat->group && dating->seen == DATED)
        same = run->kind == kind && run->second == second;
    if (!same) {
        if (!end_run(self, run))
            return -1;
        if (dating->seen == UNDATED && stamp_before(clocks, data, begin - data, &kind, &seconds) == DATED)
            second = (double)(int64_t)seconds;
        else if (dating->seen == UNDATED)
            kind = NO_KIND;
        if (dating->seen != ODD)
            *run = (Run){repeat->group, kind, second, begin - data, end - data, hit->line, 0, NULL, NULL, -1, 0};
    } else {
        run->count++;
        run->end = end - data;
        run->last = hit->line;
    }
    if (dating->seen == DATED && !known) {
        run->repeat = repeat;
        run->head = begin;
        run->head_size = head;
        run->by_head = dating->by_head;
    }
    return same;
}

/* Hands over how many lines were left out, by the pattern that reads them. */
static int count_repeated(Found *self, const Py_ssize_t *counts)
{
    int done = 1;
    for (int at = 0; done && at < MOST_REPEATS; at++) {
        PyObject *key = counts[at] ? PyLong_FromLong(self->finder->repeats[at].index) : NULL, *known, *more;
        if (!counts[at])
            continue;
        known = key ? PyDict_GetItemWithError(self->repeated, key) : NULL;
        more = PyErr_Occurred() ? NULL : PyLong_FromSsize_t(counts[at] + (known ? PyLong_AsSsize_t(known) : 0));
        done = more && !PyDict_SetItem(self->repeated, key, more);
        Py_XDECREF(key);
        Py_XDECREF(more);
    }
    return done;
}

/* --- frames of progress bars, which share a line ------------------------------------------------------------------ */
static const char *find_text(const char *at, const char *end, const char *text, Py_ssize_t size)
{
    for (; end - at >= size && (at = memchr(at, *text, (size_t)(end - at - size + 1))); at++)
        if (!memcmp(at, text, (size_t)size))
            return at;
    return NULL;
}

static const char *last_return(const char *begin, const char *at)
{
    while (at > begin && at[-1] != '\r')
        at--;
    return at;
}

/* Whether a frame of a bar is followed by one of the same bar and the same ten seconds: as `_is_redrawn` in scanner.py. */
static int drawn_again(const char *begin, const char *end, const char *stop)
{
    const char *clock = end - 2, *last = end, *less, *following = end + 1 < stop ? memchr(end + 1, '\r', (size_t)(stop - end - 1)) : NULL;
    const char *percent = memchr(begin, '%', (size_t)(end - begin));
    while (clock >= begin && (clock[0] != ' ' || clock[1] != '['))
        clock--;
    if (clock < begin || !percent || !(less = memchr(clock, '<', (size_t)(end - clock))))
        return 0;
    while (last > clock && (last[-1] == ' ' || (last[-1] >= '\t' && last[-1] <= '\r')))
        last--;
    if (memchr(clock, ']', (size_t)(last - clock)) != last - 1)
        return 0;
    following = following ? following : stop;
    if (less - 1 <= clock || end + 1 >= following || !find_text(end + 1, following, clock, less - 1 - clock))
        return 0;
    Py_ssize_t name = percent - begin > 3 ? percent - begin - 3 : 0, counted = clock - begin;
    if (stop - end - 1 >= counted && !memcmp(end + 1, begin, (size_t)counted))
        return 0; /* the first frame that shows a count */
    return stop - end - 1 >= name && !memcmp(end + 1, begin, (size_t)name);
}

typedef struct { const char *end; int passed; } Frame;

/* Whether a hit stands in a frame that says nothing that the next one does not; `frame` is that of the hit before. */
static int is_passed(Frame *frame, const char *data, const Hit *hit, const char *begin, const char *end)
{
    if (data + hit->begin >= frame->end) {
        const char *first = last_return(begin > frame->end ? begin : frame->end, data + hit->begin);
        const char *until = data + hit->end < end ? memchr(data + hit->end, '\r', (size_t)(end - data - hit->end)) : NULL;
        frame->end = until ? until : end;
        frame->passed = frame->end < end && drawn_again(first, frame->end, end);
    }
    return frame->passed;
}

typedef struct { PyObject *stamp; int kind; double seconds; } Stamped; /* the stamp that was handed over last, or NULL */

/* The stamp of a line, None where it has none; a new reference. Neighbours of one time share the object. */
static PyObject *stamp_object(Stamped *last, const Dating *dating)
{
    if (dating->seen != DATED)
        return Py_NewRef(Py_None);
    if (!last->stamp || last->kind != dating->kind || last->seconds != dating->seconds) {
        PyObject *made = Py_BuildValue("(id)", dating->kind, dating->seconds);
        if (!made)
            return NULL;
        Py_XDECREF(last->stamp);
        *last = (Stamped){made, dating->kind, dating->seconds};
    }
    return Py_NewRef(last->stamp);
}

/* Adds a hit as search.Hit, with the first one of a line what is known of that; 0 for an error. */
static int add_hit(Found *self, const Hit *hit, Py_ssize_t line, const char *begin, const char *end, const Last *last,
                PyObject *text, const Dating *dating, const Repeat *repeat, Stamped *stamped)
{
    const char *data = self->block.buf, *close = data + hit->end <= end ? end : newline(data + hit->end, data + self->block.len);
    int seen = text && dating->seen != ODD && end - begin <= LOOKED_AT; /* all of the line was looked at */
    PyObject *stamp = seen ? stamp_object(stamped, dating) : Py_NewRef(Py_None);
    PyObject *same = seen && repeat ? Py_BuildValue("(ii)", repeat->index, repeat->group) : Py_NewRef(Py_None);
    int done = stamp && same &&
               append(self->hits, Py_BuildValue("(nninnnOnOiOO)", hit->begin, hit->end, hit->needle, begin - data,
                                                close - data, line, text ? text : Py_None, last->end,
                                                last->stamp ? last->stamp : Py_None, seen, stamp, same));
    Py_XDECREF(stamp);
    Py_XDECREF(same);
    return done;
}

/* Lines that hold hits, one after the other: those that fit a template are taken, the hits of other lines handed over. */
static int sift(Found *self, const Hits *found, PyObject *heads, const Clocks *clocks, Stamped *stamped)
{
    Py_ssize_t counts[MOST_REPEATS] = {0};
    Run run = {-1, NO_KIND, 0, 0, 0, 0, 0, NULL, NULL, -1, 0};
    const char *data = self->block.buf, *stop = data + self->block.len, *until = data;
    Last last = {NULL, 0, NULL, 0, 0};
    for (Py_ssize_t at = 0, next; at < found->count; at = next) {
        const Hit *hit = &found->hits[at];
        const char *begin = line_begin(until, data + hit->begin), *end = newline(data + hit->begin, stop);
        for (next = at + 1; next < found->count && found->hits[next].begin <= end - data; next++)
            ;
        until = end;
        int taken = self->templates ? take_phase(self, hit, next - at, begin, end, &last, heads) : 0;
        if (taken < 0)
            return 0;
        last.apart |= !taken;
        const Repeat *repeat = NULL;
        Dating dating = {ODD, ANY, 0, 0};
        if (!taken && clocks) {
            repeat = next == at + 1 && end < stop ? repeat_of(self->finder, clocks, data, hit, begin, end) : NULL;
            int repeated = repeat ? goes_on(self, &run, repeat, clocks, hit, begin, end, &dating) : 0;
            if (repeated < 0 || (!repeat && !end_run(self, &run)))
                return 0;
            if (repeated) {
                counts[repeat - self->finder->repeats]++;
                continue;
            }
            if (!repeat)
                dating = dating_of(clocks, begin, end);
        }
        int returns = !taken && memchr(begin, '\r', (size_t)(end - begin)) != NULL;
        Frame frame = {begin, 0};
        for (Py_ssize_t each = at; !taken && each < next; each++) {
            hit = &found->hits[each];
            if (returns && is_passed(&frame, data, hit, begin, end))
                continue;
            PyObject *text = each == at ? clean(begin, end) : NULL;
            if (!text && PyErr_Occurred())
                return 0;
            int done = add_hit(self, hit, found->hits[at].line, begin, end, &last, text, &dating, repeat, stamped);
            Py_XDECREF(text);
            if (!done)
                return 0;
        }
    }
    return end_run(self, &run) && count_repeated(self, counts);
}

/* find(block, heads, clocks) -> Found; heads(bytes) gives the stamp of a line's head, None where only the line may tell;
 * clocks: a Clocks or None. */
static PyObject *Finder_find(Finder *self, PyObject *args)
{
    PyObject *block, *heads, *clocks;
    if (!PyArg_ParseTuple(args, "OOO", &block, &heads, &clocks))
        return NULL;
    if (clocks != Py_None && !PyObject_TypeCheck(clocks, ClocksType)) {
        PyErr_SetString(PyExc_TypeError, "expected Clocks or None");
        return NULL;
    }
    Found *found = (Found *)((allocfunc)PyType_GetSlot(FoundType, Py_tp_alloc))(FoundType, 0);
    if (!found)
        return NULL;
    found->finder = (Finder *)Py_NewRef((PyObject *)self);
    found->templates = Py_XNewRef(self->templates);
    found->hits = PyList_New(0);
    found->dated = PyList_New(0);
    found->repeats = PyDict_New();
    found->repeated = PyDict_New();
    if (!found->hits || !found->dated || !found->repeats || !found->repeated || PyObject_GetBuffer(block, &found->block, PyBUF_SIMPLE)) {
        Py_DECREF(found);
        return NULL;
    }
    Hits hits = {NULL, 0, 0};
    Py_BEGIN_ALLOW_THREADS
    found->lines = search_block(self->search, found->block.buf, found->block.len, &hits);
    Py_END_ALLOW_THREADS
    Stamped stamped = {NULL, 0, 0};
    const Clocks *dating = clocks == Py_None ? NULL : &((ClocksObject *)clocks)->clocks;
    int done = found->lines >= 0 ? sift(found, &hits, heads, dating, &stamped) : (PyErr_NoMemory(), 0);
    Py_XDECREF(stamped.stamp);
    free(hits.hits);
    if (done)
        return (PyObject *)found;
    Py_DECREF(found);
    return NULL;
}

static PyObject *value_of(Found *self, const Parsed *parsed, int at)
{
    if (parsed->template->numeric[at])
        return PyFloat_FromDouble(parsed->value[at].number);
    return text_of(self->finder, parsed->value[at].text, parsed->value[at].size);
}

/* Reads a line again that was taken: to keep its values meanwhile would cost more. */
static int again(Found *self, const PhaseLine *phase, Parsed *parsed)
{
    const char *data = self->block.buf;
    if (parse((const Templates *)PyBytes_AsString(self->templates), data + phase->needle, data + phase->end, parsed))
        return 1;
    PyErr_SetString(PyExc_RuntimeError, "the block was changed while it was read");
    return 0;
}

/* The positions in a Joined of the values that a template reads. */
static PyObject *positions_of(const Template *template)
{
    PyObject *list = PyList_New(0), *made = NULL;
    for (int at = 0; list && at < template->fields; at++)
        if (template->position[at] >= 0 && !append(list, PyLong_FromLong(template->position[at])))
            Py_CLEAR(list);
    if (list)
        made = PyList_AsTuple(list);
    Py_XDECREF(list);
    return made;
}

/* The values of a line, as many as there are positions. */
static PyObject *values_of(Found *self, const Parsed *parsed, Py_ssize_t count)
{
    PyObject *values = PyTuple_New(count);
    for (int at = 0, place = 0; values && at < parsed->template->fields; at++) {
        if (parsed->template->position[at] < 0)
            continue;
        PyObject *value = value_of(self, parsed, at);
        if (!value || PyTuple_SetItem(values, place++, value))
            Py_CLEAR(values);
    }
    return values;
}

/* phases(line, pattern): the lines that were taken, as update_templates.PhaseLine; `line` is the number of the first one. */
static PyObject *Found_phases(Found *self, PyObject *args)
{
    Py_ssize_t line;
    int pattern;
    if (!PyArg_ParseTuple(args, "ni", &line, &pattern))
        return NULL;
    PyObject *lines = PyList_New(0), *positions[MAX_TEMPLATES] = {NULL};
    const Templates *templates = self->templates ? (const Templates *)PyBytes_AsString(self->templates) : NULL;
    for (Py_ssize_t at = 0; lines && at < self->taken; at++) {
        const PhaseLine *phase = &self->phases[at];
        Parsed parsed;
        PyObject *values = NULL;
        if (again(self, phase, &parsed)) {
            PyObject **known = &positions[parsed.template - templates->template];
            if (!*known)
                *known = positions_of(parsed.template);
            values = *known ? values_of(self, &parsed, PyTuple_Size(*known)) : NULL;
            if (values && append(lines, Py_BuildValue("(nnnOs#iONi)", phase->begin, phase->end, line + phase->line,
                                                      phase->stamp, parsed.update, (Py_ssize_t)parsed.update_size,
                                                      parsed.template->phase, *known, values, pattern)))
                continue;
        }
        Py_CLEAR(lines);
    }
    for (int at = 0; at < MAX_TEMPLATES; at++)
        Py_XDECREF(positions[at]);
    return lines;
}

static PyObject *Found_hits(Found *self, void *Py_UNUSED(closure)) { return Py_NewRef(self->hits); }
static PyObject *Found_dated(Found *self, void *Py_UNUSED(closure)) { return Py_NewRef(self->dated); }
static PyObject *Found_newlines(Found *self, void *Py_UNUSED(closure)) { return PyLong_FromSsize_t(self->lines); }
static PyObject *Found_repeats(Found *self, void *Py_UNUSED(closure)) { return Py_NewRef(self->repeats); }
static PyObject *Found_repeated(Found *self, void *Py_UNUSED(closure)) { return Py_NewRef(self->repeated); }

/* newlines(block): how many there are. */
static PyObject *count(PyObject *Py_UNUSED(module), PyObject *block)
{
    Py_buffer held;
    if (PyObject_GetBuffer(block, &held, PyBUF_SIMPLE))
        return NULL;
    Py_ssize_t lines = count_newlines(held.buf, held.len);
    PyBuffer_Release(&held);
    return PyLong_FromSsize_t(lines);
}

/* may_hold_time(text, start): whether a time may stand behind `start`; so it may where anything is not ASCII. */
static PyObject *may_hold_time(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *text;
    Py_ssize_t start, size;
    if (!PyArg_ParseTuple(args, "Un:may_hold_time", &text, &start))
        return NULL;
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, &size);
    if (!utf8)
        PyErr_Clear(); /* half a character */
    if (!utf8 || size != PyUnicode_GetLength(text))
        Py_RETURN_TRUE;
    start = start < 0 ? 0 : start > size ? size : start;
    return PyBool_FromLong(has_time(utf8 + start, utf8 + size));
}

/* --- when lines were printed: see _clocks.h ------------------------------------------------------------------------ */
static void Clocks_dealloc(ClocksObject *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Where a text was put; -1 when there is no room for it. */
static int kept(Clocks *clocks, const char *text, Py_ssize_t size)
{
    int at = clocks->used;
    if (size > MOST_TEXT - at)
        return -1;
    memcpy(clocks->text + at, text, (size_t)size);
    clocks->used += (int)size;
    return at;
}

/* Clocks([(before, sign, digits, after, kind, day_s, offset_s), ...], [hint, ...]); raises ValueError for what has no
 * room. */
static PyObject *Clocks_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    PyObject *forms, *hints;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &forms, &PyList_Type, &hints))
        return NULL;
    ClocksObject *self = (ClocksObject *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self)
        return NULL;
    Clocks *clocks = &self->clocks;
    Py_ssize_t count = PyList_Size(forms), size, more;
    if (count > MOST_FORMS || PyList_Size(hints) > MOST_HINTS)
        goto odd;
    for (Py_ssize_t at = 0; at < PyList_Size(hints); at++) {
        const char *text;
        if (!PyArg_Parse(PyList_GetItem(hints, at), "y#", &text, &size))
            goto fail;
        if ((clocks->hint[at].at = kept(clocks, text, size)) < 0)
            goto odd;
        clocks->hint[at].size = (int)size;
        clocks->hints++;
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        Form *form = &clocks->form[at];
        const char *before, *after;
        if (!PyArg_ParseTuple(PyList_GetItem(forms, at), "y#iiy#idd", &before, &size, &form->sign, &form->digits, &after,
                              &more, &form->kind, &form->day_s, &form->offset_s))
            goto fail;
        form->before = kept(clocks, before, size);
        form->after = kept(clocks, after, more);
        if (form->before < 0 || form->after < 0 || form->digits < 0 || form->digits > 9)
            goto odd;
        form->before_size = (int)size;
        form->after_size = (int)more;
        clocks->forms++;
    }
    return (PyObject *)self;
odd:
    PyErr_SetString(PyExc_ValueError, "forms that have no room");
fail:
    Py_DECREF(self);
    return NULL;
}

/* passed(block, at, bound, most, kind, least, greatest): where the lines end that `pass_lines` passes over, and how many
 * these are. */
static PyObject *Clocks_skip(ClocksObject *self, PyObject *args)
{
    Py_buffer block;
    Py_ssize_t at, bound, most, lines = 0;
    int kind;
    double least, greatest;
    if (!PyArg_ParseTuple(args, "y*nnnidd", &block, &at, &bound, &most, &kind, &least, &greatest))
        return NULL;
    if (at >= 0 && at <= block.len && bound >= 0 && bound <= block.len)
        at = pass_lines(&self->clocks, block.buf, at, bound, most, kind, least, greatest, &lines);
    PyBuffer_Release(&block);
    return Py_BuildValue("(nn)", at, lines);
}

/* flows(block, low, low_s, high, high_s, kind, quiet, most): see _clocks.h. */
static PyObject *Clocks_is_continuous(ClocksObject *self, PyObject *args)
{
    Py_buffer block;
    Moment low, high;
    int kind, seen = 0;
    double quiet, most;
    if (!PyArg_ParseTuple(args, "y*ndndidd", &block, &low.at, &low.seconds, &high.at, &high.seconds, &kind, &quiet, &most))
        return NULL;
    if (low.at >= 0 && low.at <= high.at && high.at <= block.len)
        seen = is_continuous(&self->clocks, block.buf, low, high, kind, quiet, most);
    PyBuffer_Release(&block);
    return PyBool_FromLong(seen);
}

/* seen(block, begin, end): whether it is seen which stamp a line has, and that one; its newline may be there. */
static PyObject *Clocks_stamp(ClocksObject *self, PyObject *args)
{
    Py_buffer block;
    Py_ssize_t begin, end;
    int kind = ANY;
    double seconds = 0;
    Look seen = ODD;
    if (!PyArg_ParseTuple(args, "y*nn", &block, &begin, &end))
        return NULL;
    if (begin >= 0 && begin < end && end <= block.len) {
        const char *data = block.buf;
        seen = look(&self->clocks, data + begin, data + end - (data[end - 1] == '\n'), &kind, &seconds);
    }
    PyBuffer_Release(&block);
    if (seen == DATED)
        return Py_BuildValue("(O(id))", Py_True, kind, seconds);
    return Py_BuildValue("(OO)", seen == UNDATED ? Py_True : Py_False, Py_None);
}

static PyMethodDef functions[] = {
    {"newlines", count, METH_O, NULL},
    {"may_hold_time", may_hold_time, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef Finder_methods[] = {
    {"find", (PyCFunction)Finder_find, METH_VARARGS, NULL},
    {"set_templates", (PyCFunction)Finder_set_templates, METH_VARARGS, NULL},
    {"learn_ending", (PyCFunction)Finder_learn_ending, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef Clocks_methods[] = {
    {"skip", (PyCFunction)Clocks_skip, METH_VARARGS, NULL},
    {"is_continuous", (PyCFunction)Clocks_is_continuous, METH_VARARGS, NULL},
    {"stamp", (PyCFunction)Clocks_stamp, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef Found_methods[] = {
    {"phases", (PyCFunction)Found_phases, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef Found_values[] = {
    {"hits", (getter)Found_hits, NULL, NULL, NULL},
    {"dated", (getter)Found_dated, NULL, NULL, NULL},
    {"newlines", (getter)Found_newlines, NULL, NULL, NULL},
    {"repeats", (getter)Found_repeats, NULL, NULL, NULL},
    {"repeated", (getter)Found_repeated, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot Finder_slots[] = {
    {Py_tp_new, Finder_new}, {Py_tp_dealloc, Finder_dealloc}, {Py_tp_methods, Finder_methods}, {0, NULL},
};
static PyType_Slot Clocks_slots[] = {
    {Py_tp_new, Clocks_new}, {Py_tp_dealloc, Clocks_dealloc}, {Py_tp_methods, Clocks_methods}, {0, NULL},
};
static PyType_Slot Found_slots[] = {
    {Py_tp_dealloc, Found_dealloc}, {Py_tp_methods, Found_methods}, {Py_tp_getset, Found_values}, {0, NULL},
};
static PyType_Spec Finder_spec = {"perfmon.sources._scanning.Finder", sizeof(Finder), 0, Py_TPFLAGS_DEFAULT, Finder_slots};
static PyType_Spec Clocks_spec = {"perfmon.sources._scanning.Clocks", sizeof(ClocksObject), 0, Py_TPFLAGS_DEFAULT,
                                  Clocks_slots};
static PyType_Spec Found_spec = {"perfmon.sources._scanning.Found", sizeof(Found), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, Found_slots};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_scanning", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__scanning(void)
{
    if (!search_works()) {
        PyErr_SetString(PyExc_ImportError, "this processor lacks AVX2");
        return NULL;
    }
    PyObject *module = PyModule_Create(&definition), *finder = PyType_FromSpec(&Finder_spec);
    ClocksType = (PyTypeObject *)PyType_FromSpec(&Clocks_spec);
    FoundType = (PyTypeObject *)PyType_FromSpec(&Found_spec);
    if (module && finder && ClocksType && FoundType && !PyModule_AddObjectRef(module, "Finder", finder) &&
        !PyModule_AddObjectRef(module, "Clocks", (PyObject *)ClocksType) && !PyModule_AddObjectRef(module, "Found", (PyObject *)FoundType)) {
        Py_DECREF(finder);
        return module;
    }
    Py_XDECREF(module);
    Py_XDECREF(finder);
    return NULL;
}
