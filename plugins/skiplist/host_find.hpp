// skiplist on the CPU: finds and counts, 64 at a time.
//
// They go down to level 0 together (host_walk.hpp), where a row may be stale. From there on each is an operation of ops.hpp,
// which says what a hit and a miss are beside writers: it starts in a chunk at or left of its key's, as the explored
// search does that has come down by itself.
#pragma once
#include "host_walk.hpp"
#include "libgpuhash/drive/host.hpp"
#include "ops.hpp"

GH_BEGIN

template <class F, u32 R, u32 Kind>
class host_finds {
  using table = skip_table<F>;
  using key = typename F::key;
  using op_type = skip_op<host_tile<F, int(R)>, Kind>;
  using pass = host_pass<op_type>;
  using group = walk_group<F, R>;

 public:
  host_finds(const table& t, const request& q) : t_(t), q_(q) {}

  void serve(totals* sum) const {
    in_pieces(q_.threads, q_.n_there ? *q_.n_there : q_.n, batch_cut, [&](size_t begin, size_t end) {
      group g(t_);
      pass p{t_, q_};
      for (size_t b = begin; b < end; b += group::most)
        serve(g, p, b, u32(end - b < group::most ? end - b : group::most));
      add_totals(sum, p.sum);
    });
  }

 private:
  void serve(group& g, pass& p, size_t b, u32 many) const {
    key asked[group::most];
    for (u32 j = 0; j < many; ++j) asked[j] = read_key<F>(q_, b + j);
    asm volatile("" : : "r"(asked) : "memory");  // W1
    u32 n = 0;
    for (u32 j = 0; j < many; ++j) {
      const key k = t_.encode(asked[j]);
      if (__builtin_expect(is_side_key(k), 0)) {
        p.deposit(b + j, serve_side<F, host_mem>(t_.side, Kind, joiner_of(q_), k, 0));
        continue;
      }
      g.sought[n] = k;
      g.of[n++] = j;
    }
    if (n) g.descend(n);
    for (u32 i = 0; i < n; ++i) {
      op_type op;
      op.start_at(Kind, g.sought[i], 0, g.at[i]);
      while (!p.visit(op)) {
      }
      p.deposit(b + g.of[i], op.res);
    }
  }

  const table& t_;
  const request q_;
};

GH_END
