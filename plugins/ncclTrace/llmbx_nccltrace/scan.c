/* Count the clean collective lines of a block of an NCCL log; the offsets of all other lines are returned.
 *
 * A clean line is, from its start to its end,
 *   [label ][host:pid:tid ][dev] NCCL INFO Op: opCount x sendbuff p recvbuff p[ acc p] count n datatype n op n root n comm p
 *   [nranks=n] stream p[ task n globalrank n]
 * (format string of NCCL's src/enqueue.cc; acc and the last two fields are RCCL's). A line is treated as clean only if the
 * Python grammar counts it the same way. Reads go at most SLACK bytes past the end of the buffer; the
 * caller provides these bytes.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>

enum { OPS = 1 << 15, CALLERS = 1 << 13, KINDS = 16, IRREGULAR = 1024, PROCESS = 96, NAME = 16, LABEL = 64,
       PER_RANK = 6 };
static const uint64_t LARGEST = (uint64_t)1 << 40; /* bytes of a message; with larger ones, the sums could overflow */
enum { READ_IRREGULAR = 1, OPS_FULL = 2, CALLERS_FULL = 3 };

typedef struct {
  char name[NAME];
  uint64_t count, calls;
  uint32_t datatype, nranks; /* nranks 0: the slot is free */
} Operation;

typedef struct {
  char process[PROCESS]; /* "host:pid", or the label and "[dev]" if there is no host */
  uint64_t comm, bytes;
  uint32_t length, nranks;
  uint32_t calls[KINDS];
} Caller;

typedef struct {
  uint64_t lines, calls, bytes;
  uint32_t irregular_count, operations, callers, kinds;
  uint32_t sizes[16];               /* bytes of an element by datatype, 0: unknown; set by the caller */
  char per_rank_count[PER_RANK][NAME];     /* operations with a message of count x nranks; set by the caller */
  uint32_t irregular[IRREGULAR][2]; /* first and last + 1 byte of each line that is not clean */
  char kind[KINDS][NAME];           /* names of Caller.calls */
  uint8_t kind_is_per_rank[KINDS];  /* whether the name is one of per_rank_count */
  uint32_t used_operation[OPS], used_caller[CALLERS]; /* indices of the used slots */
  Operation operation[OPS];
  Caller caller[CALLERS];
} State;

typedef struct {
  const char *process;
  uint32_t length;
  char name[NAME];
  uint64_t count, comm;
  uint32_t datatype, nranks;
} Record;

static const uint8_t HEX[256] = {
  ['0'] = 1, ['1'] = 2, ['2'] = 3, ['3'] = 4, ['4'] = 5, ['5'] = 6, ['6'] = 7, ['7'] = 8, ['8'] = 9, ['9'] = 10,
  ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
};

#define EXPECT(text) do { if (memcmp(p, text, sizeof text - 1)) return 0; p += sizeof text - 1; } while (0)
#define NEED(what) do { if (!(p = what)) return 0; } while (0)

static inline int digit(char c) { return (unsigned char)(c - '0') < 10; }

static inline const char *decimal(const char *p, int most, uint64_t *value) {
  const char *start = p;
  uint64_t n = 0;
  for (; digit(*p); p++) n = n * 10 + (uint64_t)(*p - '0');
  *value = n;
  return p > start && p - start <= most ? p : 0;
}

static inline const char *integer(const char *p) { /* signed; the value is not used */
  uint64_t value;
  return decimal(p + (*p == '-'), 18, &value);
}

static inline const char *hexadecimal(const char *p) {
  const char *start = p;
  while (HEX[(uint8_t)*p]) p++;
  return p > start && p - start <= 16 ? p : 0;
}

static inline const char *pointer(const char *p) {
  if (p[0] == '0' && p[1] == 'x') return hexadecimal(p + 2);
  return memcmp(p, "(nil)", 5) ? 0 : p + 5;
}

static inline const char *address(const char *p, uint64_t *value) {
  uint64_t n = 0;
  if (p[0] == '0' && p[1] == 'x') {
    const char *start = p += 2;
    for (uint8_t nibble; (nibble = HEX[(uint8_t)*p]); p++) n = n << 4 | (uint64_t)(nibble - 1);
    *value = n;
    return p > start && p - start <= 16 ? p : 0;
  }
  *value = 0;
  return memcmp(p, "(nil)", 5) ? 0 : p + 5;
}

/* Find "host:pid:tid " that ends before `end`. Returns its start, or 0; `colon` is set to the colon before tid. */
static const char *host(const char *start, const char *end, const char **colon) {
  const char *p = end - 1;
  if (p <= start || *p != ' ' || !digit(p[-1])) return 0;
  while (p > start && digit(p[-1])) p--;
  if (p == start || *--p != ':' || p == start || !digit(p[-1])) return 0;
  *colon = p;
  while (p > start && digit(p[-1])) p--;
  if (p == start || *--p != ':') return 0;
  end = p;
  while (p > start && p[-1] != ':' && p[-1] != '[' && p[-1] != ']' && (unsigned char)p[-1] > ' ') p--;
  return p < end && (p == start || p[-1] == ' ' || p[-1] == ':' || p[-1] == ']') ? p : 0;
}

/* Parse the line up to "[dev] NCCL INFO ". Sets the process in `r`, returns the text that follows, or 0. */
static inline const char *source(const char *line, Record *r) {
  const char *p = line, *bracket, *colon, *name;
  for (;;) {
    bracket = p;
    while (*bracket != '[' && *bracket != '\n') bracket++;
    if (*bracket == '\n') return 0;
    p = bracket + 1;
    while (digit(*p)) p++;
    if (p > bracket + 1 && !memcmp(p, "] NCCL INFO ", 12)) break;
  }
  if ((name = host(line, bracket, &colon))) {
    r->process = name;
    r->length = (uint32_t)(colon - name);
    bracket = name;
  } else {
    for (const char *label = line; label < bracket; label++) /* no time stamp, no part of another line */
      if ((unsigned char)*label < ' ' || *label == '-' || (label[0] == '0' && label[1] == 'x')) return 0;
    r->process = line;
    r->length = (uint32_t)(p + 1 - line);
  }
  if (r->length > PROCESS || bracket - line > LABEL) return 0;
  size_t before = (size_t)(bracket - line);
  if (before && (memmem(line, before, "opCount", 7) || memmem(line, before, "NCCL ", 5))) return 0;
  return p + 12;
}

/* Parse a clean line. Returns the start of the next line, or 0 if the line is not clean. */
static inline const char *record(const char *line, Record *r) {
  const char *p, *name;
  uint64_t n;
  NEED(source(line, r));
  for (name = p; (unsigned char)((*p | 32) - 'a') < 26 || (p > name && (digit(*p) || *p == '_')); p++) {}
  if (p == name || p - name > NAME) return 0;
  memset(r->name, 0, NAME);
  memcpy(r->name, name, (size_t)(p - name));
  EXPECT(": opCount ");
  NEED(hexadecimal(p));
  EXPECT(" sendbuff ");
  NEED(pointer(p));
  EXPECT(" recvbuff ");
  NEED(pointer(p));
  if (!memcmp(p, " acc ", 5)) NEED(pointer(p + 5));
  EXPECT(" count ");
  NEED(decimal(p, 15, &r->count));
  EXPECT(" datatype ");
  NEED(decimal(p, 2, &n));
  r->datatype = (uint32_t)n;
  EXPECT(" op ");
  NEED(integer(p));
  EXPECT(" root ");
  NEED(integer(p));
  EXPECT(" comm ");
  NEED(address(p, &r->comm));
  EXPECT(" [nranks=");
  if (*p == '0') return 0;
  NEED(decimal(p, 7, &n));
  r->nranks = (uint32_t)n;
  EXPECT("] stream ");
  NEED(pointer(p));
  if (!memcmp(p, " task ", 6)) {
    NEED(integer(p + 6));
    EXPECT(" globalrank ");
    NEED(integer(p));
  }
  if (*p == '\r') p++;
  return *p == '\n' ? p + 1 : 0;
}

static inline uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t h = (a ^ (b >> 29) ^ (b << 35)) * 0x9E3779B97F4A7C15u;
  return h ^ h >> 32;
}

static Operation *operation(State *s, const Record *r) {
  uint64_t a, b;
  memcpy(&a, r->name, 8);
  memcpy(&b, r->name + 8, 8);
  uint64_t h = mixed(mixed(a, b), mixed(r->count, (uint64_t)r->datatype << 32 | r->nranks));
  for (uint32_t i = (uint32_t)h & (OPS - 1);; i = (i + 1) & (OPS - 1)) {
    Operation *o = &s->operation[i];
    if (!o->nranks) {
      if (s->operations >= OPS / 4 * 3) return 0;
      s->used_operation[s->operations++] = i;
      memcpy(o->name, r->name, NAME);
      o->count = r->count, o->datatype = r->datatype, o->nranks = r->nranks;
      return o;
    }
    if (o->count == r->count && o->datatype == r->datatype && o->nranks == r->nranks && !memcmp(o->name, r->name, NAME))
      return o;
  }
}

static uint64_t hashed(const char *process, uint32_t length, uint64_t comm, uint32_t nranks) {
  uint64_t h = mixed(comm, nranks), word;
  for (; length > 8; process += 8, length -= 8) memcpy(&word, process, 8), h = mixed(h, word);
  word = 0;
  memcpy(&word, process, length);
  return mixed(h, word);
}

/* The slot of (process, comm, nranks), or the free slot to store it in. */
static Caller *slot(State *s, const char *process, uint32_t length, uint64_t comm, uint32_t nranks) {
  for (uint32_t i = (uint32_t)hashed(process, length, comm, nranks) & (CALLERS - 1);; i = (i + 1) & (CALLERS - 1)) {
    Caller *c = &s->caller[i];
    if (!c->length) return c;
    if (c->comm == comm && c->nranks == nranks && c->length == length && !memcmp(c->process, process, length)) return c;
  }
}

static Caller *caller(State *s, const Record *r) {
  Caller *c = slot(s, r->process, r->length, r->comm, r->nranks);
  if (!c->length) {
    if (s->callers >= CALLERS / 4 * 3) return 0;
    s->used_caller[s->callers++] = (uint32_t)(c - s->caller);
    memcpy(c->process, r->process, r->length);
    c->length = r->length, c->comm = r->comm, c->nranks = r->nranks;
  }
  return c;
}

static int kind(State *s, const char *name) { /* index of the operation's name, or KINDS if the table is full */
  uint32_t i;
  for (i = 0; i < s->kinds; i++)
    if (!memcmp(s->kind[i], name, NAME)) return (int)i;
  if (i == KINDS) return (int)i;
  memcpy(s->kind[s->kinds++], name, NAME);
  for (uint32_t j = 0; j < PER_RANK; j++) s->kind_is_per_rank[i] |= !memcmp(name, s->per_rank_count[j], NAME);
  return (int)i;
}

/* Count one record. Returns 0, or the code of a full table (nothing is counted), or -1 if the line is irregular. */
static int counted(State *s, const Record *r) {
  uint64_t size = r->datatype < 16 ? s->sizes[r->datatype] : 0, bytes = size * r->count;
  int k = kind(s, r->name);
  if (!size || k == KINDS || bytes > LARGEST) return -1;
  if (s->kind_is_per_rank[k]) bytes *= r->nranks;
  if (bytes > LARGEST) return -1;
  Operation *o = operation(s, r);
  if (!o) return OPS_FULL;
  Caller *c = caller(s, r);
  if (!c) return CALLERS_FULL;
  o->calls++, c->calls[k]++, s->calls++;
  c->bytes += bytes, s->bytes += bytes;
  return 0;
}

/* Whether the line must be read before any later line: it initializes a communicator or may end a step. */
static int barrier(const char *line, const char *end) {
  size_t length = (size_t)(end - line);
  return !memmem(line, length, "NCCL ", 5) || memmem(line, length, "Init COMPLETE", 13);
}

/* Read block[at, end), which ends with a newline. Returns the offset where reading stopped; *why is the reason if that
 * is not `end`. */
uint64_t scan(State *s, const char *block, uint64_t at, uint64_t end, uint32_t *why) {
  const char *p = block + at, *stop = block + end;
  Record r;
  s->irregular_count = 0, *why = 0;
  while (p < stop) {
    const char *after = record(p, &r);
    int full = after ? counted(s, &r) : -1;
    if (full > 0) {
      *why = (uint32_t)full;
      break;
    }
    s->lines++;
    if (!full) {
      p = after;
      continue;
    }
    const char *newline = memchr(p, '\n', (size_t)(stop - p));
    if (newline > p) {
      s->irregular[s->irregular_count][0] = (uint32_t)(p - block);
      s->irregular[s->irregular_count++][1] = (uint32_t)(newline - block);
      if (s->irregular_count == IRREGULAR || barrier(p, newline)) *why = READ_IRREGULAR;
    }
    p = newline + 1;
    if (*why) break;
  }
  return (uint64_t)(p - block);
}

/* Empty the tables. The used slots are few, so the others are not touched. */
void clear_operations(State *s) {
  for (uint32_t i = 0; i < s->operations; i++) memset(&s->operation[s->used_operation[i]], 0, sizeof(Operation));
  s->operations = 0;
}

void clear_callers(State *s) {
  for (uint32_t i = 0; i < s->callers; i++) memset(&s->caller[s->used_caller[i]], 0, sizeof(Caller));
  s->callers = 0;
}

/* Index of the caller (process, comm, nranks), or -1. */
int64_t find(State *s, const char *process, uint32_t length, uint64_t comm, uint32_t nranks) {
  Caller *c = length && length <= PROCESS ? slot(s, process, length, comm, nranks) : 0;
  return c && c->length ? c - s->caller : -1;
}

/* Bytes of State, Operation and Caller, for the caller to compare with its own definitions. */
void layout(uint64_t *sizes) {
  sizes[0] = sizeof(State), sizes[1] = sizeof(Operation), sizes[2] = sizeof(Caller);
}
