// The check, the statistics and the histogram of a stadium, with the tests of its invariants (layout.hpp).
#pragma once
#include <string.h>

#include "engines.hpp"
#include "layout.hpp"
#include "libgpuhash/kit/inspector.hpp"
#include "pair.hpp"

namespace gpuhash {

inline u64 hash_of_slot(const stadium_table& t, const unsigned char* slot) {
  if (t.by_rows || stadium_engine(t.key_bytes, t.value_bytes) == stadium_wide)
    return wide_pair::hash_of(t, reinterpret_cast<const u32*>(slot));
  if (t.key_bytes == 8) return small_pair<u64, 0>::hash_of(t, *reinterpret_cast<const u64*>(slot));
  return small_pair<u32, 0>::hash_of(t, *reinterpret_cast<const u32*>(slot));
}

class stadium_inspector final : public inspector {
 public:
  // pinned: the slots are in host memory already.
  stadium_inspector(table_context& c, const stadium_table& t, bool pinned)
      : inspector(c, t.groups * sizeof(u64) + (pinned ? 0 : t.cells() * t.stride)), layout_(t), pinned_(pinned) {}

  gpuhash_status check(uint64_t* n_live, uint64_t* n_used, gpuhash_error* err) override {
    const stadium_table& t = layout_;
    for (u64 group = 0; group < t.groups; ++group)
      for (u32 i = 0; i < 1u << t.log_tickets; ++i) {
        if (const char* what = broken(group, i))
          return host->fail(err, GPUHASH_CORRUPT, "slot %llu breaks an invariant: %s",
                            (unsigned long long)((group << t.log_tickets) + i), what);
        *n_live += t.state_at(t.tickets[group], i) == live;
        *n_used += t.state_at(t.tickets[group], i) != never;
      }
    return GPUHASH_OK;
  }
  const char* unit() const override { return "tickets"; }
  gpuhash_status figures(std::vector<gpuhash_stat>& out, gpuhash_error*) override {
    uint64_t sum = 0;
    uint64_t most = 0;
    uint64_t n = 0;
    each_distance([&](uint64_t d) {
      sum += d;
      most = d > most ? d : most;
      ++n;
    });
    out.push_back({"probe_mean", n ? double(sum) / double(n) : 0.0});
    out.push_back({"probe_max", double(most)});
    out.push_back({"probe_limit", double(layout_.path_limit)});
    out.push_back({"line_groups", double(1u << layout_.log_line)});
    out.push_back({"ticket_bits", double(1u << layout_.log_bits)});
    out.push_back({"ticket_bytes", double(layout_.groups * sizeof(u64))});
    out.push_back({"groups", double(layout_.groups)});
    return GPUHASH_OK;
  }
  void distances(size_t n, uint64_t* counts) override {
    each_distance([&](uint64_t d) { ++counts[d < n ? d : n - 1]; });
  }

 private:
  void copy_blocks() override {
    copy(layout_.tickets, layout_.groups);
    if (pinned_) return;
    unsigned char* slots = layout_.slots;
    copy(slots, layout_.cells() * layout_.stride);
    layout_.place_slots(slots);
  }

  // What is wrong with slot i of a group, or NULL.
  const char* broken(u64 group, u32 i) const {
    const stadium_table& t = layout_;
    const u32 state = t.state_at(t.tickets[group], i);
    const u64 ticket = (u64(1) << (1u << t.log_bits)) - 1;
    const u64 mine = t.tickets[group] >> t.shift_of(i) & ticket;
    if (state == never) return mine ? "a ticket that was never booked has info bits (I1)" : nullptr;
    if (state == dead && mine == dead) return nullptr;  // its insert may have been killed (table_file.hpp)
    if (state == busy) return "a ticket is booked, but no insert is writing its pair (I1)";
    const unsigned char* const slot = t.slot(group, i);
    const u64 h = hash_of_slot(t, slot);
    if ((t.live_ticket(h) & ticket) >> state_bits != mine >> state_bits)
      return "a ticket's info bits are not its key's (I1)";
    u64 at = t.home(h);
    for (u64 left = t.path_limit;;) {
      if (left == 0) return "a key lies beyond its path (I4)";
      if (state == live)
        for (u32 o = 0; o < 1u << t.log_tickets; ++o)
          if (t.state_at(t.tickets[at], o) == live && !(at == group && o == i) &&
              !memcmp(t.slot(at, o), slot, t.key_bytes))
            return "a key has two live slots (I3)";
      if (at == group) return nullptr;
      if (t.equal(t.tickets[at], 0)) return "a group before a key's own has a ticket that was never booked (I2)";
      at = t.after(at, t.stride_of(h), --left);
    }
  }

  template <class Each>
  void each_distance(Each each) const {  // in groups
    const stadium_table& t = layout_;
    for (u64 group = 0; group < t.groups; ++group)
      for (u32 i = 0; i < 1u << t.log_tickets; ++i) {
        if (t.state_at(t.tickets[group], i) != live) continue;
        const u64 h = hash_of_slot(t, t.slot(group, i));
        u64 left = t.groups;
        for (u64 at = t.home(h); at != group && left;) at = t.after(at, t.stride_of(h), --left);
        each(t.groups - left);
      }
  }

  stadium_table layout_;
  const bool pinned_;
};

}  // namespace gpuhash
