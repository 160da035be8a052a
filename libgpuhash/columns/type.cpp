// The type of a column, from an ArrowSchema: see type.hpp.
#include "libgpuhash/columns/type.hpp"

#include <cstdlib>
#include <cstring>

namespace gpuhash::columns {
namespace {

constexpr int64_t second = 1'000'000'000;

// Nanoseconds of Arrow's letters of units; 0: no unit.
int64_t unit(char letter) {
  switch (letter) {
    case 's': return second;
    case 'm': return second / 1000;
    case 'u': return 1000;
    case 'n': return 1;
    default: return 0;
  }
}

void fixed(column_type* t, family kind, uint32_t width, bool is_signed = false) {
  t->kind = kind;
  t->how = layout::fixed;
  t->width = width;
  t->is_signed = is_signed;
}

// One letter, of which each is a type.
bool read_letter(char letter, column_type* t) {
  switch (letter) {
    case 'n': return true;
    case 'b': return t->kind = family::boolean, t->how = layout::bits, true;
    case 'c': return fixed(t, family::integer, 1, true), true;
    case 'C': return fixed(t, family::integer, 1), true;
    case 's': return fixed(t, family::integer, 2, true), true;
    case 'S': return fixed(t, family::integer, 2), true;
    case 'i': return fixed(t, family::integer, 4, true), true;
    case 'I': return fixed(t, family::integer, 4), true;
    case 'l': return fixed(t, family::integer, 8, true), true;
    case 'L': return fixed(t, family::integer, 8), true;
    case 'e': return fixed(t, family::floating, 2), true;
    case 'f': return fixed(t, family::floating, 4), true;
    case 'g': return fixed(t, family::floating, 8), true;
    case 'u': return t->kind = family::text, t->how = layout::offsets32, true;
    case 'U': return t->kind = family::text, t->how = layout::offsets64, true;
    case 'z': return t->kind = family::bytes, t->how = layout::offsets32, true;
    case 'Z': return t->kind = family::bytes, t->how = layout::offsets64, true;
    default: return false;
  }
}

// "tdD", "ttm", "tsu:UTC", "tDn"
bool read_time(const char* f, column_type* t) {
  const int64_t ticks = f[2] == 'D' ? 24 * 3600 * second : unit(f[2]);
  if (ticks == 0) return false;
  if (f[1] == 'd' && f[3] == 0 && (f[2] == 'D' || f[2] == 'm'))
    fixed(t, family::instant, f[2] == 'D' ? 4 : 8, true);
  else if (f[1] == 't' && f[3] == 0 && f[2] != 'D')
    fixed(t, family::time_of_day, f[2] == 's' || f[2] == 'm' ? 4 : 8, true);
  else if (f[1] == 's' && f[3] == ':' && f[2] != 'D')
    fixed(t, f[4] == 0 ? family::instant : family::zoned_instant, 8, true);
  else if (f[1] == 'D' && f[3] == 0 && f[2] != 'D')
    fixed(t, family::duration, 8, true);
  else
    return false;
  t->nanoseconds = ticks;
  return true;
}

// "d:precision,scale" and "d:precision,scale,bits"
bool read_decimal(const char* f, column_type* t) {
  char* end = nullptr;
  std::strtol(f + 2, &end, 10);
  if (*end != ',') return false;
  const long scale = std::strtol(end + 1, &end, 10);
  const long bits = *end == ',' ? std::strtol(end + 1, &end, 10) : 128;
  if (*end != 0 || (bits != 32 && bits != 64 && bits != 128) || scale < -38 || scale > 38) return false;
  fixed(t, family::decimal, uint32_t(bits / 8), true);
  t->scale = int32_t(scale);
  return true;
}

bool read_format(const char* f, column_type* t) {
  if (f[0] != 0 && f[1] == 0) return read_letter(f[0], t);
  if (f[0] == 't' && f[1] != 0 && f[2] != 0) return read_time(f, t);
  if (f[0] == 'd' && f[1] == ':') return read_decimal(f, t);
  if (!std::strcmp(f, "vu") || !std::strcmp(f, "vz")) {
    t->kind = f[1] == 'u' ? family::text : family::bytes;
    t->how = layout::views;
    return true;
  }
  if (f[0] == 'w' && f[1] == ':') {
    char* end = nullptr;
    const long long width = std::strtoll(f + 2, &end, 10);
    if (end == f + 2 || *end != 0 || width < 0 || width > INT32_MAX) return false;
    t->kind = family::bytes;
    t->how = layout::fixed_bytes;
    t->width = uint32_t(width);
    return true;
  }
  return false;
}

const char* name_of_refused(const char* f) {
  if (f[0] == '+') {
    if (f[1] == 'l' || f[1] == 'L' || f[1] == 'v') return "a list";
    if (f[1] == 'w') return "a list of fixed size";
    if (f[1] == 'm') return "a map";
    if (f[1] == 'u') return "a union";
    if (f[1] == 'r') return "run-end encoded";
  }
  if (f[0] == 't' && f[1] == 'i') return "an interval";
  if (f[0] == 'd') return "a decimal of more than 128 bits";
  return "of a type that has no equality here";
}

struct reader {
  row_type* out;
  gpuhash_error* err;

  gpuhash_status broken(const char* what) const {
    return fail(err, GPUHASH_INVALID_ARGUMENT, "the ArrowSchema %s; it was released, or is none", what);
  }

  gpuhash_status read(const ArrowSchema* s, int32_t parent, int depth) {
    if (s == nullptr || s->release == nullptr || s->format == nullptr) return broken("is NULL or has no format");
    if (out->columns.size() == most_columns || depth == most_depth)
      return fail(err, GPUHASH_UNSUPPORTED, "rows of more than %zu columns, or %d structs deep, cannot be keys",
                  most_columns, most_depth);
    if (s->n_children < 0 || (s->n_children > 0 && s->children == nullptr)) return broken("has no children");
    column_type t;
    t.parent = parent;
    t.name = s->name == nullptr ? "" : s->name;
    t.nullable = (s->flags & ARROW_FLAG_NULLABLE) != 0;
    if (!std::strcmp(s->format, "+s")) return read_struct(s, t, depth);
    const char* format = s->format;
    if (s->dictionary != nullptr) {
      column_type index;
      if (!read_format(s->format, &index) || index.kind != family::integer)
        return broken("has a dictionary, and indices that are no integers");
      t.dictionary = true;
      t.index_width = index.width;
      t.index_signed = index.is_signed;
      if (s->dictionary->release == nullptr || s->dictionary->format == nullptr)
        return broken("has an empty dictionary");
      format = s->dictionary->format;
      if (s->dictionary->dictionary != nullptr || !std::strcmp(format, "+s")) format = "+";
    }
    if (!read_format(format, &t) || s->n_children != 0) {
      out->columns.push_back(t);
      return fail(err, GPUHASH_UNSUPPORTED,
                  "%s is %s (Arrow's format '%.40s'), which cannot be a key; pass columns of "
                  "numbers, times, text, bytes or structs of these",
                  place(*out, out->columns.size() - 1).c_str(), name_of_refused(format), format);
    }
    t.format = format;
    out->columns.push_back(t);
    return GPUHASH_OK;
  }

  gpuhash_status read_struct(const ArrowSchema* s, column_type t, int depth) {
    t.kind = family::structure;
    t.format = "+s";
    t.fields = uint32_t(s->n_children);
    const auto own = int32_t(out->columns.size());
    out->columns.push_back(t);
    for (int64_t i = 0; i < s->n_children; ++i)
      if (const gpuhash_status status = read(s->children[i], own, depth + 1)) return status;
    return GPUHASH_OK;
  }
};

bool alike(family a, family b) {
  const auto number = [](family f) { return f == family::integer || f == family::floating; };
  return a == b || a == family::null || b == family::null || (number(a) && number(b));
}

}  // namespace

gpuhash_status read_type(const ArrowSchema* schema, row_type* out, gpuhash_error* err) {
  return reader{out, err}.read(schema, -1, 0);
}

std::string place(const row_type& type, size_t column) {
  if (type.columns.size() == 1 && type.columns[0].name.empty()) return "the column";
  const column_type& t = type.columns[column];
  if (!t.name.empty()) return "column '" + t.name.substr(0, 80) + "'";
  return t.parent < 0 ? "the row" : "field " + std::to_string(column - 1);
}

std::string describe(const column_type& t) {
  switch (t.kind) {
    case family::null: return "null";
    case family::boolean: return "bool";
    case family::integer: return (t.is_signed ? "int" : "uint") + std::to_string(8 * t.width);
    case family::floating: return "float" + std::to_string(8 * t.width);
    case family::time_of_day: return "time of day";
    case family::duration: return "duration";
    case family::instant: return t.width == 4 ? "date" : "timestamp";
    case family::zoned_instant: return "timestamp with a time zone";
    case family::decimal: return "decimal";
    case family::text: return "text";
    case family::bytes: return "bytes";
    case family::structure: return "a struct of " + std::to_string(t.fields) + " fields";
  }
  return "";
}

gpuhash_status match(const row_type& given, const row_type& own, bool bits, gpuhash_error* err) {
  const auto refuse = [&](size_t i, const column_type& a, const column_type& b) {
    return fail(err, GPUHASH_INVALID_ARGUMENT, "%s is %s here and %s there, which are never equal; convert one of them",
                place(own, i < own.columns.size() ? i : 0).c_str(), describe(a).c_str(), describe(b).c_str());
  };
  for (const row_type* t : {&given, &own})
    if (t->single() && t->columns[0].kind == family::null) return GPUHASH_OK;  // a column of nothing but nulls
  size_t i = 0;
  for (; i < given.columns.size() && i < own.columns.size(); ++i) {
    const column_type &a = given.columns[i], &b = own.columns[i];
    if (!alike(a.kind, b.kind) || a.fields != b.fields) return refuse(i, a, b);
    const bool a_float = a.kind == family::floating, b_float = b.kind == family::floating;
    if (bits && (a_float || b_float) && a.kind != family::null && b.kind != family::null &&
        (a_float != b_float || a.width != b.width))
      return refuse(i, a, b);
  }
  if (given.columns.size() != own.columns.size()) return refuse(0, given.columns[0], own.columns[0]);
  return GPUHASH_OK;
}

}  // namespace gpuhash::columns
