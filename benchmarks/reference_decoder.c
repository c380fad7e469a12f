/* The yardstick for the decoder: the same two passes and the same columns, by hand.
 *
 * count() walks the whole message and adds up lines, events and stats; fill() walks it
 * again and writes the columns, with metadata ids mapped to dense numbers through one
 * table per plane. Names are not decoded, and damage ends the reading with -1.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const uint8_t *at, *end;
} Span;

static inline int number(Span *in, uint64_t *value) {
  if (in->at < in->end && *in->at < 0x80) {
    *value = *in->at++;
    return 0;
  }
  uint64_t sum = 0;
  for (int shift = 0; shift < 70 && in->at < in->end; shift += 7) {
    uint8_t byte = *in->at++;
    sum |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = sum;
      return 0;
    }
  }
  return -1;
}

static inline int sized(Span *in, Span *body) {
  uint64_t size;
  if (number(in, &size) || size > (uint64_t)(in->end - in->at)) return -1;
  body->at = in->at;
  body->end = in->at += size;
  return 0;
}

static inline int skip(Span *in, uint64_t tag) {
  uint64_t value;
  Span body;
  if (tag < 8 || tag > 0xffffffffu) return -1;
  switch (tag & 7) {
    case 0: return number(in, &value);
    case 2: return sized(in, &body);
    case 1: return in->end - in->at < 8 ? -1 : (in->at += 8, 0);
    case 5: return in->end - in->at < 4 ? -1 : (in->at += 4, 0);
    default: return -1;
  }
}

typedef struct {
  int64_t lines, events, stats;
} Counts;

static int count_line(Span line, Counts *counts) {
  uint64_t tag;
  Span event;
  while (line.at < line.end) {
    if (number(&line, &tag)) return -1;
    if (tag != 0x22) {
      if (skip(&line, tag)) return -1;
      continue;
    }
    if (sized(&line, &event)) return -1;
    counts->events++;
    while (event.at < event.end) {
      if (number(&event, &tag) || skip(&event, tag)) return -1;
      counts->stats += tag == 0x22;
    }
  }
  return 0;
}

int count(const uint8_t *data, int64_t size, Counts *counts) {
  Span space = {data, data + size}, plane, line;
  uint64_t tag;
  memset(counts, 0, sizeof *counts);
  while (space.at < space.end) {
    if (number(&space, &tag)) return -1;
    if (tag != 0x0a) {
      if (skip(&space, tag)) return -1;
      continue;
    }
    if (sized(&space, &plane)) return -1;
    while (plane.at < plane.end) {
      if (number(&plane, &tag)) return -1;
      if (tag != 0x1a) {
        if (skip(&plane, tag)) return -1;
        continue;
      }
      if (sized(&plane, &line) || count_line(line, counts)) return -1;
      counts->lines++;
    }
  }
  return 0;
}

typedef struct {
  int32_t *type;
  int64_t *offset, *dur;
  int32_t *stat_event, *key;
  uint8_t *kind;
  int64_t *value;
  int32_t *length;
} Columns;

/* Ids up to the size of the table; others are looked for one by one in `far`. */
typedef struct {
  int32_t *direct, *far_row;
  uint64_t *far, size, far_count, room, rows;
} Table;

static int add(Table *table, uint64_t id) {
  int32_t row = (int32_t)table->rows++;
  if (id < (1u << 20)) {
    if (id >= table->size) {
      uint64_t size = table->size ? table->size : 1024;
      while (size <= id) size *= 2;
      int32_t *grown = realloc(table->direct, size * sizeof *grown);
      if (!grown) return -1;
      memset(grown + table->size, 0xff, (size - table->size) * sizeof *grown);
      table->direct = grown;
      table->size = size;
    }
    table->direct[id] = row;
    return 0;
  }
  if (table->far_count == table->room) {
    table->room = table->room ? 2 * table->room : 1024;
    table->far = realloc(table->far, table->room * sizeof *table->far);
    table->far_row = realloc(table->far_row, table->room * sizeof *table->far_row);
    if (!table->far || !table->far_row) return -1;
  }
  table->far[table->far_count] = id;
  table->far_row[table->far_count++] = row;
  return 0;
}

static inline int32_t find(const Table *table, uint64_t id) {
  if (id < table->size) return table->direct[id];
  for (uint64_t k = 0; k < table->far_count; k++)
    if (table->far[k] == id) return table->far_row[k];
  return -1;
}

static int read_stat(Span in, const Table *keys, Columns *to, int64_t row, int64_t event) {
  uint64_t tag, id = 0, value = 0, bits;
  uint8_t kind = 0;
  int64_t length = 0;
  Span body;
  extern const uint8_t *base_of_data;
  while (in.at < in.end) {
    if (number(&in, &tag)) return -1;
    switch (tag) {
      case 0x08:
        if (number(&in, &id)) return -1;
        break;
      case 0x18: case 0x20: case 0x38:
        if (number(&in, &value)) return -1;
        kind = (uint8_t)(tag >> 3), length = 0;
        break;
      case 0x2a: case 0x32:
        if (sized(&in, &body)) return -1;
        kind = (uint8_t)(tag >> 3), length = body.end - body.at;
        value = (uint64_t)(body.at - base_of_data);
        break;
      case 0x11:
        if (in.end - in.at < 8) return -1;
        memcpy(&bits, in.at, 8);
        in.at += 8, value = bits, kind = 2, length = 0;
        break;
      default:
        if (skip(&in, tag)) return -1;
    }
  }
  to->stat_event[row] = (int32_t)event;
  to->key[row] = find(keys, id);
  to->kind[row] = kind;
  to->value[row] = kind == 7 ? find(keys, value) : (int64_t)value;
  to->length[row] = (int32_t)length;
  return 0;
}

const uint8_t *base_of_data;

static int fill_line(Span line, const Table *types, const Table *keys, Columns *to,
                     Counts *done) {
  uint64_t tag, id, offset, dur, ignored;
  Span event, stat;
  while (line.at < line.end) {
    if (number(&line, &tag)) return -1;
    if (tag != 0x22) {
      if (skip(&line, tag)) return -1;
      continue;
    }
    if (sized(&line, &event)) return -1;
    id = offset = dur = 0;
    while (event.at < event.end) {
      if (number(&event, &tag)) return -1;
      switch (tag) {
        case 0x08:
          if (number(&event, &id)) return -1;
          break;
        case 0x10:
          if (number(&event, &offset)) return -1;
          break;
        case 0x18:
          if (number(&event, &dur)) return -1;
          break;
        case 0x22:
          if (sized(&event, &stat) ||
              read_stat(stat, keys, to, done->stats++, done->events))
            return -1;
          break;
        case 0x28:
          if (number(&event, &ignored)) return -1;
          offset = 0;
          break;
        default:
          if (skip(&event, tag)) return -1;
      }
    }
    to->type[done->events] = find(types, id);
    to->offset[done->events] = (int64_t)offset;
    to->dur[done->events] = (int64_t)dur;
    done->events++;
  }
  return 0;
}

static int fill_plane(Span plane, Columns *to, Counts *done) {
  Table types = {0}, keys = {0};
  Span whole = plane, part;
  uint64_t tag, key;
  int bad = 0;
  while (!bad && plane.at < plane.end) {
    if ((bad = number(&plane, &tag))) break;
    if (tag != 0x22 && tag != 0x2a) {
      bad = skip(&plane, tag);
      continue;
    }
    if ((bad = sized(&plane, &part))) break;
    Table *table = tag == 0x22 ? &types : &keys;
    for (key = 0; !bad && part.at < part.end;) {
      if ((bad = number(&part, &tag))) break;
      bad = tag == 0x08 ? number(&part, &key) : skip(&part, tag);
    }
    bad = bad || add(table, key);
  }
  while (!bad && whole.at < whole.end) {
    if ((bad = number(&whole, &tag))) break;
    if (tag != 0x1a)
      bad = skip(&whole, tag);
    else
      bad = sized(&whole, &part) || fill_line(part, &types, &keys, to, done);
  }
  free(types.direct), free(types.far), free(types.far_row);
  free(keys.direct), free(keys.far), free(keys.far_row);
  return bad ? -1 : 0;
}

int fill(const uint8_t *data, int64_t size, Columns *to) {
  Span space = {data, data + size}, plane;
  Counts done = {0};
  uint64_t tag;
  base_of_data = data;
  while (space.at < space.end) {
    if (number(&space, &tag)) return -1;
    if (tag != 0x0a) {
      if (skip(&space, tag)) return -1;
      continue;
    }
    if (sized(&space, &plane) || fill_plane(plane, to, &done)) return -1;
  }
  return 0;
}

/* The floor: every varint of the file, as if it held nothing else. */
uint64_t walk(const uint8_t *data, int64_t size) {
  Span in = {data, data + size};
  uint64_t value, sum = 0;
  while (in.at < in.end) {
    if (number(&in, &value)) {
      in.at += in.at < in.end;
      continue;
    }
    sum += value;
  }
  return sum;
}
