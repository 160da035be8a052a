// A fake device behind libgpuhash/kit/device.hpp: a CUDA one with streams, events and kernels, and a CPU one.
//
//   streams   queues of work that the seeded scheduler drains, a piece at a time. A stream may be destroyed with work
//             queued, as CUDA allows; its handle may come back as another stream's.
//   memory    handed out in the order of a stream, and taken back in the order of a stream. It holds rubbish before and
//             after. The host cannot touch device memory: the addresses that it sees are mapped to nothing.
//   graphs    a stream that is captured takes kernels, and waits for events, into a graph; nothing else may be asked of it.
//   races     an access by a stream or a thread has to be ordered (vector clocks) after whatever it conflicts with.
//   faults    the n-th call of the device fails, or allocations from the n-th on.
#pragma once
#include <string.h>

#include <deque>
#include <memory>

#include "libgpuhash/kit/device.hpp"
#include "tests/kit/world.hpp"

namespace gpuhash::kit_sim {

// How memory is accessed. Batches use atomic instructions and may meet; fills, copies, exclusive kernels and kernels that
// were told that no writer runs beside them do not.
// in_place: atomic writes to values of keys that stay where they are; erasing: atomic writes that may take keys away.
enum class access { read, write, atomic_read, atomic_write, in_place, erasing };
inline constexpr int accesses = 6;

inline constexpr int error_no_memory = 2, error_device = 700;

class device {
 public:
  // ---- memory -------------------------------------------------------------------------------------------------------
  enum class owner { table, resource, user };
  struct block {
    size_t at, bytes;  // in the arena
    owner whose;
    bool returned = false;  // the owner has given it back
    bool freed = false;     // and the stream has got there
    bool pinned = false;    // memory of the host, which sees it as it is
    const char* wrote = "its allocation";
    size_t mapped = ~size_t(0);                            // of address space: so much of it has memory,
    std::vector<size_t> pieces;                            // in pieces that begin here
    size_t apart = 0;                                      // from here on it is an area of its own, if not 0
    vector_clock in_first[accesses], in_second[accesses];  // last access of each actor to the area, by kind of access
  };

  bool cuda = true;
  int ordinal = 3;

  void reset(bool is_cuda) {
    cuda = is_cuda;
    top_ = 0;
    blocks_.clear();
    streams_.clear();
    handles_.clear();
    events_.clear();
    graphs_.clear();
    actors_ = most_fibers;
    calls = allocations = injected = injected_memory = 0;
    fail_call = fail_memory_from = fail_memory_to = fail_memory_least = 0;
    failed_call = nullptr;
    sticky = false;
    inside = 0;
    for (int& c : current_) c = 0;
    for (uint32_t& n : host_copies_) n = 0;
    if (cuda) handles_.push_back(new_stream());  // the default stream
    the_world.device_can = nullptr;
    if (cuda) the_world.device_can = [] { return here().can_step(); };
    the_world.device_step = [] { here().step(); };
  }
  static device& here();

  void* user_memory(size_t bytes) {
    block& b = make_block(bytes ? bytes : 1, owner::user);
    b.in_first[int(access::write)].at[the_world.me()] = the_world.clock().at[the_world.me()];
    memset(real(b), 0xa5, b.bytes);
    return visible(b);
  }
  void free_user(void* p) {
    block& b = find(p, 1, "the test");
    touch_host(p, b.bytes, access::write, "the test");
    b.returned = b.freed = true;
    memset(real(b), 0xdd, b.bytes);
  }
  // The memory behind an address that the kit may see.
  template <class T>
  T* real(T* p) const {
    const uintptr_t a = reinterpret_cast<uintptr_t>(p);
    return a - arena_seen < arena_bytes ? reinterpret_cast<T*>(a - arena_seen + arena_real) : p;
  }
  bool is_device(const void* p) const {
    const uintptr_t a = reinterpret_cast<uintptr_t>(p);
    return a - (cuda ? arena_seen : arena_real) < arena_bytes;
  }
  size_t held(owner whose) const {
    size_t n = 0;
    for (const block& b : blocks_) n += b.whose == whose && !b.returned;
    return n;
  }
  size_t peak() const { return top_; }

  // An access by a stream or thread with this clock.
  void touch(const void* p, size_t bytes, access how, uint32_t actor, const vector_clock& clock, const char* who) {
    if (!p || (!cuda && !is_device(p))) return;  // the CPU may use the caller's stack
    block& b = find(p, bytes, who);
    if (injected) return;  // what follows a device error is in no order that means anything
    const size_t from = place_of(p) - b.at;
    if (!b.apart || from < b.apart) touch_area(b, b.in_first, how, actor, clock, who);
    if (b.apart && from + bytes > b.apart) touch_area(b, b.in_second, how, actor, clock, who);
    if (how == access::write) b.wrote = who;
  }
  void touch_area(const block& b, vector_clock* by, access how, uint32_t actor, const vector_clock& clock,
                  const char* who) const {
    // What is done now, and what was done before.
    static constexpr bool conflicts[accesses][accesses] = {
        {false, true, false, true, true, true},    {true, true, true, true, true, true},
        {false, true, false, false, false, false}, {true, true, false, false, false, false},
        {true, true, false, false, false, true},   {true, true, false, false, true, false}};
    static const char* const verbs[] = {"reads",           "writes",          "reads (atomic)",
                                        "writes (atomic)", "writes in place", "erases in"};
    static const char* const past[] = {"read",           "wrote",          "read (atomic)",
                                       "wrote (atomic)", "wrote in place", "erased in"};
    for (int k = 0; k < accesses; ++k)
      if (conflicts[int(how)][k]) {
        const uint32_t other = clock.first_beyond(by[k]);
        if (other != most_actors)
          the_world.violation(
              "race: %s %s memory (%zu bytes) that %s %s, without being ordered after it; last written by %s", who,
              verbs[int(how)], b.bytes, name(other).c_str(), past[k], b.wrote);
      }
    by[int(how)].at[actor] = clock.at[actor];
  }
  void touch_host(const void* p, size_t bytes, access how, const char* who) {
    touch(p, bytes, how, the_world.me(), the_world.clock(), who);
  }
  void use(const void* p, const char* who) {  // a piece of a kernel whose accesses are known
    if (p && !injected && (cuda || is_device(p)) && find(p, 1, who).freed)
      the_world.violation("%s uses memory that is free", who);
  }

  // ---- streams ------------------------------------------------------------------------------------------------------
  struct event;
  struct graph;
  struct token {
    bool done = false;
    vector_clock clock;
  };
  struct work {
    std::function<bool()> step;    // a piece of it; true: done
    std::shared_ptr<token> after;  // waits for this first
    vector_clock launched;
    bool begun = false;
  };
  struct stream {
    uint32_t actor;
    uint64_t id;
    std::deque<work> queue;
    vector_clock clock;
    bool destroyed = false;
    bool of_the_test = true;  // or one that tables borrow
    bool idle = false;        // and none has borrowed
    graph* into = nullptr;    // it is being captured into this
  };
  using stream_ref = std::shared_ptr<stream>;

  void* make_stream(bool of_the_test = true) {
    size_t slot = handles_.size();
    for (size_t i = 1; i < handles_.size(); ++i)
      if (!handles_[i] && !the_world.one_in(4)) slot = i;
    if (slot == handles_.size()) handles_.emplace_back();
    handles_[slot] = new_stream();
    handles_[slot]->of_the_test = of_the_test;
    return handle(slot);
  }
  size_t streams_held() const {  // by the table
    size_t n = 0;
    for (const stream_ref& s : streams_) n += !s->of_the_test && !s->idle;
    return n;
  }
  bool may_make_stream() const { return actors_ + 4 < most_actors; }
  // Returns the stream, whose work goes on.
  stream_ref destroy_stream(void* h) {
    stream_ref s = of(h, "the destruction of a stream");
    s->destroyed = true;
    handles_[reinterpret_cast<uintptr_t>(h) / 16] = nullptr;
    return s;
  }
  stream_ref of(void* h, const char* who) {
    const uintptr_t slot = reinterpret_cast<uintptr_t>(h) / 16;
    if (slot >= handles_.size()) the_world.violation("%s is given something that is no stream", who);
    if (!handles_[slot]) the_world.violation("%s is given a stream that has been destroyed", who);
    if (handles_[slot]->idle) the_world.violation("%s is given a stream that has been returned", who);
    return handles_[slot];
  }
  void enqueue(const stream_ref& s, std::function<bool()> step, std::shared_ptr<token> after = nullptr) {
    if (s->into) the_world.violation("a stream that is captured is asked for what a graph does not take");
    s->queue.push_back({std::move(step), std::move(after), the_world.clock(), false});
    ++the_world.clock().at[the_world.me()];
  }
  void drain(const stream_ref& s) {
    if (s->into) the_world.violation("a host thread waits for a stream that is captured");
    the_world.wait_for("a stream", [&] { return s->queue.empty(); });
    the_world.clock().join(s->clock);
  }
  void drain_all() {
    for (size_t i = 0; i < streams_.size(); ++i) drain(streams_[i]);
  }
  bool idle() const { return !can_step(); }
  bool can_step() const {
    for (const stream_ref& s : streams_)
      if (runnable(*s)) return true;
    return false;
  }
  void step() {
    stream* ready[most_actors];
    uint32_t n = 0;
    for (const stream_ref& s : streams_)
      if (runnable(*s)) ready[n++] = s.get();
    stream& s = *ready[the_world.below(n)];
    work& w = s.queue.front();
    if (!w.begun) {
      w.begun = true;
      s.clock.join(w.launched);
      if (w.after) s.clock.join(w.after->clock);
      ++s.clock.at[s.actor];
    }
    const bool done = !w.step || w.step();
    if (done) s.queue.pop_front();
  }

  // ---- events -------------------------------------------------------------------------------------------------------
  struct event {
    std::shared_ptr<token> last;  // what was recorded last
    bool dropped = false;
  };
  size_t events_held() const {
    size_t n = 0;
    for (const auto& e : events_) n += !e->dropped;
    return n;
  }

  // ---- graphs -------------------------------------------------------------------------------------------------------
  using kernel = std::function<std::function<bool()>(const stream_ref&)>;  // the steps of a run of it on a stream
  struct graph {
    struct node {
      kernel run;
      const event* after;  // or a wait for what was recorded last when the graph is launched
    };
    struct note {
      void (*gone)(void*);
      void* of;
    };
    std::vector<node> nodes;
    std::vector<note> notes;
  };
  void enqueue_kernel(const stream_ref& s, kernel k) {
    if (s->into)
      s->into->nodes.push_back({std::move(k), nullptr});
    else
      enqueue(s, k(s));
  }
  graph& begin_capture(void* h) {
    const stream_ref s = of(h, "the begin of a capture");
    graphs_.push_back(std::make_unique<graph>());
    return *(s->into = graphs_.back().get());
  }
  void end_capture(void* h) { of(h, "the end of a capture")->into = nullptr; }
  void launch(const graph& g, void* h) {
    const stream_ref s = of(h, "the launch of a graph");
    for (const graph::node& n : g.nodes) {
      if (n.after && n.after->dropped) the_world.violation("a graph waits for an event that is no more");
      if (n.run)
        enqueue(s, n.run(s));
      else if (n.after->last)
        enqueue(s, nullptr, n.after->last);
    }
  }
  // Its launches have been waited for.
  void destroy_graph(graph& g) {
    for (const graph::note& n : g.notes) n.gone(n.of);
    g = {};
  }
  int captured_by(void* h, void** into, const char** forbids) {
    *into = nullptr, *forbids = nullptr;
    if (const int e = fault("captured_by")) return e;
    if (cuda) *into = of(h, "captured_by")->into;
    return 0;
  }
  int keep_while(void* into, void (*gone)(void*), void* note) {
    if (const int e = fault("keep_while")) return e;
    static_cast<graph*>(into)->notes.push_back({gone, note});
    return 0;
  }
  int follow_in_graph(void* h, void* e) {
    if (const int bad = fault("follow_in_graph")) return bad;
    const stream_ref s = of(h, "follow_in_graph");
    if (!s->into) the_world.violation("follow_in_graph is called for a stream that is not captured");
    s->into->nodes.push_back({nullptr, &event_of(e, "follow_in_graph")});
    return 0;
  }

  // ---- faults -------------------------------------------------------------------------------------------------------
  uint64_t calls = 0, fail_call = 0;  // the fail_call-th call fails (0: none)
  bool sticky = false;                // and every later one
  const char* failed_call = nullptr;
  uint32_t failed_thread = 0;
  uint64_t allocations = 0, fail_memory_from = 0, fail_memory_to = 0;  // allocations from..to-1 fail
  size_t fail_memory_least = 0;                                        // of those of so many bytes
  uint64_t injected = 0, injected_memory = 0;
  uint32_t inside = 0;  // calls of the table that run now: only they see faults

  int fault(const char* call) {
    the_world.point();
    if (!inside) return 0;
    ++calls;
    if (!fail_call || calls < fail_call || (calls > fail_call && !sticky)) return 0;
    ++injected;
    if (!failed_call) {
      failed_call = call;
      failed_thread = the_world.me();
    }
    ++cancelled_[the_world
                     .me()];  // the caller gives up, and what it has asked to be copied to its stack must not arrive
    host_copies_[the_world.me()] = 0;
    if (the_world.trace) fprintf(stderr, "  step %llu: %s fails\n", (unsigned long long)the_world.steps, call);
    return error_device;
  }
  bool out_of_memory(size_t bytes) {
    if (!inside || bytes < fail_memory_least) return false;
    ++allocations;
    if (allocations < fail_memory_from || allocations >= fail_memory_to) return false;
    ++injected_memory;
    if (the_world.trace) fprintf(stderr, "  step %llu: an allocation fails\n", (unsigned long long)the_world.steps);
    return true;
  }
  int current() const { return current_[the_world.me()]; }
  uint32_t pending_host_copies() const { return host_copies_[the_world.me()]; }  // of this thread

  // ---- what device_api does -----------------------------------------------------------------------------------------
  int enter(int wanted, int* before) {
    if (const int e = fault("enter")) return e;
    int& mine = current_[the_world.me()];
    *before = mine;
    mine = wanted;
    return 0;
  }
  void leave(int before) { current_[the_world.me()] = before; }
  int allocate(void** p, size_t bytes, void* h, owner whose, const char* who) {
    the_world.point();  // it fails for lack of memory only
    if (cuda) check_device(who);
    if (out_of_memory(bytes)) return error_no_memory;
    block& b = make_block(bytes, whose);
    // What only those use who have the table to themselves lies beside what all use.
    if (bytes == sizeof(gpuhash::header)) b.apart = offsetof(gpuhash::header, batch);
    const size_t index = blocks_.size() - 1;
    *p = visible(b);
    if (!cuda) {
      memset(real(b), 0xa5, bytes);
      touch_host(*p, bytes, access::write, who);
      return 0;
    }
    memset(real(b), 0xa5, bytes);
    const stream_ref s = of(h, who);
    // No access may come before the stream gets here, and none that is not ordered after that. Until then it counts as
    // written by the stream at an unknown time.
    b.in_first[int(access::write)].at[s->actor] = b.in_second[int(access::write)].at[s->actor] = ~0u;
    enqueue(s, [this, index, s, who] {
      block& mine = blocks_[index];
      mine.in_first[int(access::write)].at[s->actor] = s->clock.at[s->actor];
      mine.in_second[int(access::write)].at[s->actor] = s->clock.at[s->actor];
      mine.wrote = who;
      return true;
    });
    return 0;
  }
  int release(void* p, void* h, owner whose, const char* who) {
    the_world.point();
    if (cuda && !h && !injected) check_device(who);
    block& b = find(p, 1, who);
    if (visible(b) != p) the_world.violation("%s is given an address inside of a block", who);
    if (b.whose != whose) the_world.violation("%s is given memory of another owner", who);
    if (b.returned) the_world.violation("%s: memory is given back twice", who);
    b.returned = true;
    const size_t index = size_t(&b - blocks_.data());
    const auto finish = [this, index] {
      block& mine = blocks_[index];
      mine.freed = true;
      memset(real(mine), 0xdd, mine.bytes);
    };
    if (!cuda) {
      touch_host(p, b.bytes, access::write, who);
      finish();
      return 0;
    }
    const stream_ref s = of(h, who);
    enqueue(s, [this, index, s, who, finish] {
      touch(visible(blocks_[index]), blocks_[index].bytes, access::write, s->actor, s->clock, who);
      finish();
      return true;
    });
    return 0;
  }
  int allocate_pinned(void** p, size_t bytes) {
    the_world.point();
    if (out_of_memory(bytes)) return error_no_memory;
    block& b = make_block(bytes, owner::table);
    b.pinned = true;
    *p = visible(b);
    memset(real(b), 0xa5, bytes);
    touch_host(*p, bytes, access::write, "allocate_pinned");
    return 0;
  }
  // Whatever used it has ended: nothing orders a stream before this.
  int release_pinned(void* p) {
    the_world.point();
    block& b = find(p, 1, "release_pinned");
    if (!b.pinned || b.returned) the_world.violation("release_pinned is given memory that is not pinned");
    touch_host(p, b.bytes, access::write, "release_pinned");
    b.returned = b.freed = true;
    memset(real(b), 0xdd, b.bytes);
    return 0;
  }
  // Address space, the first part of which has memory.
  static constexpr size_t space_unit = 512;
  int reserve_space(void** p, size_t* bytes, size_t* unit) {
    the_world.point();
    check_device("reserve_space");
    if (out_of_memory(~size_t(0))) return error_no_memory;
    *unit = space_unit;
    *bytes = (*bytes + space_unit - 1) / space_unit * space_unit;
    block& b = make_block(*bytes, owner::table);
    b.mapped = 0;
    *p = visible(b);
    return 0;
  }
  int release_space(void* p, size_t bytes) {
    the_world.point();
    block& b = find(p, 0, "release_space");
    if (visible(b) != p || b.bytes != bytes) the_world.violation("release_space is given something else");
    if (b.mapped) the_world.violation("address space is released that has memory");
    b.returned = b.freed = true;
    return 0;
  }
  int map_memory(void* p, size_t bytes) {
    the_world.point();
    check_device("map_memory");
    block& b = find(p, 0, "map_memory");
    const size_t from = place_of(p) - b.at;
    if (b.mapped != from) the_world.violation("map_memory: there is memory, or a hole would be left");
    if (!bytes || bytes % space_unit || from + bytes > b.bytes) the_world.violation("map_memory: %zu bytes", bytes);
    if (out_of_memory(bytes)) return error_no_memory;
    b.mapped += bytes;
    b.pieces.push_back(from);
    memset(real(b) + from, 0xa5, bytes);
    touch_host(p, bytes, access::write, "map_memory");
    return 0;
  }
  // At once: whatever uses it has ended.
  int unmap_memory(void* p, size_t bytes) {
    the_world.point();
    block& b = find(p, 0, "unmap_memory");
    const size_t from = place_of(p) - b.at;
    if (from + bytes != b.mapped) the_world.violation("unmap_memory: not the last pieces");
    touch_host(p, bytes, access::write, "unmap_memory");
    size_t begin = b.mapped;
    for (; !b.pieces.empty() && b.pieces.back() >= from; b.pieces.pop_back()) begin = b.pieces.back();
    if (begin != from) the_world.violation("unmap_memory: a part of a piece");
    memset(real(b) + from, 0xdd, bytes);
    b.mapped = from;
    return 0;
  }
  int fill(void* p, int byte, size_t bytes, void* h) {
    if (const int e = fault("fill")) return e;
    if (bytes == 0) return 0;
    if (!cuda) {
      touch_host(p, bytes, access::write, "a fill");
      memset(p, byte, bytes);
      return 0;
    }
    if (!h) check_device("fill");
    const stream_ref s = of(h, "fill");
    find(p, bytes, "a fill");
    enqueue(s, [=, this] {
      touch(p, bytes, access::write, s->actor, s->clock, "a fill");
      memset(real(p), byte, bytes);
      return true;
    });
    return 0;
  }
  int pick_keys(const void* keys, const uint8_t* ops, size_t n, uint32_t key_bytes, void* to, size_t many, void* h) {
    if (const int e = fault("pick_keys")) return e;
    if (!h) check_device("pick_keys");
    const stream_ref s = of(h, "pick_keys");
    find(keys, n * key_bytes, "pick_keys");
    find(to, many * key_bytes, "pick_keys");
    enqueue(s, [=, this] {
      touch(keys, n * key_bytes, access::read, s->actor, s->clock, "pick_keys");
      touch(ops, n, access::read, s->actor, s->clock, "pick_keys");
      touch(to, many * key_bytes, access::write, s->actor, s->clock, "pick_keys");
      for (size_t i = 0; i < many; ++i)
        memcpy(static_cast<char*>(real(to)) + i * key_bytes,
               static_cast<const char*>(real(keys)) + picked_from(i, n, many, real(ops)) * key_bytes, key_bytes);
      return true;
    });
    return 0;
  }
  int sketch_keys(const void* keys, const uint8_t* ops, size_t n, uint32_t key_bytes, uint32_t* ranks, void* h) {
    if (const int e = fault("sketch_keys")) return e;
    if (!h) check_device("sketch_keys");
    const stream_ref s = of(h, "sketch_keys");
    find(keys, n * key_bytes, "sketch_keys");
    find(ranks, ranks_of_sketch * sizeof(uint32_t), "sketch_keys");
    enqueue(s, [=, this] {
      touch(keys, n * key_bytes, access::read, s->actor, s->clock, "sketch_keys");
      touch(ops, n, access::read, s->actor, s->clock, "sketch_keys");
      touch(ranks, ranks_of_sketch * sizeof(uint32_t), access::atomic_write, s->actor, s->clock, "sketch_keys");
      for (size_t i = 0; i < n; ++i) {
        if (ops && !adds_in_mix(real(ops)[i])) continue;
        uint64_t key = 0;
        memcpy(&key, static_cast<const char*>(real(keys)) + i * key_bytes, key_bytes);
        const sketched_key k = sketch_of(key);
        uint32_t& rank = real(ranks)[k.place];
        if (rank < k.rank) rank = k.rank;
      }
      return true;
    });
    return 0;
  }
  int count_adding(const uint8_t* ops, const uint8_t* there, size_t n, uint64_t* sum, void* h) {
    if (const int e = fault("count_adding")) return e;
    if (!h) check_device("count_adding");
    const stream_ref s = of(h, "count_adding");
    find(ops, n, "count_adding");
    find(sum, sizeof(*sum), "count_adding");
    enqueue(s, [=, this] {
      touch(ops, n, access::read, s->actor, s->clock, "count_adding");
      touch(there, n, access::read, s->actor, s->clock, "count_adding");
      touch(sum, sizeof(*sum), access::write, s->actor, s->clock, "count_adding");
      for (size_t i = 0; i < n; ++i) *real(sum) += takes_room_in_mix(real(ops)[i], there ? real(there)[i] : 0);
      return true;
    });
    return 0;
  }
  // Host memory is read at once, as pageable memory is. It is written when the stream gets there, as pinned memory is.
  int copy(void* to, const void* from, size_t bytes, void* h) {
    if (const int e = fault("copy")) return e;
    if (bytes == 0) return 0;
    const bool to_device = is_device(to), from_device = is_device(from);
    if (!cuda) {
      if (from_device) touch_host(from, bytes, access::read, "a copy");
      if (to_device) touch_host(to, bytes, access::write, "a copy");
      memcpy(to, from, bytes);
      return 0;
    }
    if (!h) check_device("copy");
    const stream_ref s = of(h, "copy");
    if (to_device) find(to, bytes, "a copy");
    if (from_device) find(from, bytes, "a copy");
    std::vector<unsigned char> staged;
    if (!from_device)
      staged.assign(static_cast<const unsigned char*>(from), static_cast<const unsigned char*>(from) + bytes);
    if (!to_device) {
      memset(to, 0x5a, bytes);
      ++host_copies_[the_world.me()];
    }
    const uint32_t caller = the_world.me();
    const uint64_t cancelled = cancelled_[caller];
    enqueue(s, [=, this, staged = std::move(staged)] {
      if (from_device) touch(from, bytes, access::read, s->actor, s->clock, "a copy");
      if (to_device) touch(to, bytes, access::write, s->actor, s->clock, "a copy");
      if (!to_device && cancelled != cancelled_[caller]) return true;
      memcpy(real(to), from_device ? real(from) : staged.data(), bytes);
      host_copies_[caller] -= !to_device;
      return true;
    });
    return 0;
  }
  int wait(void* h) {
    if (const int e = fault("wait")) return e;
    if (!cuda) return 0;
    if (!h) check_device("wait");
    drain(of(h, "wait"));
    return 0;
  }
  int make_event(void** out) {
    if (const int e = fault("make_event")) return e;
    events_.push_back(std::make_unique<event>());
    *out = events_.back().get();
    return 0;
  }
  event& event_of(void* e, const char* who) {
    for (const auto& known : events_)
      if (known.get() == e) {
        if (known->dropped) the_world.violation("%s is given an event that has been dropped", who);
        return *known;
      }
    the_world.violation("%s is given something that is no event", who);
  }
  void drop_event(void* e) { event_of(e, "drop_event").dropped = true; }
  int record(void* e, void* h) {
    if (const int bad = fault("record")) return bad;
    event& mine = event_of(e, "record");
    if (!cuda) return 0;
    if (!h) check_device("record");
    const stream_ref s = of(h, "record");
    auto t = mine.last = std::make_shared<token>();
    enqueue(s, [t, s] {
      t->clock = s->clock;
      t->done = true;
      ++s->clock.at[s->actor];
      return true;
    });
    return 0;
  }
  bool finished(void* e) {
    the_world.point();
    const event& mine = event_of(e, "finished");
    if (!mine.last) return true;
    if (mine.last->done) the_world.clock().join(mine.last->clock);
    return mine.last->done;
  }
  int follow(void* h, void* e) {
    if (const int bad = fault("follow")) return bad;
    if (!h) check_device("follow");
    const event& mine = event_of(e, "follow");
    const stream_ref s = of(h, "follow");
    if (mine.last) enqueue(s, nullptr, mine.last);
    return 0;
  }

  int stream_id(void* h, uint64_t* id) {
    if (const int bad = fault("stream_id")) return bad;
    *id = cuda ? 1000 + of(h, "stream_id")->id : 0;
    return 0;
  }
  // One that was returned, or else a new one.
  int borrow_stream(int device, void** h) {
    the_world.point();
    if (device != ordinal) the_world.violation("a stream of device %d is borrowed, not of the table's", device);
    for (size_t slot = 1; slot < handles_.size(); ++slot)
      if (handles_[slot] && handles_[slot]->idle) return handles_[slot]->idle = false, *h = handle(slot), 0;
    if (const int bad = fault("borrow_stream")) return bad;
    check_device("borrow_stream");
    *h = make_stream(false);
    return 0;
  }
  void return_stream(int device, void* h) {
    the_world.point();
    const stream_ref s = of(h, "return_stream");
    if (s->of_the_test || device != ordinal) the_world.violation("the table returns a stream that it did not borrow");
    s->idle = true;
  }

 private:
  static constexpr uintptr_t arena_real = 0x100000000000, arena_seen = 0x200000000000;
  static constexpr size_t arena_bytes = size_t(1) << 30;

  std::string name(uint32_t actor) const {
    if (actor < most_fibers) return "thread " + std::to_string(actor);
    for (const stream_ref& s : streams_)
      if (s->actor == actor) return "stream " + std::to_string(s->id) + (s->destroyed ? " (destroyed)" : "");
    return "?";
  }
  static void* handle(size_t slot) { return reinterpret_cast<void*>(slot * 16); }
  stream_ref new_stream() {
    if (actors_ == most_actors) the_world.violation("the test makes too many streams");
    auto s = std::make_shared<stream>();
    s->actor = actors_++;
    s->id = streams_.size();
    s->clock.at[s->actor] = 1;
    streams_.push_back(s);
    return s;
  }
  static bool runnable(const stream& s) {
    return !s.queue.empty() && (!s.queue.front().after || s.queue.front().after->done);
  }
  // A stream knows its device. The default stream is the current device's.
  void check_device(const char* call) {
    if (current() != ordinal)
      the_world.violation("%s is called while device %d is current, not the table's", call, current());
  }
  block& make_block(size_t bytes, owner whose) {
    static const bool mapped = [] {
      const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
      void* const a = mmap(reinterpret_cast<void*>(arena_real), arena_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
      void* const b = mmap(reinterpret_cast<void*>(arena_seen), arena_bytes, PROT_NONE, flags, -1, 0);
      if (a == MAP_FAILED || b == MAP_FAILED) {
        fprintf(stderr, "the arenas could not be mapped\n");
        exit(2);
      }
      return true;
    }();
    (void)mapped;
    const size_t at = (top_ + 255) / 256 * 256 + 256;  // never adjacent
    if (bytes > arena_bytes || at + bytes + 256 > arena_bytes)
      the_world.violation("%zu bytes are asked for, after %zu: more than any run needs", bytes, top_);
    top_ = at + bytes;
    blocks_.push_back({at, bytes, whose});
    return blocks_.back();
  }
  void* visible(const block& b) const {
    return reinterpret_cast<void*>((cuda && !b.pinned ? arena_seen : arena_real) + b.at);
  }
  static unsigned char* real(const block& b) { return reinterpret_cast<unsigned char*>(arena_real + b.at); }
  static size_t place_of(const void* p) {  // in the arena
    const uintptr_t a = reinterpret_cast<uintptr_t>(p);
    return a - (a >= arena_seen ? arena_seen : arena_real);
  }
  block& find(const void* p, size_t bytes, const char* who) {
    const size_t at = place_of(p);
    size_t low = 0, high = blocks_.size();  // the last block that begins at or before it
    while (high - low > 1) {
      const size_t middle = (low + high) / 2;
      (blocks_[middle].at <= at ? low : high) = middle;
    }
    const bool seen = is_device(p) || (!blocks_.empty() && blocks_[low].pinned);
    if (!seen || blocks_.empty() || at < blocks_[low].at || at - blocks_[low].at + bytes > blocks_[low].bytes)
      the_world.violation("%s is given memory that the device has not handed out (%p, %zu bytes)", who, p, bytes);
    if (bytes && at - blocks_[low].at + bytes > blocks_[low].mapped && !injected)
      the_world.violation("%s uses address space without memory (%zu bytes at %zu of %zu)", who, bytes,
                          at - blocks_[low].at, blocks_[low].mapped);
    if (blocks_[low].freed && !injected) the_world.violation("%s uses memory that is free", who);
    return blocks_[low];
  }

  size_t top_ = 0;
  std::vector<block> blocks_;
  std::vector<stream_ref> streams_;
  std::vector<stream_ref> handles_;
  std::vector<std::unique_ptr<event>> events_;
  std::vector<std::unique_ptr<graph>> graphs_;
  uint32_t actors_ = most_fibers;
  int current_[most_fibers] = {};
  uint32_t host_copies_[most_fibers] = {};
  uint64_t cancelled_[most_fibers] = {};
};

inline device the_device;
inline device& device::here() { return the_device; }

inline constexpr device_api fake_api = {
    .probe = [](int, char*, size_t) { return 0; },
    .enter = [](int ordinal, int* before) { return the_device.cuda ? the_device.enter(ordinal, before) : 0; },
    .leave =
        [](int before) {
          if (the_device.cuda) the_device.leave(before);
        },
    .allocate = [](void** p, size_t bytes,
                   void* s) { return the_device.allocate(p, bytes, s, device::owner::table, "allocate"); },
    .release = [](void* p, void* s) { return the_device.release(p, s, device::owner::table, "release"); },
    .fill = [](void* p, int byte, size_t bytes, void* s) { return the_device.fill(p, byte, bytes, s); },
    .copy = [](void* to, const void* from, size_t bytes, void* s) { return the_device.copy(to, from, bytes, s); },
    .wait = [](void* s) { return the_device.wait(s); },
    .count_adding = [](const uint8_t* ops, const uint8_t* there, size_t n, uint64_t* sum,
                       void* s) { return the_device.count_adding(ops, there, n, sum, s); },
    .pick_keys = [](const void* keys, const uint8_t* ops, size_t n, uint32_t key_bytes, void* to, size_t many,
                    void* s) { return the_device.pick_keys(keys, ops, n, key_bytes, to, many, s); },
    .sketch_keys = [](const void* keys, const uint8_t* ops, size_t n, uint32_t key_bytes, uint32_t* ranks,
                      void* s) { return the_device.sketch_keys(keys, ops, n, key_bytes, ranks, s); },
    .make_event = [](void** e) { return the_device.cuda ? the_device.make_event(e) : (*e = nullptr, 0); },
    .drop_event =
        [](void* e) {
          if (the_device.cuda) the_device.drop_event(e);
        },
    .record = [](void* e, void* s) { return the_device.cuda ? the_device.record(e, s) : 0; },
    .finished = [](void* e) { return !the_device.cuda || the_device.finished(e); },
    .follow = [](void* s, void* e) { return the_device.cuda ? the_device.follow(s, e) : 0; },
    .error_text = [](int e) { return e == error_no_memory ? "out of memory" : "an injected fault"; },
    .has_wide_cas = [](int) { return true; },
    .out_of_memory = error_no_memory,
    .stream_id = [](void* s, uint64_t* id) { return the_device.stream_id(s, id); },
    .borrow_stream = [](int ordinal, void** s) { return the_device.borrow_stream(ordinal, s); },
    .return_stream = [](int ordinal, void* s) { the_device.return_stream(ordinal, s); },
    .captured_by = [](void* s, void** graph,
                      const char** forbids) { return the_device.captured_by(s, graph, forbids); },
    .keep_while = [](void* graph, void (*gone)(void*), void* note) { return the_device.keep_while(graph, gone, note); },
    .follow_in_graph = [](void* s, void* e) { return the_device.follow_in_graph(s, e); },
    .allocate_pinned = [](void** p, size_t bytes) { return the_device.allocate_pinned(p, bytes); },
    .release_pinned = [](void* p) { return the_device.release_pinned(p); },
    .reserve_space = [](void** p, size_t* bytes, size_t* unit) { return the_device.reserve_space(p, bytes, unit); },
    .release_space = [](void* p, size_t bytes) { return the_device.release_space(p, bytes); },
    .map_memory = [](void* p, size_t bytes) { return the_device.map_memory(p, bytes); },
    .unmap_memory = [](void* p, size_t bytes) { return the_device.unmap_memory(p, bytes); },
};

}  // namespace gpuhash::kit_sim
