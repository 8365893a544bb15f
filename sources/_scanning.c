/* Finds literal texts in a block of a log, numbers their lines, and reads leg lines of known shapes: what
 * `needles.py`, `numbering.py`, `heads.py`, `shapes.py` and `joining.py` do, faster, and some of `headers.py`. `native.py`
 * and `accelerator.py` put it to use.
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

#include "_search.h"

/* As in perfmon.model: positions in a Joined, numbers of legs. */
enum { J_LEGS = 0, J_RPC = 7, J_QUEUE = 8, J_SEND_STAMP = 14, J_DONE_STAMP = 15, J_SERVER_STAMP = 16, J_SERVER_LAST_STAMP = 17, J_LINES = 18 };
enum { J_SIZE = 19, SEND = 0, DONE = 4, LEG = 1 };
enum { MAX_SHAPES = 12, MAX_FIELDS = 16, MAX_NAMES = 4096, MAX_ID = 128, MAX_VALUE = 200, MAX_HEAD = 400 };
enum { MAX_TEXT = 65536, MAX_EVIDENCE = 4096, TEXTS = 1024 };
static const double LIMIT = 172800000.0;

/* --- shapes: literal pieces with values after them ------------------------------------------------------------ */
typedef struct {
    uint8_t leg, fields, numeric[MAX_FIELDS];
    int8_t slot[MAX_FIELDS]; /* position in a Joined, -1 for a value that nobody reads */
    uint16_t piece[MAX_FIELDS], size[MAX_FIELDS]; /* in `names`: the text before each value; one piece at least */
} Shape;

typedef struct { /* kept in a Python bytes object, which never changes: another thread may learn meanwhile */
    int count;
    uint16_t opening; /* bytes of `names` that lines begin with at their needle */
    Shape shape[MAX_SHAPES];
    char names[MAX_NAMES];
} Shapes;

typedef struct {
    const Shape *shape;
    const char *trace;
    int trace_size;
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

static int fits(const Shapes *shapes, const Shape *shape, const char *p, const char *end, Parsed *out)
{
    for (int at = 0; at == 0 || at < shape->fields; at++) {
        if (end - p < shape->size[at] || memcmp(p, shapes->names + shape->piece[at], shape->size[at]))
            return 0;
        p += shape->size[at];
        if (!shape->fields)
            break;
        const char *value = p;
        while (p < end && is_value((uint8_t)*p))
            p++;
        if (p == value || p - value > 1 << 20)
            return 0;
        out->value[at].text = value;
        out->value[at].size = (int)(p - value);
        if (shape->slot[at] < 0)
            continue;
        if (shape->numeric[at] ? !number(value, (int)(p - value), &out->value[at].number) : p - value > MAX_VALUE)
            return 0;
    }
    out->shape = shape;
    return is_trailer(p, end);
}

/* Reads the line whose needle is at p and whose newline is at end; 0 when it has no known shape. */
static int parse(const Shapes *shapes, const char *p, const char *end, Parsed *out)
{
    if (end - p < shapes->opening || memcmp(p, shapes->names, shapes->opening))
        return 0;
    out->trace = p += shapes->opening;
    while (p < end && is_id((uint8_t)*p))
        p++;
    if (p == out->trace || p - out->trace > MAX_ID || end - p < 2 || p[0] != ']' || p[1] != ' ')
        return 0;
    out->trace_size = (int)(p - out->trace);
    for (int at = 0; at < shapes->count; at++)
        if (fits(shapes, &shapes->shape[at], p + 2, end, out))
            return 1;
    return 0;
}

/* --- the type that searches ------------------------------------------------------------------------------------ */
typedef struct {
    PyObject_HEAD
    Search *search;
    PyObject *shapes; /* bytes that hold Shapes, or NULL */
    PyObject *texts[TEXTS]; /* urls and paths repeat: the last string of each hash */
} Finder;

typedef struct { /* a leg line of known shape */
    Py_ssize_t begin, needle, end, line, next;
    PyObject *stamp;
} Leg;

typedef struct { /* what a block holds */
    PyObject_HEAD
    Finder *finder;
    PyObject *shapes, *hits, *dated;
    Py_buffer block;
    Py_ssize_t lines, taken;
    Leg *legs;
} Found;

static PyTypeObject *FoundType;

static void Finder_dealloc(Finder *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    search_free(self->search);
    Py_XDECREF(self->shapes);
    for (int at = 0; at < TEXTS; at++)
        Py_XDECREF(self->texts[at]);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static void Found_dealloc(Found *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    for (Py_ssize_t at = 0; at < self->taken; at++)
        Py_DECREF(self->legs[at].stamp);
    free(self->legs);
    if (self->block.obj)
        PyBuffer_Release(&self->block);
    Py_XDECREF((PyObject *)self->finder);
    Py_XDECREF(self->shapes);
    Py_XDECREF(self->hits);
    Py_XDECREF(self->dated);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Finder([(needle, group, number), ...], alone): in the order in which the needles of a group are asked. */
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

/* know(opening, [(leg, [(piece, position, numeric), ...]), ...]); raises ValueError for what has no room. */
static PyObject *Finder_know(Finder *self, PyObject *args)
{
    const char *opening;
    Py_ssize_t size, used;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "y#O!", &opening, &size, &PyList_Type, &list))
        return NULL;
    PyObject *held = PyBytes_FromStringAndSize(NULL, sizeof(Shapes));
    if (!held)
        return NULL;
    Shapes *shapes = (Shapes *)PyBytes_AsString(held);
    memset(shapes, 0, sizeof *shapes);
    Py_ssize_t count = PyList_Size(list);
    if (size > MAX_NAMES / 2 || count > MAX_SHAPES)
        goto odd;
    memcpy(shapes->names, opening, (size_t)size);
    shapes->opening = (uint16_t)size;
    used = size;
    for (Py_ssize_t at = 0; at < count; at++) {
        Shape *shape = &shapes->shape[at];
        PyObject *parts;
        int leg;
        if (!PyArg_ParseTuple(PyList_GetItem(list, at), "iO!", &leg, &PyList_Type, &parts))
            goto fail;
        Py_ssize_t fields = PyList_Size(parts);
        if (fields < 1 || fields > MAX_FIELDS || leg < SEND || leg > DONE)
            goto odd;
        shape->leg = (uint8_t)leg;
        for (Py_ssize_t part = 0; part < fields; part++) {
            const char *piece;
            int slot, numeric;
            if (!PyArg_ParseTuple(PyList_GetItem(parts, part), "y#ip", &piece, &size, &slot, &numeric))
                goto fail;
            if (size > MAX_NAMES - used || slot < -2 || slot == J_LEGS || slot >= J_SEND_STAMP)
                goto odd;
            if (slot == -2 && fields > 1) /* a piece without a value stands alone */
                goto odd;
            memcpy(shapes->names + used, piece, (size_t)size);
            shape->piece[part] = (uint16_t)used;
            shape->size[part] = (uint16_t)size;
            shape->slot[part] = (int8_t)(slot < 0 ? -1 : slot);
            shape->numeric[part] = (uint8_t)numeric;
            shape->fields += slot != -2;
            used += size;
        }
    }
    shapes->count = (int)count;
    Py_XDECREF(self->shapes);
    self->shapes = held;
    Py_RETURN_NONE;
odd:
    PyErr_SetString(PyExc_ValueError, "shapes that have no room");
fail:
    Py_DECREF(held);
    return NULL;
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
    if (end - p > MAX_TEXT || memchr(p, '\r', (size_t)(end - p)))
        return NULL;
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

typedef struct { /* the leg line that was read last */
    const char *head;
    Py_ssize_t head_size;
    PyObject *stamp; /* owned by a leg, or NULL */
    Py_ssize_t begin, end;
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

/* Takes the line of hits first..stop when it is a leg line of known shape: 1, 0 for another one, -1 for an error. */
static int take_leg(Found *self, const Hit *hit, Py_ssize_t count, const char *begin, const char *end, Last *last,
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
        return 0; /* what stands first in a line is asked first */
    if (!parse((const Shapes *)PyBytes_AsString(self->shapes), needle, end, &parsed))
        return 0;
    PyObject *stamp = stamp_of(last, begin, needle - begin, heads);
    if (!stamp || stamp == Py_None) {
        Py_XDECREF(stamp);
        return stamp ? 0 : -1;
    }
    if (self->taken % 256 == 0) {
        Leg *more = realloc(self->legs, (size_t)(self->taken + 256) * sizeof *more);
        if (!more) {
            Py_DECREF(stamp);
            PyErr_NoMemory();
            return -1;
        }
        self->legs = more;
    }
    self->legs[self->taken++] = (Leg){begin - data, needle - data, end - data, hit->line, -1, stamp};
    if (last->stamp != stamp) {
        if (last->stamp && !append(self->dated, Py_BuildValue("(nO)", last->begin, last->stamp)))
            return -1;
        if (!append(self->dated, Py_BuildValue("(nO)", begin - data, stamp)))
            return -1;
    }
    *last = (Last){begin, needle - begin, stamp, begin - data, end - data};
    return 1;
}

/* Lines that hold hits, one after the other: legs of known shapes are taken, the hits of other lines told. */
static int sift(Found *self, const Hits *found, PyObject *heads)
{
    const char *data = self->block.buf, *stop = data + self->block.len, *until = data;
    Last last = {NULL, 0, NULL, 0, 0};
    for (Py_ssize_t at = 0, next; at < found->count; at = next) {
        const Hit *hit = &found->hits[at];
        const char *begin = data + hit->begin, *end = newline(begin, stop);
        while (begin > until && begin[-1] != '\n')
            begin--;
        for (next = at + 1; next < found->count && found->hits[next].begin <= end - data; next++)
            ;
        until = end;
        int taken = self->shapes ? take_leg(self, hit, next - at, begin, end, &last, heads) : 0;
        if (taken < 0)
            return 0;
        for (Py_ssize_t each = at; !taken && each < next; each++) {
            hit = &found->hits[each];
            PyObject *text = each == at ? clean(begin, end) : NULL;
            if (!text && PyErr_Occurred())
                return 0;
            const char *close = data + hit->end <= end ? end : newline(data + hit->end, stop);
            PyObject *told = Py_BuildValue("(nninnnOnO)", hit->begin, hit->end, hit->needle, begin - data, close - data,
                                           found->hits[at].line, text ? text : Py_None, last.end,
                                           last.stamp ? last.stamp : Py_None);
            Py_XDECREF(text);
            if (!append(self->hits, told))
                return 0;
        }
    }
    return !last.stamp || append(self->dated, Py_BuildValue("(nO)", last.begin, last.stamp));
}

/* find(block, heads) -> Found; heads(bytes) gives the stamp of a line's head, None where only the line may tell. */
static PyObject *Finder_find(Finder *self, PyObject *args)
{
    PyObject *block, *heads;
    if (!PyArg_ParseTuple(args, "OO", &block, &heads))
        return NULL;
    Found *found = (Found *)((allocfunc)PyType_GetSlot(FoundType, Py_tp_alloc))(FoundType, 0);
    if (!found)
        return NULL;
    found->finder = (Finder *)Py_NewRef((PyObject *)self);
    found->shapes = Py_XNewRef(self->shapes);
    found->hits = PyList_New(0);
    found->dated = PyList_New(0);
    if (!found->hits || !found->dated || PyObject_GetBuffer(block, &found->block, PyBUF_SIMPLE)) {
        Py_DECREF(found);
        return NULL;
    }
    Hits hits = {NULL, 0, 0};
    Py_BEGIN_ALLOW_THREADS
    found->lines = search_block(self->search, found->block.buf, found->block.len, &hits);
    Py_END_ALLOW_THREADS
    int done = found->lines >= 0 ? sift(found, &hits, heads) : (PyErr_NoMemory(), 0);
    free(hits.hits);
    if (done)
        return (PyObject *)found;
    Py_DECREF(found);
    return NULL;
}

static PyObject *value_of(Found *self, const Parsed *parsed, int at)
{
    if (parsed->shape->numeric[at])
        return PyFloat_FromDouble(parsed->value[at].number);
    return text_of(self->finder, parsed->value[at].text, parsed->value[at].size);
}

/* Reads a line again that was taken: to keep its values meanwhile would cost more. */
static int again(Found *self, const Leg *leg, Parsed *parsed)
{
    const char *data = self->block.buf;
    if (parse((const Shapes *)PyBytes_AsString(self->shapes), data + leg->needle, data + leg->end, parsed))
        return 1;
    PyErr_SetString(PyExc_RuntimeError, "the block was changed while it was read");
    return 0;
}

/* legs(line, pattern): the lines that were taken, as joining.Leg; `line` is the number of the first one. */
static PyObject *Found_legs(Found *self, PyObject *args)
{
    Py_ssize_t line;
    int pattern;
    if (!PyArg_ParseTuple(args, "ni", &line, &pattern))
        return NULL;
    PyObject *told = PyList_New(0);
    for (Py_ssize_t at = 0; told && at < self->taken; at++) {
        const Leg *leg = &self->legs[at];
        Parsed parsed;
        PyObject *slots = PyList_New(0), *values = PyList_New(0);
        if (!slots || !values || !again(self, leg, &parsed))
            goto fail;
        for (int field = 0; field < parsed.shape->fields; field++)
            if (parsed.shape->slot[field] >= 0)
                if (!append(slots, PyLong_FromLong(parsed.shape->slot[field])) ||
                    !append(values, value_of(self, &parsed, field)))
                    goto fail;
        if (!append(told, Py_BuildValue("(nnnOs#(iOO)i)", leg->begin, leg->end, line + leg->line, leg->stamp,
                                        parsed.trace, (Py_ssize_t)parsed.trace_size, parsed.shape->leg, slots, values,
                                        pattern)))
            goto fail;
        Py_DECREF(slots);
        Py_DECREF(values);
        continue;
    fail:
        Py_XDECREF(slots);
        Py_XDECREF(values);
        Py_CLEAR(told);
    }
    return told;
}

typedef struct { PyObject *joined; const char *trace; int trace_size; Py_ssize_t first, last; } Whole;

static int set(PyObject *joined, int at, PyObject *value)
{
    return value && !PyList_SetItem(joined, at, value);
}

static PyObject *fresh_joined(void)
{
    PyObject *joined = PyList_New(J_SIZE);
    for (int at = 0; joined && at < J_SIZE; at++)
        PyList_SetItem(joined, at, Py_NewRef(Py_None));
    if (joined)
        PyList_SetItem(joined, J_LEGS, PyLong_FromLong(0));
    return joined;
}

/* Milliseconds below which an update's queue and RPC are unremarkable. */
typedef struct {
    double queue, rpc;
} Calm;

/* Whether a duration was told and is below a limit. */
static int below(PyObject *joined, int slot, double limit)
{
    PyObject *told = PyList_GetItem(joined, slot);
    return told && PyFloat_CheckExact(told) && PyFloat_AsDouble(told) < limit;
}

/* The lines of an update; an unremarkable one keeps only the place of its last line. */
static PyObject *lines_of(Found *self, const Whole *whole, Py_ssize_t line, Py_ssize_t offset, Calm calm)
{
    const char *data = self->block.buf;
    PyObject *lines = PyList_New(0);
    int truth = below(whole->joined, J_QUEUE, calm.queue) && below(whole->joined, J_RPC, calm.rpc);
    for (Py_ssize_t at = truth ? whole->last : whole->first; lines && at >= 0; at = self->legs[at].next) {
        const Leg *leg = &self->legs[at];
        Py_ssize_t end = leg->end - leg->begin > MAX_EVIDENCE ? leg->begin + MAX_EVIDENCE : leg->end;
        while (end > leg->begin && data[end - 1] == '\r')
            end--;
        PyObject *text = PyUnicode_DecodeUTF8(data + leg->begin, truth ? 0 : end - leg->begin, "replace");
        if (!text || !append(lines, Py_BuildValue("(nnN)", line + leg->line, offset + leg->begin, text)))
            Py_CLEAR(lines);
    }
    return lines;
}

/* Adds a leg to the update of its trace; `places` is a table of 1 + place in `wholes`, by hash. */
static int join_leg(Found *self, Py_ssize_t at, Whole *wholes, Py_ssize_t *count, int32_t *places, uint32_t mask)
{
    static const int ends[] = {J_SEND_STAMP, -1, -1, -1, J_DONE_STAMP};
    Leg *leg = &self->legs[at];
    Parsed parsed;
    if (!again(self, leg, &parsed))
        return 0;
    uint32_t hash = 2166136261u;
    for (int byte = 0; byte < parsed.trace_size; byte++)
        hash = (hash ^ (uint8_t)parsed.trace[byte]) * 16777619u;
    uint32_t slot = (hash ^ hash >> 15) & mask;
    Whole *whole = NULL;
    for (; places[slot]; slot = (slot + 1) & mask) {
        whole = &wholes[places[slot] - 1];
        if (whole->trace_size == parsed.trace_size && !memcmp(whole->trace, parsed.trace, (size_t)parsed.trace_size))
            break;
    }
    int number = parsed.shape->leg;
    long legs = places[slot] ? PyLong_AsLong(PyList_GetItem(whole->joined, J_LEGS)) : 0;
    if (!places[slot] || legs >> number & 1) { /* a leg that its trace has already begins another update */
        PyObject *joined = fresh_joined();
        if (!joined)
            return 0;
        whole = &wholes[*count];
        *whole = (Whole){joined, parsed.trace, parsed.trace_size, at, at};
        places[slot] = (int32_t)++*count;
        legs = 0;
    } else {
        self->legs[whole->last].next = at;
        whole->last = at;
    }
    PyObject *joined = whole->joined;
    if (!set(joined, J_LEGS, PyLong_FromLong(legs | 1L << number)))
        return 0;
    for (int field = 0; field < parsed.shape->fields; field++)
        if (parsed.shape->slot[field] >= 0 && !set(joined, parsed.shape->slot[field], value_of(self, &parsed, field)))
            return 0;
    if (ends[number] >= 0)
        return set(joined, ends[number], Py_NewRef(leg->stamp));
    if (PyList_GetItem(joined, J_SERVER_STAMP) == Py_None && !set(joined, J_SERVER_STAMP, Py_NewRef(leg->stamp)))
        return 0;
    return set(joined, J_SERVER_LAST_STAMP, Py_NewRef(leg->stamp));
}

/* join(line, offset, pattern, calm): records of the updates whose lines were taken; what calls it has no other legs. */
static PyObject *Found_join(Found *self, PyObject *args)
{
    Py_ssize_t line, offset, count = 0;
    int pattern;
    Calm calm;
    if (!PyArg_ParseTuple(args, "nni(dd)", &line, &offset, &pattern, &calm.queue, &calm.rpc))
        return NULL;
    uint32_t mask = 255;
    while ((Py_ssize_t)mask < 2 * self->taken)
        mask = mask * 2 + 1;
    Whole *wholes = malloc((size_t)(self->taken + 1) * sizeof *wholes);
    int32_t *places = calloc((size_t)mask + 1, sizeof *places);
    PyObject *records = wholes && places ? PyList_New(0) : PyErr_NoMemory();
    for (Py_ssize_t at = 0; at < self->taken; at++)
        self->legs[at].next = -1;
    for (Py_ssize_t at = 0; records && at < self->taken; at++)
        if (!join_leg(self, at, wholes, &count, places, mask))
            Py_CLEAR(records);
    for (Py_ssize_t at = 0; records && at < count; at++) {
        const Leg *last = &self->legs[wholes[at].last];
        PyObject *lines = lines_of(self, &wholes[at], line, offset, calm);
        PyObject *text = lines ? PyTuple_GetItem(PyList_GetItem(lines, PyList_Size(lines) - 1), 2) : NULL;
        if (!text || !set(wholes[at].joined, J_LINES, lines) ||
            !append(records, Py_BuildValue("(innOO[(is#O)]O)", pattern, line + last->line, offset + last->begin,
                                           Py_None, Py_None, LEG, wholes[at].trace, (Py_ssize_t)wholes[at].trace_size,
                                           wholes[at].joined, text)))
            Py_CLEAR(records);
    }
    for (Py_ssize_t at = 0; at < count; at++)
        Py_DECREF(wholes[at].joined);
    free(wholes);
    free(places);
    return records;
}

static PyObject *Found_hits(Found *self, void *Py_UNUSED(closure)) { return Py_NewRef(self->hits); }
static PyObject *Found_dated(Found *self, void *Py_UNUSED(closure)) { return Py_NewRef(self->dated); }
static PyObject *Found_newlines(Found *self, void *Py_UNUSED(closure)) { return PyLong_FromSsize_t(self->lines); }
static PyObject *Found_taken(Found *self, void *Py_UNUSED(closure)) { return PyLong_FromSsize_t(self->taken); }

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

static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* Whether `0:00:` or nine digits stand in at..end. */
static int has_time(const char *at, const char *end)
{
    for (int digits = 0; at < end; at++) {
        if (is_digit(*at)) {
            if (++digits == 9)
                return 1;
            continue;
        }
        if (*at == ':' && digits && end - at > 3 && is_digit(at[1]) && is_digit(at[2]) && at[3] == ':')
            return 1;
        digits = 0;
    }
    return 0;
}

/* tells_time(text, start): whether a time may stand behind `start`; so it may where anything is not ASCII. */
static PyObject *tells_time(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *text;
    Py_ssize_t start, size;
    if (!PyArg_ParseTuple(args, "Un:tells_time", &text, &start))
        return NULL;
    const char *told = PyUnicode_AsUTF8AndSize(text, &size);
    if (!told)
        PyErr_Clear(); /* half a character */
    if (!told || size != PyUnicode_GetLength(text))
        Py_RETURN_TRUE;
    start = start < 0 ? 0 : start > size ? size : start;
    return PyBool_FromLong(has_time(told + start, told + size));
}

typedef struct {
    const char *before, *after;
    Py_ssize_t before_size, digits, after_size;
} Head;

/* Whether a line has that head, but for its digits, and nothing behind it that may tell another time. */
static int has_head(const char *line, const char *end, const Head *head)
{
    if (end - line < head->before_size + head->digits + head->after_size ||
        memcmp(line, head->before, (size_t)head->before_size))
        return 0;
    const char *p = line + head->before_size;
    for (Py_ssize_t at = 0; at < head->digits; at++)
        if (!is_digit(*p++))
            return 0;
    if (memcmp(p, head->after, (size_t)head->after_size) || has_time(p, end))
        return 0;
    for (; p < end; p++)
        if ((signed char)*p < 0 || *p == '\x1b' || *p == '{')
            return 0;
    return 1;
}

/* alike(block, begin, most, low, before, digits, after): how many lines in a row right before the one that begins at
 * `begin`, `most` at most and none that begins before `low`, have the same head as that one; see headers.py. */
static PyObject *alike(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer block;
    Head head;
    Py_ssize_t begin, most, low, count = 0;
    if (!PyArg_ParseTuple(args, "y*nnny#ny#:alike", &block, &begin, &most, &low, &head.before, &head.before_size,
                          &head.digits, &head.after, &head.after_size))
        return NULL;
    const char *data = block.buf;
    if (begin >= 0 && begin <= block.len && low >= 0 && head.digits >= 0) {
        const char *line = data + begin, *end = memchr(line, '\n', (size_t)(block.len - begin));
        for (int own = has_head(line, end ? end : data + block.len, &head); own && count < most; count++) {
            if (line - data <= low || line[-1] != '\n')
                break;
            const char *stop = line - 1, *start = stop;
            while (start > data && start[-1] != '\n')
                start--;
            if (start - data < low || !has_head(start, stop, &head))
                break;
            line = start;
        }
    }
    PyBuffer_Release(&block);
    return PyLong_FromSsize_t(count);
}

static PyMethodDef functions[] = {
    {"newlines", count, METH_O, NULL},
    {"tells_time", tells_time, METH_VARARGS, NULL},
    {"alike", alike, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef Finder_methods[] = {
    {"find", (PyCFunction)Finder_find, METH_VARARGS, NULL},
    {"know", (PyCFunction)Finder_know, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef Found_methods[] = {
    {"legs", (PyCFunction)Found_legs, METH_VARARGS, NULL},
    {"join", (PyCFunction)Found_join, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef Found_values[] = {
    {"hits", (getter)Found_hits, NULL, NULL, NULL},
    {"dated", (getter)Found_dated, NULL, NULL, NULL},
    {"newlines", (getter)Found_newlines, NULL, NULL, NULL},
    {"taken", (getter)Found_taken, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot Finder_slots[] = {
    {Py_tp_new, Finder_new}, {Py_tp_dealloc, Finder_dealloc}, {Py_tp_methods, Finder_methods}, {0, NULL},
};
static PyType_Slot Found_slots[] = {
    {Py_tp_dealloc, Found_dealloc}, {Py_tp_methods, Found_methods}, {Py_tp_getset, Found_values}, {0, NULL},
};
static PyType_Spec Finder_spec = {"perfmon.sources._scanning.Finder", sizeof(Finder), 0, Py_TPFLAGS_DEFAULT, Finder_slots};
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
    FoundType = (PyTypeObject *)PyType_FromSpec(&Found_spec);
    if (module && finder && FoundType && !PyModule_AddObjectRef(module, "Finder", finder) &&
        !PyModule_AddObjectRef(module, "Found", (PyObject *)FoundType)) {
        Py_DECREF(finder);
        return module;
    }
    Py_XDECREF(module);
    Py_XDECREF(finder);
    return NULL;
}
