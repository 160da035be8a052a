// The index of <gpuhash/columns.h> against std::map, with memory that runs out, and with structs that are wrong:
//
//     index_test [ROUNDS]        prints what did not hold
//
// Compiled with blocks, groups, pieces and slices of few rows. Cells are read here once more, by a reader that knows
// nothing of the library's; buffers are as long as they have to be, so that AddressSanitizer watches their ends.
#include "index_columns.hpp"

namespace {

// ---- against a map ---------------------------------------------------------------------------------------------------

gpuhash_error err = GPUHASH_ERROR_INIT;

struct index_and_map {
  gpuhash_index* index = nullptr;
  gpuhash_index_config config = GPUHASH_INDEX_CONFIG_INIT;
  bool fields;
  std::map<string, int64_t> numbers;
  vector<string> keys;
  vector<int64_t> counts;

  index_and_map(const column& c, uint32_t threads, uint32_t nulls, uint64_t expected = 0) {
    fields = c.schema.n_children > 0;
    config.threads = threads, config.nulls = nulls, config.counts = 1, config.seed = 5, config.expected = expected;
    EXPECT(gpuhash_index_create(&c.schema, &config, &index, &err) == GPUHASH_OK);
  }
  ~index_and_map() { gpuhash_index_destroy(index); }

  vector<int64_t> expected(const column& c, bool add) {
    vector<int64_t> ids;
    for (int64_t i = 0; i < c.array.length; ++i) {
      const string k = cell(c.schema, c.array, i);
      int64_t id = -1;
      if (config.nulls == GPUHASH_NULLS_GROUP || !has_null(k)) {
        const auto known = numbers.find(k);
        if (known != numbers.end()) {
          id = known->second;
        } else if (add) {
          id = numbers[k] = int64_t(keys.size());
          keys.push_back(k), counts.push_back(0);
        }
        if (add) ++counts[size_t(id)];
      }
      ids.push_back(id);
    }
    return ids;
  }
  void add(const column& c, bool with_ids = true) {
    vector<int64_t> ids(size_t(c.array.length), -9);
    EXPECT(gpuhash_index_add(index, &c.schema, &c.array, with_ids ? ids.data() : nullptr, &err) == GPUHASH_OK);
    const vector<int64_t> mine = expected(c, true);
    EXPECT(!with_ids || ids == mine);
  }
  void find(const column& c) {
    vector<int64_t> ids(size_t(c.array.length), -9);
    EXPECT(gpuhash_index_find(index, &c.schema, &c.array, ids.data(), &err) == GPUHASH_OK);
    const vector<int64_t> mine = expected(c, false);
    EXPECT(ids == mine);
    vector<uint8_t> mask(size_t(c.array.length), 9);
    EXPECT(gpuhash_index_contains(index, &c.schema, &c.array, mask.data(), &err) == GPUHASH_OK);
    EXPECT(
        std::equal(mask.begin(), mask.end(), mine.begin(), [](uint8_t has, int64_t id) { return has == (id >= 0); }));
  }
  void look() {
    gpuhash_index_info info{sizeof(info), 0, 0, 0};
    EXPECT(gpuhash_index_get_info(index, &info, &err) == GPUHASH_OK);
    EXPECT(info.size == keys.size());
    const auto null = numbers.find("null");
    EXPECT(info.null == (null == numbers.end() || fields ? -1 : null->second));
    const uint64_t n = std::min<uint64_t>(info.size, keys.size());
    vector<int64_t> times(size_t(n), -9);
    EXPECT(gpuhash_index_counts(index, 0, n, times.data(), &err) == GPUHASH_OK);
    EXPECT(times == vector<int64_t>(counts.begin(), counts.begin() + int64_t(n)));
    for (const uint64_t first : {uint64_t{0}, n / 3}) {
      ArrowSchema schema{};
      ArrowArray array{};
      EXPECT(gpuhash_index_keys(index, first, n - first, &schema, &array, &err) == GPUHASH_OK);
      EXPECT(array.length == int64_t(n - first));
      int64_t nulls = 0;
      for (uint64_t i = first; i < n; ++i) {
        const string k = cell(schema, array, int64_t(i - first));
        EXPECT(k == keys[i]);
        nulls += k == "null";
      }
      EXPECT(array.null_count == nulls);
      schema.release(&schema);
      array.release(&array);
      EXPECT(schema.release == nullptr && array.release == nullptr);
    }
    take(n);
  }
  // Keys by ids that are drawn among the first n.
  void take(uint64_t n) {
    vector<int64_t> ids(size_t(n ? draw(40) : 0));
    for (int64_t& id : ids) id = int64_t(draw(n));
    ArrowSchema schema{};
    ArrowArray array{};
    EXPECT(gpuhash_index_take(index, ids.size(), ids.data(), &schema, &array, &err) == GPUHASH_OK);
    EXPECT(array.length == int64_t(ids.size()));
    for (size_t i = 0; i < ids.size(); ++i) EXPECT(cell(schema, array, int64_t(i)) == keys[size_t(ids[i])]);
    schema.release(&schema), array.release(&array);
    for (const int64_t beyond : {int64_t(n), int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
      ids.push_back(beyond);
      EXPECT(gpuhash_index_take(index, ids.size(), ids.data(), &schema, &array, &err) == GPUHASH_INVALID_ARGUMENT);
      EXPECT(std::strstr(err.message, ("ids[" + std::to_string(ids.size() - 1) + "] is").c_str()));
      ids.pop_back();
    }
  }
  // The first keys of another index, as often as they were added there.
  vector<int64_t> expected(const index_and_map& from, size_t first, size_t count) {
    vector<int64_t> ids;
    for (size_t i = first; i < first + count; ++i) {
      const string k = from.keys[i];
      const int64_t times = from.counts[i];
      int64_t id = -1;
      if (config.nulls == GPUHASH_NULLS_GROUP || !has_null(k)) {
        const auto known = numbers.find(k);
        id = known == numbers.end() ? int64_t(keys.size()) : known->second;
        if (known == numbers.end()) numbers[k] = id, keys.push_back(k), counts.push_back(0);
        counts[size_t(id)] += times;
      }
      ids.push_back(id);
    }
    return ids;
  }
  void merge(const index_and_map& from, bool with_ids = true) {
    const size_t first = from.keys.empty() ? 0 : size_t(draw(3)) % from.keys.size(), count = from.keys.size() - first;
    vector<int64_t> ids(count, -9);
    EXPECT(gpuhash_index_merge(index, from.index, first, count, with_ids ? ids.data() : nullptr, &err) == GPUHASH_OK);
    const vector<int64_t> mine = expected(from, first, count);
    EXPECT(!with_ids || ids == mine);
  }
};

using kind = std::pair<const char*, maker>;
vector<kind> kinds(bool nulls) {
  const maker wide = [=](int64_t n) { return cells("i", 4, n, nulls, 20); };
  const maker words = [=](int64_t n) { return text<int32_t>("u", n, nulls); };
  const maker decimals = [=](int64_t n) {
    auto c = start("d:9,2", n, nulls);  // of 16 bytes
    const int64_t all = n + c->array.offset;
    auto* const p = reinterpret_cast<int64_t*>(c->room(16 * size_t(all)));
    for (int64_t i = 0; i < all; ++i) p[2 * i] = int64_t(draw(9)), p[2 * i + 1] = 0;
    return finish(std::move(c));
  };
  const maker inner = [=](int64_t n) { return rows_of(n, nulls, {wide, words}); };
  return {{"text", words},
          {"text of 64 bits", [=](int64_t n) { return text<int64_t>("U", n, nulls); }},
          {"views", [=](int64_t n) { return views(n, nulls); }},
          {"w:5", [=](int64_t n) { return cells("w:5", 5, n, nulls, 90); }},
          {"w:20", [=](int64_t n) { return cells("w:20", 20, n, nulls, 90); }},
          {"uint16", [=](int64_t n) { return cells("S", 2, n, nulls); }},
          {"int64", [=](int64_t n) { return cells("l", 8, n, nulls, 1 << 20); }},
          {"bits", [=](int64_t n) { return bits(n, nulls); }},
          {"struct", [=](int64_t n) { return rows_of(n, nulls, {wide, words}); }},
          {"small struct", [=](int64_t n) { return rows_of(n, nulls, {wide}); }},
          {"nested struct",
           [=](int64_t n) { return rows_of(n, nulls, {inner, [=](int64_t m) { return bits(m, nulls); }, words}); }},
          {"struct without fields", [=](int64_t n) { return rows_of(n, nulls, {}); }},
          {"dictionary", [=](int64_t n) { return numbers_of("c", 1, n, nulls, words); }},
          {"dictionary of numbers", [=](int64_t n) { return numbers_of("S", 2, n, nulls, wide); }},
          {"struct with a dictionary",
           [=](int64_t n) {
             return rows_of(n, nulls, {[=](int64_t m) { return numbers_of("i", 4, m, nulls, words); }, wide});
           }},
          {"struct of integers",
           [=](int64_t n) {
             vector<maker> fields;
             for (const auto& [format, width] :
                  {std::pair{"c", 1}, {"C", 1}, {"s", 2}, {"S", 2}, {"i", 4}, {"I", 4}, {"l", 8}, {"L", 8}})
               fields.push_back([=, f = format, w = size_t(width)](int64_t m) { return integers(f, w, m, nulls); });
             return rows_of(n, false, fields);
           }},
          {"struct of floats and times",
           [=](int64_t n) {
             vector<maker> fields;
             for (const auto& [format, width] :
                  {std::pair{"e", 2}, {"f", 4}, {"g", 8}, {"tdD", 4}, {"tsu:", 8}, {"tDn", 8}})
               fields.push_back([=, f = format, w = size_t(width)](int64_t m) { return cells(f, w, m, nulls, 3); });
             return rows_of(n, nulls, fields);
           }},
          {"struct of two integers", [=](int64_t n) { return rows_of(n, false, {wide, wide}); }},
          {"struct of texts",
           [=](int64_t n) {
             const maker long_offsets = [=](int64_t m) { return text<int64_t>("U", m, nulls); };
             return rows_of(n, false, {words, [=](int64_t m) { return views(m, nulls); }, wide, long_offsets});
           }},
          {"struct of few texts",
           [=](int64_t n) {
             const maker short_words = [=](int64_t m) {
               vector<string> some;
               for (int64_t i = 0; i < m; ++i) some.push_back(string(draw(2) * 15, 'a') + string(draw(3), 'b'));
               return these(some);
             };
             return rows_of(n, nulls, {short_words, short_words});
           }},
          {"decimals", decimals},
          {"dictionary of decimals", [=](int64_t n) { return numbers_of("C", 1, n, nulls, decimals); }}};
}

void against_a_map() {
  for (const bool nulls : {false, true})
    for (const kind& k : kinds(nulls))
      for (const uint32_t threads : {1u, 2u, 3u})
        for (const uint32_t how : {GPUHASH_NULLS_GROUP, GPUHASH_NULLS_DROP}) {
          now = string(k.first) + (nulls ? " with nulls, " : ", ") + std::to_string(threads) + " threads, nulls " +
                std::to_string(how);
          index_and_map both(*k.second(0), threads, how, draw(2) ? 0 : 100);
          both.look();
          for (const int64_t n : {0, 1, 7, 64, 3, 150}) {
            const auto c = k.second(n);
            both.find(*c);
            both.add(*c, draw(4) != 0);
            both.find(*c);
          }
          both.look();
        }
}

// Many keys, so that everything grows several times.
void many_keys() {
  for (const uint32_t threads : {1u, 3u}) {
    now = "many keys";
    const auto c = cells("l", 8, 3000, false, 1 << 30);
    index_and_map both(*c, threads, 0);
    both.add(*c);
    both.add(*cells("l", 8, 500, false, 1 << 30));
    both.find(*c);
    both.look();
  }
}

// ---- merging ---------------------------------------------------------------------------------------------------------

void merges() {
  for (const kind& k : kinds(true))
    for (const uint32_t threads : {1u, 3u})
      for (const uint32_t how : {GPUHASH_NULLS_GROUP, GPUHASH_NULLS_DROP}) {
        now = string("merge of ") + k.first + ", " + std::to_string(threads) + " threads, nulls " + std::to_string(how);
        const auto a = k.second(60), b = k.second(90);
        index_and_map one(*a, threads, how), other(*b, 4 - threads, GPUHASH_NULLS_GROUP);
        one.merge(other);
        one.add(*a);
        other.add(*b);
        one.merge(other, draw(4) != 0);
        one.look();
        one.find(*b);
        other.merge(one);
        other.look();
        one.merge(one);
        one.look();
      }
}

void merges_of_indexes_that_do_not_count() {
  now = "merges of indexes that do not count";
  const auto c = cells("l", 8, 40, false, 9);
  index_and_map counting(*c, 2, 0);
  counting.add(*c);
  gpuhash_index_config config = GPUHASH_INDEX_CONFIG_INIT;
  gpuhash_index *plain = nullptr, *other = nullptr;
  EXPECT(gpuhash_index_create(&c->schema, &config, &plain, &err) == GPUHASH_OK);
  EXPECT(gpuhash_index_create(&c->schema, &config, &other, &err) == GPUHASH_OK);
  vector<int64_t> ids(counting.keys.size(), -9);
  EXPECT(gpuhash_index_merge(plain, counting.index, 0, ids.size(), ids.data(), &err) == GPUHASH_OK);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT(ids[i] == int64_t(i));
  EXPECT(gpuhash_index_merge(other, plain, 0, ids.size(), nullptr, &err) == GPUHASH_OK);
  EXPECT(gpuhash_index_merge(counting.index, plain, 0, ids.size(), nullptr, &err) == GPUHASH_UNSUPPORTED);
  EXPECT(std::strstr(err.message, "create both with config.counts = 1"));
  counting.look();
  gpuhash_index_destroy(plain), gpuhash_index_destroy(other);
}

void merges_that_are_refused() {
  now = "a merge of another type";
  const auto narrow = cells("S", 2, 40, false, 9), numbers = cells("l", 8, 40, false, 9);
  index_and_map own(*narrow, 2, 0), wide(*numbers, 1, 0), words(*text<int32_t>("u", 5, false), 1, 0);
  const auto refuse = [&](const index_and_map& from, uint64_t first, uint64_t count, const char* said) {
    EXPECT(gpuhash_index_merge(own.index, from.index, first, count, nullptr, &err) == GPUHASH_INVALID_ARGUMENT);
    EXPECT(std::strstr(err.message, said));
    own.look();
  };
  refuse(words, 0, 0, "text here and uint16 there");
  wide.add(*numbers);
  own.merge(wide);
  refuse(wide, 1, wide.keys.size(), "are asked for, and the index has");
  for (int64_t i = 0; i < 40; ++i) narrow->at<uint16_t>(1)[narrow->array.offset + i] = uint16_t(100 + i);
  wide.add(*narrow);
  numbers->at<int64_t>(1)[numbers->array.offset] = 65536;  // beyond the first piece
  wide.add(*numbers);
  refuse(wide, 0, wide.keys.size(), ("row " + std::to_string(wide.numbers["65536"]) + " is nothing").c_str());

  now = "a merge of nulls";
  auto some = cells("S", 2, 60, false, 2000);
  some->array.null_count = -1;
  some->at<uint8_t>(0)[(some->array.offset + 59) / 8] &= uint8_t(~(1 << (some->array.offset + 59) % 8));
  index_and_map with(*some, 1, 0), without(*some, 1, GPUHASH_NULLS_REFUSE);
  with.add(*some);
  EXPECT(gpuhash_index_merge(without.index, with.index, 0, with.keys.size(), nullptr, &err) ==
         GPUHASH_INVALID_ARGUMENT);
  EXPECT(std::strstr(err.message, ("row " + std::to_string(with.numbers["null"]) + " is null").c_str()));
  without.look();
}

// Threads merge two indexes into each other, and add to both.
void merges_crosswise() {
  now = "crosswise merges";
  const auto a = text<int32_t>("u", 200, true), b = text<int32_t>("u", 200, true);
  gpuhash_index* both[2] = {};
  for (gpuhash_index*& index : both) EXPECT(gpuhash_index_create(&a->schema, nullptr, &index, &err) == GPUHASH_OK);
  std::atomic<int> bad{0};
  vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      gpuhash_error e = GPUHASH_ERROR_INIT;
      const column& mine = t % 2 ? *a : *b;
      for (int i = 0; i < 4; ++i) {
        if (gpuhash_index_add(both[t % 2], &mine.schema, &mine.array, nullptr, &e)) ++bad;
        gpuhash_index_info info{sizeof(info), 0, 0, 0};
        if (gpuhash_index_get_info(both[t % 2], &info, &e)) ++bad;
        if (gpuhash_index_merge(both[1 - t % 2], both[t % 2], 0, info.size, nullptr, &e)) ++bad;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT(bad == 0);
  for (gpuhash_index* index : both) {
    vector<int64_t> ids(200, -9);
    for (const column* c : {a.get(), b.get()}) {
      EXPECT(gpuhash_index_find(index, &c->schema, &c->array, ids.data(), &err) == GPUHASH_OK);
      EXPECT(*std::min_element(ids.begin(), ids.end()) >= 0);
    }
  }
  for (gpuhash_index* index : both) gpuhash_index_destroy(index);
}

// ---- memory that runs out --------------------------------------------------------------------------------------------

// A merge for which memory ran out: keys whose id is -2 were not added, all others were.
void merges_without_memory() {
  for (const kind& k : kinds(true))
    for (const uint32_t threads : {1u, 3u}) {
      now = string("merge without memory: ") + k.first + ", " + std::to_string(threads) + " threads";
      bool out = true;
      for (long after = 0; out; after += 1 + after / 4) {
        const auto a = k.second(30), b = k.second(60);
        index_and_map one(*a, threads, 0), other(*b, 1, 0);
        one.add(*a);
        other.add(*b);
        vector<int64_t> ids(other.keys.size(), -9);
        gpuhash_error e = GPUHASH_ERROR_INIT;
        allocations_left = after;
        const gpuhash_status s = gpuhash_index_merge(one.index, other.index, 0, ids.size(), ids.data(), &e);
        allocations_left = -1;
        out = s == GPUHASH_NO_MEMORY;
        EXPECT(s == GPUHASH_OK || (out && e.message[0]));
        for (size_t i = 0; i < ids.size(); ++i) {
          if (ids[i] == -2)
            EXPECT(out);
          else
            EXPECT(one.expected(other, i, 1)[0] == ids[i]);
        }
        one.look();
        one.merge(other);
        one.look();
      }
    }
}

// The ids of an add in which memory ran out after so many allocations. False: it did not.
bool ran_out(index_and_map& both, const column& c, long after) {
  vector<int64_t> ids(size_t(c.array.length), -9);
  gpuhash_error e = GPUHASH_ERROR_INIT;
  allocations_left = after;
  const gpuhash_status s = gpuhash_index_add(both.index, &c.schema, &c.array, ids.data(), &e);
  allocations_left = -1;
  EXPECT(s == GPUHASH_OK || (s == GPUHASH_NO_MEMORY && e.message[0]));
  for (size_t i = 0; i < ids.size(); ++i) {  // the rows that were added number their keys as they appear
    if (ids[i] == -2) {
      EXPECT(s == GPUHASH_NO_MEMORY);
      continue;
    }
    const string k = cell(c.schema, c.array, int64_t(i));
    if (both.config.nulls == GPUHASH_NULLS_DROP && has_null(k)) {
      EXPECT(ids[i] == -1);
      continue;
    }
    const auto known = both.numbers.find(k);
    const int64_t next = int64_t(both.keys.size());
    EXPECT(ids[i] == (known == both.numbers.end() ? next : known->second));
    if (known == both.numbers.end()) both.numbers[k] = next, both.keys.push_back(k), both.counts.push_back(0);
    ++both.counts[size_t(both.numbers[k])];
  }
  return s == GPUHASH_NO_MEMORY;
}

// Status of a call with memory for so many allocations.
template <class Call>
gpuhash_status short_of_memory(long after, Call call) {
  allocations_left = after;
  const gpuhash_status s = call();
  allocations_left = -1;
  EXPECT(s == GPUHASH_OK || s == GPUHASH_NO_MEMORY);
  return s;
}

void memory_runs_out() {
  for (const kind& k : kinds(true))
    for (const uint32_t threads : {1u, 3u})
      for (const uint32_t how : {GPUHASH_NULLS_GROUP, GPUHASH_NULLS_DROP}) {
        now = string("without memory: ") + k.first + ", " + std::to_string(threads) + " threads";
        bool out = true;
        for (long after = 0; out; after += 1 + after / 8) {
          const auto before = k.second(40), c = k.second(150);
          index_and_map both(*before, threads, how);
          both.add(*before);
          out = ran_out(both, *c, after);
          both.look();
          both.add(*c);
          both.find(*before);
          both.look();
        }
        const auto c = k.second(60);
        index_and_map both(*c, threads, how);
        for (long after = 0;; ++after) {
          gpuhash_index* index = nullptr;
          const gpuhash_status s =
              short_of_memory(after, [&] { return gpuhash_index_create(&c->schema, &both.config, &index, &err); });
          EXPECT((s == GPUHASH_OK) == (index != nullptr));
          gpuhash_index_destroy(index);
          if (s == GPUHASH_OK) break;
        }
        both.add(*c);
        vector<int64_t> ids(60, -9);
        for (long after = 0;; ++after)
          if (!short_of_memory(after,
                               [&] { return gpuhash_index_find(both.index, &c->schema, &c->array, ids.data(), &err); }))
            break;
        EXPECT(ids == both.expected(*c, false));
        for (long after = 0;; ++after) {
          ArrowSchema schema{};
          ArrowArray array{};
          const gpuhash_status s = short_of_memory(
              after, [&] { return gpuhash_index_keys(both.index, 0, both.keys.size(), &schema, &array, &err); });
          EXPECT((s == GPUHASH_OK) == (schema.release != nullptr) && (s == GPUHASH_OK) == (array.release != nullptr));
          if (schema.release) schema.release(&schema);
          if (array.release) array.release(&array);
          if (s == GPUHASH_OK) break;
        }
        both.look();
      }
}

// ---- structs that are wrong ------------------------------------------------------------------------------------------

// All three calls refuse them with a sentence that says so, and the index is what it was.
void refused(column& c, const char* said) {
  now = said;
  const auto good = c.format == "vu" ? views(3, false) : nullptr;
  gpuhash_index* index = nullptr;
  ArrowSchema schema = c.schema;
  schema.release = keep;
  if (gpuhash_index_create(&schema, nullptr, &index, &err) != GPUHASH_OK) {
    EXPECT(std::strstr(err.message, said));
    return;
  }
  vector<int64_t> ids(64, -9);
  vector<uint8_t> mask(64, 9);
  for (const char* const call : {"add", "find", "contains"}) {
    const gpuhash_status s = *call == 'a'   ? gpuhash_index_add(index, &c.schema, &c.array, ids.data(), &err)
                             : *call == 'f' ? gpuhash_index_find(index, &c.schema, &c.array, ids.data(), &err)
                                            : gpuhash_index_contains(index, &c.schema, &c.array, mask.data(), &err);
    EXPECT(s == GPUHASH_INVALID_ARGUMENT);
    EXPECT(s != GPUHASH_OK && std::strstr(err.message, said));
    if (s != GPUHASH_OK && !std::strstr(err.message, said)) std::printf("    %s\n", err.message);
  }
  gpuhash_index_info info{sizeof(info), 0, 0, 0};
  EXPECT(gpuhash_index_get_info(index, &info, &err) == GPUHASH_OK && info.size == 0);
  gpuhash_index_destroy(index);
}

template <class Offset>
void wrong_offsets(const char* format) {
  const char* const back = "has offsets that go back";
  const auto with = [&](int64_t row, Offset offset) {
    auto c = text<Offset>(format, 9, false);
    c->template at<Offset>(1)[c->array.offset + row] = offset;
    refused(*c, back);
  };
  const Offset least = std::numeric_limits<Offset>::min(), most = std::numeric_limits<Offset>::max();
  for (const int64_t row : {0, 4, 9}) with(row, -1), with(row, least), with(row, Offset(least + 3));
  with(0, most), with(4, most), with(9, 0);
  if (sizeof(Offset) == 8) {
    with(9, most), with(9, Offset((uint64_t(1) << 48) + 1));
    auto c = text<Offset>(format, 9, false);
    auto* const p = c->template at<Offset>(1) + c->array.offset;
    p[9] = Offset(uint64_t(p[8]) + UINT32_MAX);
    refused(*c, "has an element of 4 GiB or more");
  }
  auto c = text<Offset>(format, 9, false);
  c->buffers[1] = nullptr;
  refused(*c, "has no buffer of offsets");
  c = text<Offset>(format, 9, false);
  c->template at<Offset>(1)[c->array.offset + 9] += 1;  // it is not empty
  c->buffers[2] = nullptr;
  refused(*c, "has no buffer of bytes");
}

void wrong_views() {
  const auto with = [](auto change, const char* said) {
    auto c = views(9, false);
    view& v = c->at<view>(1)[c->array.offset + 8];
    v.length = 13, v.heap = 1, v.offset = 0;
    if (c->at<int64_t>(4)[1] < 13) return;
    change(*c, v);
    refused(*c, said);
  };
  for (int i = 0; i < 8; ++i) {
    const char* const beyond = "has a view that points beyond its buffers";
    with([](column&, view& v) { v.length = -1; }, beyond);
    with([](column&, view& v) { v.length = INT32_MIN; }, beyond);
    with([](column&, view& v) { v.heap = -1; }, beyond);
    with([](column&, view& v) { v.heap = 2; }, beyond);
    with([](column&, view& v) { v.offset = -1; }, beyond);
    with([](column&, view& v) { v.offset = INT32_MAX; }, beyond);
    with([](column& c, view& v) { v.offset = int32_t(c.at<int64_t>(4)[1]) - 12; }, beyond);
    with([](column& c, view&) { c.buffers[3] = nullptr; }, beyond);
    with([](column& c, view&) { c.buffers[4] = nullptr; }, "has no sizes of its buffers");
    with([](column& c, view&) { c.buffers[1] = nullptr; }, "has no buffer of views");
    with([](column& c, view&) { c.array.n_buffers = 2; }, "has too few buffers");
  }
}

void wrong_structs() {
  for (const kind& k : kinds(false)) {
    const auto with = [&](auto change, const char* said) {
      auto c = k.second(9);
      change(*c);
      refused(*c, said);
    };
    const char* const range = "has a length or an offset out of range";
    with([](column& c) { c.array.release = nullptr; }, "is NULL or was released");
    with([](column& c) { c.schema.release = nullptr; }, "the ArrowSchema is NULL or has no format");
    with([](column& c) { c.schema.format = nullptr; }, "the ArrowSchema is NULL or has no format");
    with([](column& c) { c.array.length = -1; }, range);
    with([](column& c) { c.array.length = (int64_t(1) << 48) + 1; }, range);
    with([](column& c) { c.array.offset = -1; }, range);
    with([](column& c) { c.array.offset = (int64_t(1) << 48) + 1; }, range);
    with([](column& c) { c.array.null_count = 10; }, "has a count of nulls out of range");
    with([](column& c) { c.array.null_count = -2; }, "has a count of nulls out of range");
    with([](column& c) { c.array.n_buffers -= c.format == "vu" ? 3 : 1; }, "has too few buffers");
    with([](column& c) { c.array.buffers = nullptr; }, "has too few buffers");
    with([](column& c) { c.array.null_count = 1, c.buffers[0] = nullptr; }, "has nulls and no bitmap that says which");
    if (k.second(0)->buffers.size() == 2) with([](column& c) { c.buffers[1] = nullptr; }, "has no buffer of cells");
    if (k.second(0)->dictionary) {
      with([](column& c) { c.array.dictionary = nullptr; }, "has no dictionary");
      with([](column& c) { c.dictionary->array.release = nullptr; }, "is NULL or was released");
      with([](column& c) { c.dictionary->schema.release = nullptr; }, "has an empty dictionary");
      with([](column& c) { c.dictionary->array.null_count = 1, c.dictionary->buffers[0] = nullptr; },
           "has a dictionary with nulls and no bitmap that says which");
      with([](column& c) { c.dictionary->array.n_buffers = 1; }, "has too few buffers");
      with([](column& c) { c.dictionary->array.length = 0; }, "has an index beyond its dictionary");
      const auto index = [](column& c, int value) {  // of the last row
        const size_t width = c.format == "S" ? 2 : 1;
        memcpy(c.at<char>(1) + size_t(c.array.offset + 8) * width, &value, width);
      };
      with([&](column& c) { index(c, 40); }, "has an index beyond its dictionary");
      with([&](column& c) { index(c, -1); }, "has an index beyond its dictionary");
    }
    if (k.second(0)->fields.empty()) continue;
    with([](column& c) { c.array.n_children -= 1; }, "has another number of fields");
    with([](column& c) { c.array.children = nullptr; }, "has another number of fields");
    with([](column& c) { c.schema.children = nullptr; }, "the ArrowSchema has no children");
    with([](column& c) { c.schema.n_children = -1; }, "the ArrowSchema has no children");
    with([](column& c) { c.schemas.back() = nullptr; }, "the ArrowSchema is NULL");
    with([](column& c) { c.arrays.back() = nullptr; }, "is NULL or was released");
    with([](column& c) { c.fields.back()->array.release = nullptr; }, "is NULL or was released");
    with([](column& c) { c.fields.back()->array.length -= 1; }, "is shorter than its struct");
    with([](column& c) { c.array.length += 1; }, "is shorter than its struct");
    with([](column& c) { c.array.offset += 1; }, "is shorter than its struct");
  }
  // Cells that are null may be anything.
  now = "nulls that are anything";
  auto c = views(60, true);
  for (int64_t i = 0; i < 60; ++i) {
    const int64_t at = c->array.offset + i;
    if (!(c->at<uint8_t>(0)[at / 8] >> at % 8 & 1)) memset(c->at<view>(1) + at, 0xff, sizeof(view));
  }
  const auto add_and_find = [](const column& given) {
    for (const uint32_t threads : {1u, 3u})
      for (const uint32_t how : {GPUHASH_NULLS_GROUP, GPUHASH_NULLS_DROP}) {
        index_and_map both(given, threads, how);
        both.find(given);
        both.add(given);
        both.find(given);
      }
  };
  add_and_find(*c);
  c = numbers_of("C", 1, 60, true, [](int64_t n) { return text<int32_t>("u", n, true); });
  for (int64_t i = 0; i < 60; ++i) {
    const int64_t at = c->array.offset + i;
    if (!(c->at<uint8_t>(0)[at / 8] >> at % 8 & 1)) c->at<uint8_t>(1)[at] = 0xff;
  }
  add_and_find(*c);
}

// ---- what the index cannot hold --------------------------------------------------------------------------------------

void what_does_not_fit() {
  // Bytes of another number.
  now = "bytes of 5 bytes";
  for (const uint32_t threads : {1u, 3u})
    for (const bool in_struct : {false, true}) {
      const auto wrap = [&](const maker& m) { return in_struct ? rows_of(30, false, {m}) : m(30); };
      const auto own = wrap([](int64_t n) { return cells("w:5", 5, n, false, 4); });
      index_and_map both(*own, threads, 0);
      both.add(*own);
      const auto others = {wrap([](int64_t n) { return cells("w:4", 4, n, false, 4); }),
                           wrap([](int64_t n) { return cells("w:20", 20, n, false, 4); }), wrap([](int64_t n) {
                             auto c = text<int32_t>("z", n, false);
                             std::fill_n(c->at<int32_t>(1), n + c->array.offset + 1, 2);
                             return c;
                           })};
      for (const auto& c : others) {
        EXPECT(gpuhash_index_add(both.index, &c->schema, &c->array, nullptr, &err) == GPUHASH_INVALID_ARGUMENT);
        EXPECT(std::strstr(err.message, "row 0 is nothing that an index of"));
        vector<int64_t> ids(30, -9);
        EXPECT(gpuhash_index_find(both.index, &c->schema, &c->array, ids.data(), &err) == GPUHASH_OK && ids[0] == -1);
      }
      both.look();
    }
  now = "the limits of int8";
  for (const int64_t v : {-129, -128, 127, 128}) {
    const auto own = cells("c", 1, 3, false), c = cells("l", 8, 1, false);
    index_and_map both(*own, 1, 0);
    c->at<int64_t>(1)[c->array.offset] = v;
    const bool fits = v == int8_t(v);
    EXPECT((gpuhash_index_add(both.index, &c->schema, &c->array, nullptr, &err) == GPUHASH_OK) == fits);
  }
  now = "integers of the other sign";
  const struct {
    const char *own, *other;
    size_t width;
  } pairs[] = {{"c", "C", 1}, {"C", "c", 1}, {"s", "S", 2}, {"S", "s", 2},
               {"i", "I", 4}, {"I", "i", 4}, {"l", "L", 8}, {"L", "l", 8}};
  for (const auto& p : pairs)
    for (const uint32_t threads : {1u, 3u})
      for (const bool in_struct : {false, true}) {
        const auto of = [&](const char* format, int last) {  // 20 rows, the last of which has all bits, or is 1
          const maker numbers = [&](int64_t n) {
            auto c = cells(format, p.width, n, false, 9);
            char* const row = c->at<char>(1) + size_t(c->array.offset + n - 1) * p.width;
            memset(row, last, p.width);
            return c;
          };
          return in_struct ? rows_of(20, false, {numbers}) : numbers(20);
        };
        const auto own = of(p.own, 1), fits = of(p.other, 0), c = of(p.other, 0xff);
        index_and_map both(*own, threads, 0);
        EXPECT(gpuhash_index_add(both.index, &c->schema, &c->array, nullptr, &err) == GPUHASH_INVALID_ARGUMENT);
        EXPECT(std::strstr(err.message, "row 19 is nothing that an index of"));
        both.look();
        EXPECT(gpuhash_index_add(both.index, &fits->schema, &fits->array, nullptr, &err) == GPUHASH_OK);
      }
  // The first row that does not, wherever it is; nothing is added.
  now = "the first row that does not fit";
  for (const uint32_t threads : {1u, 3u})
    for (int64_t row = 0; row < 40; ++row) {
      auto own = cells("C", 1, 3, false), c = cells("l", 8, 40, false, 9);
      index_and_map both(*own, threads, 0);
      for (const int64_t i : {row, std::min<int64_t>(row + 1, 39), std::min<int64_t>(row + 3, 39)})
        c->at<int64_t>(1)[c->array.offset + i] = draw(2) ? 256 : -1;
      EXPECT(gpuhash_index_add(both.index, &c->schema, &c->array, nullptr, &err) == GPUHASH_INVALID_ARGUMENT);
      EXPECT(std::strstr(err.message, ("row " + std::to_string(row) + " is nothing").c_str()));
      both.look();
      auto nulls = row % 2 ? cells("C", 1, 40, false, 9)
                           : numbers_of("C", 1, 40, false, [](int64_t n) { return cells("C", 1, n, false); });
      nulls->array.null_count = -1;
      for (const int64_t i : {row, std::min<int64_t>(row + 1, 39), std::min<int64_t>(row + 3, 39)}) {
        const int64_t at = nulls->array.offset + i;
        nulls->at<uint8_t>(0)[at / 8] &= uint8_t(~(1 << at % 8));
      }
      index_and_map refuses(*own, threads, GPUHASH_NULLS_REFUSE);
      EXPECT(gpuhash_index_add(refuses.index, &nulls->schema, &nulls->array, nullptr, &err) ==
             GPUHASH_INVALID_ARGUMENT);
      EXPECT(std::strstr(err.message, ("row " + std::to_string(row) + " is null").c_str()));
      refuses.look();
    }
}

// Text of 2 GiB and more, none of which is read, in each of two fields: a row of 4 GiB is not added, and others are.
void rows_of_four_gib() {
  now = "rows of 4 GiB";
  const size_t size = size_t{3} << 30;
  void* const bytes = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (bytes == MAP_FAILED) return;
  for (const uint32_t threads : {1u, 3u})
    for (const uint32_t how : {GPUHASH_NULLS_GROUP, GPUHASH_NULLS_DROP}) {
      const maker long_words = [&](int64_t n) {  // the one of row 3 has 2 GiB
        auto c = text<int64_t>("U", n, false);
        for (int64_t i = 0; i <= n; ++i) c->at<int64_t>(1)[c->array.offset + i] = i <= 3 ? 0 : int64_t(1) << 31;
        c->buffers[2] = bytes;
        return c;
      };
      const auto c = rows_of(40, false, {long_words, long_words, [](int64_t n) { return cells("l", 8, n, false, 3); }});
      // Shifted by its offset, the long row may be none: there is one where row 3 of the fields is one of the struct.
      const int64_t at = 3 - c->array.offset;
      index_and_map both(*c, threads, how);
      vector<int64_t> ids(40, -9);
      const gpuhash_status s = gpuhash_index_add(both.index, &c->schema, &c->array, ids.data(), &err);
      EXPECT((s == GPUHASH_NO_MEMORY) == (at >= 0));
      for (int64_t i = 0; i < 40; ++i) EXPECT(i == at ? ids[size_t(i)] == -2 : ids[size_t(i)] >= 0);
    }
  munmap(bytes, size);
}

// ---- keys ------------------------------------------------------------------------------------------------------------

void hashes_and_keys() {
  using gpuhash::columns::bytes_key, gpuhash::columns::hash_keys;
  EXPECT(gpuhash::columns::word_key{1}.hash(hash_keys(3)) != gpuhash::columns::word_key{1}.hash(hash_keys(4)));
  for (size_t n = 0; n < 100; ++n) {
    now = "bytes of length " + std::to_string(n);
    string a(n, 'a'), b = a;
    const auto of = [&](const string& s, size_t behind) {  // so many bytes lie behind, and no more
      thread_local vector<std::unique_ptr<char[]>> memory;
      memory.emplace_back(new char[s.size() + behind]);
      memset(memory.back().get(), 0xee, s.size() + behind);
      memcpy(memory.back().get(), s.data(), s.size());
      return bytes_key::of(memory.back().get(), uint32_t(n), memory.back().get() + s.size() + behind);
    };
    const bytes_key k = of(a, 0);
    EXPECT(k.view() == a);
    for (const size_t behind : {1, 4, 8, 12, 13})
      EXPECT(of(a, behind).same(k) && of(a, behind).same_after_tag(k) &&
             of(a, behind).hash(hash_keys(3)) == k.hash(hash_keys(3)));
    EXPECT(k.hash(hash_keys(3)) != k.hash(hash_keys(4)));
    uint64_t with_key = 0;
    EXPECT(bytes_key::of(a.c_str(), uint32_t(n), a.c_str() + n, hash_keys(3), &with_key).same(k));
    EXPECT(n > bytes_key::inline_bytes || with_key == k.hash(hash_keys(3)));
    if (n > bytes_key::inline_bytes) {
      const bytes_key as_long = bytes_key::of_long(a.c_str(), uint32_t(n), hash_keys(3), &with_key);
      EXPECT(as_long.same(k) && as_long.view() == a && with_key == k.hash(hash_keys(3)));
    }
    for (size_t i = 0; i < n; ++i) {
      b = a;
      b[i] = 'b';
      EXPECT(!of(b, 0).same(k) && !of(b, 12).same(k) && of(b, 0).hash(hash_keys(3)) != k.hash(hash_keys(3)));
      EXPECT(!of(b, 0).same_after_tag(k) && !k.same_after_tag(of(b, 12)));
    }
    const string longer = a + "a";
    const bytes_key other = bytes_key::of(longer.c_str(), uint32_t(n + 1), nullptr);
    EXPECT(!k.same(other) && !k.same_after_tag(other) && !other.same_after_tag(k));
  }
}

// No bytes at a place of their own make what is at other places not count, whatever the constants of the hash are.
void hashes_of_constants() {
  using namespace gpuhash::columns;
  for (const uint64_t constant : {odd1, odd2, odd3, uint64_t(0), ~uint64_t(0)})
    for (const size_t n : {12, 20, 36})
      for (const size_t at : {size_t(0), size_t(4), n - 8}) {
        now = "hashes beside a constant, " + std::to_string(n) + " bytes, at " + std::to_string(at);
        std::set<uint64_t> hashes;
        for (uint32_t i = 0; i < 1000; ++i) {
          string s(n, '\0');
          memcpy(&s[at < 4 ? 8 : 0], &i, 4);
          memcpy(&s[at], &constant, 8);
          hashes.insert(bytes_key::of(s.data(), uint32_t(n), s.data() + n).hash(hash_keys(3)));
        }
        EXPECT(hashes.size() == 1000);
      }
}

// Slots tell keys apart by half of the hash. What then tells them apart is seen with keys whose halves are equal.
void keys_of_equal_tags(const string& before) {
  using gpuhash::columns::bytes_key, gpuhash::columns::hash_keys;
  now = "keys of equal tags, behind " + std::to_string(before.size()) + " bytes";
  const hash_keys keys(5);  // the seed of index_and_map
  const auto text_of = [&](uint32_t i) { return before + std::to_string(i); };
  vector<std::pair<uint32_t, uint32_t>> tags;
  for (uint32_t i = 0; i < 1 << 19; ++i) {
    const string s = text_of(i);
    tags.emplace_back(uint32_t(bytes_key::of(s.data(), uint32_t(s.size()), nullptr).hash(keys) >> 32), i);
  }
  std::sort(tags.begin(), tags.end());
  vector<string> some, others;
  for (size_t i = 1; i < tags.size(); ++i)
    if (tags[i].first == tags[i - 1].first)
      some.push_back(text_of(tags[i - 1].second)), others.push_back(text_of(tags[i].second));
  EXPECT(some.size() > 10);  // 32 are to be expected
  vector<string> mixed;
  for (size_t i = 0; i < some.size(); ++i) mixed.push_back(others[i]), mixed.push_back(some[some.size() - 1 - i]);
  for (const uint32_t threads : {1u, 3u}) {
    index_and_map both(*these(some), threads, 0);
    both.add(*these(some));
    both.find(*these(others));
    both.add(*these(mixed));
    both.find(*these(mixed));
    both.add(*these(others), false);
    both.look();
  }
}

// ---- several threads -------------------------------------------------------------------------------------------------

void at_once() {
  now = "calls at once";
  const auto c = text<int32_t>("u", 200, true), other = text<int32_t>("u", 200, true);
  gpuhash_index_config config = GPUHASH_INDEX_CONFIG_INIT;
  config.threads = 2, config.counts = 1;
  gpuhash_index* index = nullptr;
  EXPECT(gpuhash_index_create(&c->schema, &config, &index, &err) == GPUHASH_OK);
  vector<std::thread> threads;
  std::atomic<int> bad{0};
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 6; ++i) {
        gpuhash_error e = GPUHASH_ERROR_INIT;
        vector<int64_t> ids(200), again(200);
        const column& mine = t % 2 ? *other : *c;
        if (gpuhash_index_add(index, &mine.schema, &mine.array, ids.data(), &e)) ++bad;
        if (gpuhash_index_find(index, &mine.schema, &mine.array, again.data(), &e) || ids != again) ++bad;
        gpuhash_index_info info{sizeof(info), 0, 0, 0};
        if (gpuhash_index_get_info(index, &info, &e)) ++bad;
        vector<int64_t> counts(info.size);
        if (gpuhash_index_counts(index, 0, info.size, counts.data(), &e)) ++bad;
        ArrowSchema schema{};
        ArrowArray array{};
        if (gpuhash_index_keys(index, 0, info.size, &schema, &array, &e)) return void(++bad);
        schema.release(&schema), array.release(&array);
        if (gpuhash_index_take(index, 200, ids.data(), &schema, &array, &e)) return void(++bad);
        for (int64_t row = 0; row < 200; ++row)
          if (cell(schema, array, row) != cell(mine.schema, mine.array, row)) ++bad;
        schema.release(&schema), array.release(&array);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT(bad == 0);
  gpuhash_index_destroy(index);
}

// Keys are read in calls that lock nothing else, while others are added: ThreadSanitizer watches.
void keys_beside_adds() {
  now = "keys beside adds";
  const auto c = cells("l", 8, 20, false, 1 << 30);
  gpuhash_index_config config = GPUHASH_INDEX_CONFIG_INIT;
  config.threads = 2, config.counts = 1;
  gpuhash_index* index = nullptr;
  EXPECT(gpuhash_index_create(&c->schema, &config, &index, &err) == GPUHASH_OK);
  EXPECT(gpuhash_index_add(index, &c->schema, &c->array, nullptr, &err) == GPUHASH_OK);
  vector<std::unique_ptr<column>> more;
  for (int i = 0; i < 60; ++i) more.push_back(cells("l", 8, 20, false, 1 << 30));
  std::atomic<bool> done{false};
  std::atomic<int> bad{0}, ready{0};
  const auto meet = [&] {
    for (++ready; ready < 2;) std::this_thread::yield();
  };
  std::thread reader([&] {
    meet();
    gpuhash_error e = GPUHASH_ERROR_INIT;
    while (!done.load(std::memory_order_relaxed)) {
      ArrowSchema schema{};
      ArrowArray array{};
      if (gpuhash_index_keys(index, 0, 3, &schema, &array, &e)) return void(++bad);
      bad += cell(schema, array, 2) == "null";
      schema.release(&schema), array.release(&array);
    }
  });
  meet();
  for (const auto& m : more) {
    if (gpuhash_index_add(index, &m->schema, &m->array, nullptr, &err)) ++bad;
    std::this_thread::yield();
  }
  done = true;
  reader.join();
  EXPECT(bad == 0);
  gpuhash_index_destroy(index);
}

}  // namespace

int main(int n, char** arguments) {
  const int rounds = n > 1 ? atoi(arguments[1]) : 1;
  hashes_and_keys();
  hashes_of_constants();
  keys_of_equal_tags("");
  keys_of_equal_tags(string(13, 'a'));
  keys_of_equal_tags(string(30, 'a'));
  for (int i = 0; i < rounds; ++i) {
    state = uint64_t(i) + 1;
    against_a_map();
    many_keys();
    merges();
    merges_of_indexes_that_do_not_count();
    merges_that_are_refused();
    merges_crosswise();
    merges_without_memory();
    memory_runs_out();
    wrong_offsets<int32_t>("u");
    wrong_offsets<int64_t>("U");
    wrong_views();
    wrong_structs();
    what_does_not_fit();
    rows_of_four_gib();
    at_once();
    keys_beside_adds();
  }
  if (wrong) std::printf("%d checks did not hold\n", wrong);
  return wrong != 0;
}
