/* Find the lines of a block of a log that are not known to be noise.
 *
 * A line is known by the hash of its skeleton: the bytes of the line that are kept. A line of more than LONGEST bytes
 * is never known.
 */
#include <stdint.h>
#include <string.h>

enum { LINES = 1024, SLOTS = 1 << 17, LONGEST = 1 << 17 };

typedef struct {
  uint64_t hash;
  uint32_t place, start, end, unused; /* number of the line in its block, its first byte and the one after its last */
} Line;

typedef struct {
  uint8_t kept[256];        /* 1 for each byte that a skeleton has; set by the caller */
  uint64_t known[SLOTS];    /* hashes of the skeletons of noise; 0: the slot is free */
  uint32_t known_count;
  uint32_t count, lines, empty; /* lines in `line`; lines of the block, and its empty lines, set to 0 by the caller */
  Line line[LINES];
  uint8_t skeleton[LONGEST];
} State;

uint64_t state_size(void) { return sizeof(State); }

static uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
  return hash ^ hash >> 29;
}

/* The hash of a line's skeleton; 0 if the line is too long. */
static uint64_t hash_of(State *state, const uint8_t *line, uint64_t size) {
  uint8_t *skeleton = state->skeleton;
  uint32_t length = 0;
  if (size > LONGEST) return 0;
  for (uint64_t i = 0; i < size; i++) {
    skeleton[length] = line[i];
    length += state->kept[line[i]];
  }
  uint64_t hash = mixed(length, 1), word;
  for (; length >= 8; skeleton += 8, length -= 8) {
    memcpy(&word, skeleton, 8);
    hash = mixed(hash, word);
  }
  word = 0;
  memcpy(&word, skeleton, length);
  hash = mixed(mixed(hash, word), 2);
  return hash ? hash : 1;
}

static uint32_t slot_of(const State *state, uint64_t hash) {
  uint32_t slot = hash >> 47;
  while (state->known[slot] && state->known[slot] != hash) slot = (slot + 1) % SLOTS;
  return slot;
}

/* Remember that lines with this hash are noise. A table that is half full starts again. */
void learn(State *state, uint64_t hash) {
  uint32_t slot = slot_of(state, hash);
  if (!hash || state->known[slot]) return;
  if (++state->known_count > SLOTS / 2) {
    memset(state->known, 0, sizeof state->known);
    state->known_count = 1;
    slot = slot_of(state, hash);
  }
  state->known[slot] = hash;
}

/* Read lines from `offset` until the block ends or `line` is full; the offset of the next line is returned. */
uint64_t look(State *state, const uint8_t *block, uint64_t offset, uint64_t size) {
  state->count = 0;
  while (offset < size && state->count < LINES) {
    const uint8_t *start = block + offset, *end = memchr(start, '\n', size - offset);
    uint64_t length = (end ? (uint64_t)(end - block) : size) - offset;
    if (length == 0) state->empty++;
    else {
      uint64_t hash = hash_of(state, start, length);
      if (!state->known[slot_of(state, hash)])
        state->line[state->count++] = (Line){hash, state->lines, offset, offset + length, 0};
      state->lines++;
    }
    offset += length + 1;
  }
  return offset;
}
