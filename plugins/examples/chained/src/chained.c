/* chained: a hash table with chains, lock free, in plain C against gpuhash/plugin.h.
 *
 * After Misra and Chaudhuri, "Performance evaluation of concurrent lock-free data structures on GPUs" (ICPADS 2012): a list
 * for each bucket, nodes out of one pool that is not reused while batches run, and erasing by a mark in a node's link (Harris,
 * "A pragmatic implementation of non-blocking linked-lists", 2001). Different here: a list is not sorted, a new node is always
 * its first, and an erased node stays where it is until the table has been rebuilt. So links never change but for the mark,
 * nothing is reclaimed beside readers, and no pointer is ever seen a second time with another meaning.
 *
 * Linearization points, of an element with key k:
 *   inserts   the compare-and-swap of the list's head that succeeds: no node was added since the list was searched for k
 *   erases    the mark
 *   others    the load or the change of the value of k's node; if k was erased since the node was found, just before that
 *
 * Batches share the table, each piece of one for itself: `enter` and `leave`. What moves nodes has it alone.
 *
 * Invariants, tested by check():
 *   I1  a node that was linked is in the list of its key's bucket, once.
 *   I2  no two nodes of a list that are not marked have the same key.
 *   I3  live counts the linked nodes that are not marked; live <= taken <= nodes.
 */
#define _POSIX_C_SOURCE 200809L /* pthread_rwlock_t */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "gpuhash/plugin.h"

typedef struct node {
  uint64_t key;
  _Atomic uint64_t value;
  _Atomic uintptr_t link; /* the next node of the list, and the mark */
} node;

typedef struct table {
  pthread_mutex_t gate;   /* who wants the table alone holds it while waiting, so that no more batches enter */
  pthread_rwlock_t moves; /* read: nodes stay where they are */
  gpuhash_memory memory;
  uint32_t key_bytes, value_bytes, threads;
  bool grow;
  double load; /* nodes for each bucket, at most */
  uint64_t seed, rebuilds;
  size_t buckets, nodes;
  _Atomic uintptr_t *head; /* of each bucket's list */
  node *pool;
  _Atomic size_t taken, live;
} table;

static const gpuhash_host_api *host;
static const uintptr_t mark = 1;
static const size_t fewest_nodes = 8, piece = 1024;

/* ---- having the table ------------------------------------------------------------------------------------------------ */

static void enter(table *t) {
  pthread_mutex_lock(&t->gate);
  pthread_rwlock_rdlock(&t->moves);
  pthread_mutex_unlock(&t->gate);
}

static void enter_alone(table *t) {
  pthread_mutex_lock(&t->gate);
  pthread_rwlock_wrlock(&t->moves);
}

static void leave(table *t) { pthread_rwlock_unlock(&t->moves); }

static void leave_alone(table *t) {
  pthread_rwlock_unlock(&t->moves);
  pthread_mutex_unlock(&t->gate);
}

/* ---- storage: alone ---------------------------------------------------------------------------------------------- */

static size_t buckets_for(const table *t, size_t nodes) {
  const size_t buckets = (size_t)((double)nodes / t->load);
  return buckets == 0 ? 1 : buckets;
}

static size_t bytes_of(size_t buckets, size_t nodes) { return buckets * sizeof(uintptr_t) + nodes * sizeof(node); }

/* The heads, and the pool behind them. NULL: no memory. */
static void *new_storage(table *t, size_t buckets, size_t nodes) {
  const size_t most = SIZE_MAX / 4;
  if (nodes > most / sizeof(node) || buckets > most / sizeof(uintptr_t)) return NULL;
  return t->memory.allocate(t->memory.context, bytes_of(buckets, nodes), _Alignof(node), NULL);
}

static void free_storage(table *t, void *p, size_t buckets, size_t nodes) {
  if (p != NULL) t->memory.deallocate(t->memory.context, p, bytes_of(buckets, nodes), _Alignof(node), NULL);
}

static void use_storage(table *t, void *p, size_t buckets, size_t nodes) {
  t->head = p;
  t->pool = (node *)((char *)p + buckets * sizeof(uintptr_t));
  t->buckets = buckets;
  t->nodes = nodes;
  memset(p, 0, buckets * sizeof(uintptr_t));
  t->taken = t->live = 0;
}

static _Atomic uintptr_t *head_of(const table *t, uint64_t key) {
  uint64_t h = key ^ t->seed; /* splitmix64's finaliser */
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
  return &t->head[(h ^ (h >> 31)) % t->buckets];
}

/* Link the live ones of n nodes in t's storage, which is empty. They may lie in its own pool, and then move down in it. */
static void take_over(table *t, node *from, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (from[i].link & mark) continue;
    node *to = &t->pool[t->taken++];
    _Atomic uintptr_t *head = head_of(t, from[i].key);
    to->key = from[i].key;
    to->value = from[i].value;
    to->link = *head;
    *head = (uintptr_t)to;
  }
  t->live = (size_t)t->taken;
  ++t->rebuilds;
}

static void compact(table *t) {
  const size_t n = t->taken;
  use_storage(t, t->head, t->buckets, t->nodes);
  take_over(t, t->pool, n);
}

static bool resize(table *t, size_t nodes) {
  const size_t buckets = buckets_for(t, nodes), old_buckets = t->buckets, old_nodes = t->nodes, n = t->taken;
  void *fresh = new_storage(t, buckets, nodes), *old = t->head;
  node *pool = t->pool;
  if (fresh == NULL) return false;
  use_storage(t, fresh, buckets, nodes);
  take_over(t, pool, n);
  free_storage(t, old, old_buckets, old_nodes);
  return true;
}

/* For an element that has found no node. Another one may have made room by now. */
static gpuhash_status make_room(table *t) {
  if (!t->grow && t->live >= t->nodes) return GPUHASH_FULL;
  gpuhash_status status = GPUHASH_OK;
  enter_alone(t);
  if (t->taken >= t->nodes) {
    const size_t dead = t->nodes - t->live;
    if (dead > t->nodes / 4 || (dead != 0 && !t->grow))
      compact(t);
    else if (!t->grow)
      status = GPUHASH_FULL;
    else if (!resize(t, 2 * t->nodes)) {
      if (dead == 0)
        status = GPUHASH_NO_MEMORY;
      else
        compact(t);
    }
  }
  leave_alone(t);
  return status;
}

/* ---- operations on one key: entered ------------------------------------------------------------------------------ */

static node *node_at(uintptr_t link) { return (node *)(link & ~mark); }

/* The node of a key in a list, or NULL. */
static node *search(uintptr_t list, uint64_t key) {
  for (node *n = node_at(list); n != NULL;) {
    const uintptr_t link = atomic_load_explicit(&n->link, memory_order_acquire);
    if (n->key == key && !(link & mark)) return n;
    n = node_at(link);
  }
  return NULL;
}

static node *take_node(table *t) {
  size_t i = t->taken;
  while (i < t->nodes)
    if (atomic_compare_exchange_weak(&t->taken, &i, i + 1)) return &t->pool[i];
  return NULL;
}

/* YES: the pair is there now. NO: the key was, in *present. FULL: there is no node. */
static uint8_t insert(table *t, uint64_t key, uint64_t value, node **present) {
  _Atomic uintptr_t *head = head_of(t, key);
  uintptr_t first = atomic_load_explicit(head, memory_order_acquire);
  node *mine = NULL;
  for (;;) {
    *present = search(first, key);
    if (*present != NULL) {
      if (mine != NULL) mine->link = mark; /* never linked, and given back by the next rebuild */
      return GPUHASH_NO;
    }
    if (mine == NULL) mine = take_node(t);
    if (mine == NULL) return GPUHASH_ELEMENT_FULL;
    mine->key = key;
    mine->value = value;
    mine->link = first;
    if (atomic_compare_exchange_strong(head, &first, (uintptr_t)mine)) break;
  }
  ++t->live;
  return GPUHASH_YES;
}

static uint8_t erase(table *t, uint64_t key) {
  node *n;
  while ((n = search(atomic_load_explicit(head_of(t, key), memory_order_acquire), key)) != NULL)
    if (!(atomic_fetch_or(&n->link, mark) & mark)) {
      --t->live;
      return GPUHASH_YES;
    }
  return GPUHASH_NO;
}

/* ---- elements of a batch ------------------------------------------------------------------------------------------ */

static uint64_t read_word(const void *array, size_t i, uint32_t bytes) {
  uint64_t word = 0;
  if (bytes != 0) memcpy(&word, (const char *)array + i * bytes, bytes); /* little-endian: the low bytes come first */
  return word;
}

static void write_word(void *array, size_t i, uint32_t bytes, uint64_t word) {
  if (array != NULL && bytes != 0) memcpy((char *)array + i * bytes, &word, bytes);
}

/* What accumulate makes of a value and an operand of one type. */
#define COMBINE(type)                            \
  do {                                           \
    type x, y;                                   \
    memcpy(&x, a, sizeof x);                     \
    memcpy(&y, b, sizeof y);                     \
    if (how == GPUHASH_ADD)                      \
      x = (type)(x + y);                         \
    else if (how == GPUHASH_MIN ? y < x : y > x) \
      x = y;                                     \
    memcpy(a, &x, sizeof x);                     \
  } while (0)

static void combine(void *a, const void *b, uint32_t bytes, uint32_t how, uint32_t type) {
  const bool wide = bytes == 8;
  if (type == GPUHASH_FLOAT && wide)
    COMBINE(double);
  else if (type == GPUHASH_FLOAT)
    COMBINE(float);
  else if (how == GPUHASH_ADD || type == GPUHASH_UINT) { /* two's complement: addition does not see the sign */
    if (wide)
      COMBINE(uint64_t);
    else
      COMBINE(uint32_t);
  } else if (wide)
    COMBINE(int64_t);
  else
    COMBINE(int32_t);
}

static void accumulate(table *t, node *n, uint64_t operand, const gpuhash_batch *b) {
  uint64_t seen = n->value, sum;
  do {
    sum = seen;
    combine(&sum, &operand, t->value_bytes, b->combine, b->value_type);
  } while (!atomic_compare_exchange_weak(&n->value, &seen, sum));
}

static uint8_t apply(table *t, const gpuhash_batch *b, size_t i) {
  const uint32_t op = b->op == GPUHASH_OP_EXECUTE ? b->ops[i] : b->op;
  const uint64_t key = read_word(b->keys, i, t->key_bytes);
  const uint64_t value = b->values == NULL ? 0 : read_word(b->values, i, t->value_bytes);
  node *n = NULL;
  uint8_t status;
  if (b->op == GPUHASH_OP_EXECUTE) write_word(b->out_values, i, t->value_bytes, 0);
  switch (op) {
    case GPUHASH_OP_INSERT: return insert(t, key, value, &n);
    case GPUHASH_OP_ASSIGN:
      status = insert(t, key, value, &n);
      if (status == GPUHASH_NO) n->value = value;
      return status;
    case GPUHASH_OP_ACCUMULATE:
      status = insert(t, key, value, &n);
      if (status == GPUHASH_NO) accumulate(t, n, value, b);
      return status;
    case GPUHASH_OP_FIND:
    case GPUHASH_OP_COUNT:
      n = search(atomic_load_explicit(head_of(t, key), memory_order_acquire), key);
      if (op == GPUHASH_OP_FIND)
        write_word(b->out_values, i, t->value_bytes, n != NULL ? (uint64_t)n->value : 0);
      else
        write_word(b->out_values, i, sizeof(uint64_t), n != NULL);
      return n != NULL;
    case GPUHASH_OP_ERASE: return erase(t, key);
    default: /* NOP, and codes that execute does not know */ return GPUHASH_NO;
  }
}

typedef struct batch_run {
  table *t;
  const gpuhash_batch *b;
  bool backwards;         /* of equal keys the last one is to be inserted, so it comes first */
  _Atomic bool no_memory; /* growing has failed: the rest does not try again */
  _Atomic uint64_t yes, full, failed;
} batch_run;

static void run_piece(void *context, size_t number) {
  batch_run *r = context;
  const size_t n = r->b->n, first = number * piece, end = n - first < piece ? n : first + piece;
  uint64_t yes = 0, full = 0, failed = 0;
  enter(r->t);
  for (size_t at = first; at < end; ++at) {
    const size_t i = r->backwards ? n - 1 - at : at;
    uint8_t status = apply(r->t, r->b, i);
    while (status == GPUHASH_ELEMENT_FULL && !r->no_memory) {
      leave(r->t);
      const gpuhash_status room = make_room(r->t);
      enter(r->t);
      if (room == GPUHASH_FULL) break;
      if (room == GPUHASH_NO_MEMORY) r->no_memory = true;
      status = apply(r->t, r->b, i);
    }
    if (status == GPUHASH_ELEMENT_FULL && r->no_memory) status = GPUHASH_ELEMENT_NO_MEMORY;
    yes += status == GPUHASH_YES;
    full += status == GPUHASH_ELEMENT_FULL;
    failed += status >= GPUHASH_ELEMENT_FULL;
    if (r->b->out_status != NULL) r->b->out_status[i] = status;
  }
  leave(r->t);
  r->yes += yes;
  r->full += full;
  r->failed += failed;
}

static gpuhash_status run(void *self, const gpuhash_batch *b, gpuhash_error *err) {
  table *t = self;
  const bool last_wins = (b->flags & GPUHASH_DEDUP_LAST) != 0, spreads = t->threads > 1 && !last_wins;
  batch_run r = {.t = t, .b = b, .backwards = last_wins && b->op == GPUHASH_OP_INSERT};
  const size_t pieces = b->n / piece + (b->n % piece != 0);
  if (spreads)
    host->parallel(t->threads, pieces, run_piece, &r);
  else
    for (size_t i = 0; i < pieces; ++i) run_piece(&r, i);
  if (b->counts != NULL) *b->counts = (gpuhash_counts){r.yes, r.failed};
  if (r.failed == 0) return GPUHASH_OK;
  return host->fail(err, r.full != 0 ? GPUHASH_FULL : GPUHASH_NO_MEMORY,
                    "chained: %zu of %zu keys found no room; reserve more and repeat them", (size_t)r.failed, b->n);
}

/* ---- lifecycle --------------------------------------------------------------------------------------------------- */

static gpuhash_status probe(gpuhash_device device, gpuhash_error *err) {
  (void)device, (void)err; /* the host asks only about devices that `devices` names */
  return GPUHASH_OK;
}

static bool make_locks(table *t) {
  if (pthread_mutex_init(&t->gate, NULL) != 0) return false;
  if (pthread_rwlock_init(&t->moves, NULL) == 0) return true;
  pthread_mutex_destroy(&t->gate);
  return false;
}

static gpuhash_status create(const gpuhash_config *config, void **out, gpuhash_error *err) {
  const gpuhash_memory *memory = config->memory != NULL ? config->memory : host->host_memory;
  const bool has_team = host->struct_size >= offsetof(gpuhash_host_api, default_threads);
  table *t = memory->allocate(memory->context, sizeof *t, _Alignof(table), NULL);
  if (t == NULL) return host->fail(err, GPUHASH_NO_MEMORY, "chained: no memory for a table");
  memset(t, 0, sizeof *t);
  t->memory = *memory;
  t->key_bytes = config->key_bytes;
  t->value_bytes = config->value_bytes;
  t->threads = has_team ? config->threads : 1;
  t->grow = config->grow != 0;
  t->load = config->max_load_factor != 0 ? config->max_load_factor : 1.0;
  t->seed = config->seed;
  const size_t nodes = config->capacity < fewest_nodes ? fewest_nodes : config->capacity;
  const size_t buckets = nodes > SIZE_MAX / 64 ? SIZE_MAX : buckets_for(t, nodes); /* too many: new_storage says so */
  void *storage = new_storage(t, buckets, nodes);
  if (storage == NULL || !make_locks(t)) {
    free_storage(t, storage, buckets, nodes);
    memory->deallocate(memory->context, t, sizeof *t, _Alignof(table), NULL);
    return host->fail(err, GPUHASH_NO_MEMORY, "chained: no memory for %zu nodes", nodes);
  }
  use_storage(t, storage, buckets, nodes);
  *out = t;
  return GPUHASH_OK;
}

static void destroy(void *self) {
  table *t = self;
  const gpuhash_memory memory = t->memory;
  pthread_rwlock_destroy(&t->moves);
  pthread_mutex_destroy(&t->gate);
  free_storage(t, t->head, t->buckets, t->nodes);
  memory.deallocate(memory.context, t, sizeof *t, _Alignof(table), NULL);
}

static gpuhash_status info(void *self, gpuhash_table_info *out, gpuhash_error *err) {
  (void)err;
  table *t = self;
  enter_alone(t);
  out->size = t->live;
  out->used = t->taken;
  out->slots = out->capacity = t->nodes;
  out->bytes = sizeof *t + bytes_of(t->buckets, t->nodes);
  out->rebuilds = t->rebuilds;
  out->max_load_factor = t->load;
  leave_alone(t);
  return GPUHASH_OK;
}

/* ---- exclusive operations ---------------------------------------------------------------------------------------- */

static gpuhash_status export_pairs(void *self, size_t *n, void *keys, void *values, void *stream, gpuhash_error *err) {
  (void)stream;
  table *t = self;
  enter_alone(t);
  const size_t live = t->live, room = *n;
  *n = live;
  if (keys != NULL && room >= live)
    for (size_t i = 0, at = 0; i < t->buckets; ++i)
      for (node *each = node_at(t->head[i]); each != NULL; each = node_at(each->link)) {
        if (each->link & mark) continue;
        write_word(keys, at, t->key_bytes, each->key);
        write_word(values, at++, t->value_bytes, each->value);
      }
  leave_alone(t);
  if (keys == NULL || room >= live) return GPUHASH_OK;
  return host->fail(err, GPUHASH_INVALID_ARGUMENT, "chained: room for %zu pairs, but there are %zu", room, live);
}

static gpuhash_status clear(void *self, void *stream, gpuhash_error *err) {
  (void)stream, (void)err;
  table *t = self;
  enter_alone(t);
  use_storage(t, t->head, t->buckets, t->nodes);
  leave_alone(t);
  return GPUHASH_OK;
}

static gpuhash_status reserve(void *self, uint64_t keys, void *stream, gpuhash_error *err) {
  (void)stream;
  table *t = self;
  enter_alone(t);
  const bool done = keys <= t->nodes || (keys < SIZE_MAX / 64 && resize(t, keys));
  leave_alone(t);
  if (done) return GPUHASH_OK;
  return host->fail(err, GPUHASH_NO_MEMORY, "chained: no memory for %llu nodes", (unsigned long long)keys);
}

static gpuhash_status shrink(void *self, void *stream, gpuhash_error *err) {
  (void)stream;
  table *t = self;
  enter_alone(t);
  const size_t nodes = t->live < fewest_nodes ? fewest_nodes : t->live;
  const bool done = nodes >= t->nodes || resize(t, nodes);
  leave_alone(t);
  return done ? GPUHASH_OK : host->fail(err, GPUHASH_NO_MEMORY, "chained: no memory for %zu nodes", nodes);
}

static gpuhash_status flush(void *self, void *stream, gpuhash_error *err) {
  (void)stream, (void)err;
  table *t = self;
  enter_alone(t);
  compact(t);
  leave_alone(t);
  return GPUHASH_OK;
}

/* ---- looking at it ------------------------------------------------------------------------------------------------- */

static gpuhash_status check_list(table *t, size_t bucket, size_t *linked, size_t *live, gpuhash_error *err) {
  for (node *n = node_at(t->head[bucket]); n != NULL; n = node_at(n->link)) {
    if (++*linked > t->taken)
      return host->fail(err, GPUHASH_CORRUPT, "chained: I1 is broken: list %zu has no end", bucket);
    if (head_of(t, n->key) != &t->head[bucket])
      return host->fail(err, GPUHASH_CORRUPT, "chained: I1 is broken: list %zu has a key of another one", bucket);
    if (n->link & mark) continue;
    ++*live;
    if (search(n->link, n->key) != NULL)
      return host->fail(err, GPUHASH_CORRUPT, "chained: I2 is broken: list %zu has a key twice", bucket);
  }
  return GPUHASH_OK;
}

static gpuhash_status check(void *self, gpuhash_error *err) {
  table *t = self;
  gpuhash_status status = GPUHASH_OK;
  size_t linked = 0, live = 0;
  enter_alone(t);
  for (size_t i = 0; i < t->buckets && status == GPUHASH_OK; ++i) status = check_list(t, i, &linked, &live, err);
  if (status == GPUHASH_OK && (live != t->live || t->taken > t->nodes))
    status =
        host->fail(err, GPUHASH_CORRUPT, "chained: I3 is broken: %zu keys are there, live is %zu, taken %zu of %zu",
                   live, (size_t)t->live, (size_t)t->taken, t->nodes);
  leave_alone(t);
  return status;
}

/* Counts of keys by the nodes before theirs. */
static gpuhash_status histogram(void *self, size_t n, uint64_t *counts, gpuhash_error *err) {
  (void)err;
  table *t = self;
  memset(counts, 0, n * sizeof *counts);
  enter_alone(t);
  for (size_t i = 0; i < t->buckets; ++i) {
    size_t before = 0;
    for (node *each = node_at(t->head[i]); each != NULL; each = node_at(each->link), ++before)
      if (!(each->link & mark)) ++counts[before < n ? before : n - 1];
  }
  leave_alone(t);
  return GPUHASH_OK;
}

static gpuhash_status stats(void *self, size_t *n, gpuhash_stat *out, gpuhash_error *err) {
  (void)err;
  table *t = self;
  gpuhash_stat all[] = {{"chain_mean", 0}, {"chain_max", 0}, {"erased", 0}};
  enter_alone(t);
  for (size_t i = 0; i < t->buckets; ++i) {
    double length = 0;
    for (node *each = node_at(t->head[i]); each != NULL; each = node_at(each->link)) ++length;
    all[0].value += length / (double)t->buckets;
    if (length > all[1].value) all[1].value = length;
  }
  all[2].value = (double)(t->taken - t->live);
  leave_alone(t);
  const size_t known = sizeof all / sizeof *all, room = *n;
  *n = known;
  for (size_t i = 0; i < known && i < room; ++i) out[i] = all[i];
  return GPUHASH_OK;
}

/* ---- the entry point ----------------------------------------------------------------------------------------------- */

GPUHASH_API gpuhash_status gpuhash_plugin_init_v1(uint32_t host_major, uint32_t host_minor, const gpuhash_host_api *api,
                                                  gpuhash_backend_v1 *out, gpuhash_error *err) {
  (void)host_minor; /* what later minor versions add, this plugin does not need */
  if (host_major != GPUHASH_PLUGIN_ABI_MAJOR)
    return api->fail(err, GPUHASH_UNSUPPORTED, "chained is made for ABI %u, not %u", GPUHASH_PLUGIN_ABI_MAJOR,
                     host_major);
  host = api;
  const gpuhash_backend_v1 chained = {
      .struct_size = sizeof chained,
      .name = "chained",
      .version = PLUGIN_VERSION,
      .summary = "lock-free chaining, after Misra and Chaudhuri",
      .traits = GPUHASH_TRAIT_INSERT | GPUHASH_TRAIT_ACCUMULATE | GPUHASH_TRAIT_GROW | GPUHASH_TRAIT_FLUSH,
      .key_widths = 1u << 4 | 1u << 8,
      .value_widths = 1u << 0 | 1u << 4 | 1u << 8,
      .devices = 1u << GPUHASH_CPU,
      .probe = probe,
      .create = create,
      .destroy = destroy,
      .run = run,
      .info = info,
      .export_pairs = export_pairs,
      .clear = clear,
      .reserve = reserve,
      .shrink = shrink,
      .flush = flush,
      .check = check,
      .stats = stats,
      .histogram = histogram,
  };
  const size_t room = out->struct_size; /* what the host knows */
  memcpy(out, &chained, room < sizeof chained ? room : sizeof chained);
  out->struct_size = room < sizeof chained ? room : sizeof chained;
  return GPUHASH_OK;
}
