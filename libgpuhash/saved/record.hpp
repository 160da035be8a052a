// The record of a file, a JSON object, as far as loading needs it.
#pragma once
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "libgpuhash/saved/malformed.hpp"

namespace gpuhash::saved {

struct record {
  int64_t format = 0;
  uint64_t rows = 0;
  std::string kind, backend;
  double max_load_factor = 0;
  bool duplicates = false, has_rows = false;
};

// One pass over a text that is not trusted; nothing nests deeper than `deepest`.
class record_reader {
 public:
  static record read(std::string_view text) {
    record_reader r{text};
    record made;
    r.object([&](std::string_view name) { r.member(made, name); });
    r.blank();
    if (r.at_ != text.size()) r.wrong();
    return made;
  }

 private:
  static constexpr int deepest = 16;
  explicit record_reader(std::string_view text) : text_(text) {}

  [[noreturn]] void wrong() const { refuse("its record is no JSON, at byte %zu", at_); }
  void blank() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool next(char c) {
    blank();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void want(char c) {
    if (!next(c)) wrong();
  }
  // A text as it is written, with its escapes; none of the names and texts that matter has any.
  std::string_view text() {
    want('"');
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size()) wrong();
    return text_.substr(begin, at_++ - begin);
  }
  std::string_view word() {  // a number, true, false, null
    blank();
    const size_t begin = at_;
    while (at_ < text_.size() && std::string_view(" ,]}\n\t").find(text_[at_]) == std::string_view::npos) ++at_;
    if (begin == at_) wrong();
    return text_.substr(begin, at_ - begin);
  }
  template <class T>
  T number(const char* what) {
    const std::string_view digits = word();
    T value{};
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size())
      refuse("its record has the %s %.*s", what, int(digits.size() < 40 ? digits.size() : 40), digits.data());
    return value;
  }
  template <class Member>
  void object(Member member) {
    if (++depth_ > deepest) refuse("its record is nested more than %d levels deep", deepest);
    want('{');
    if (!next('}')) {
      do {
        const std::string_view name = text();
        want(':');
        member(name);
      } while (next(','));
      want('}');
    }
    --depth_;
  }
  void skip() {
    blank();
    const char c = at_ < text_.size() ? text_[at_] : 0;
    if (c == '"') {
      text();
    } else if (c == '{') {
      object([&](std::string_view) { skip(); });
    } else if (c == '[') {
      if (++depth_ > deepest) refuse("its record is nested more than %d levels deep", deepest);
      ++at_;
      if (!next(']')) {
        do skip();
        while (next(','));
        want(']');
      }
      --depth_;
    } else {
      word();
    }
  }
  void member(record& made, std::string_view name) {
    blank();
    const bool is_text = at_ < text_.size() && text_[at_] == '"';
    if (name == "format") {
      made.format = number<int64_t>("format");
    } else if (name == "rows") {
      made.rows = number<uint64_t>("rows");
      made.has_rows = true;
    } else if (name == "kind" && is_text) {
      made.kind = text();
    } else if (name == "backend" && is_text) {
      made.backend = text();
    } else if (name == "max_load_factor" && text_.substr(at_, 4) != "null") {
      made.max_load_factor = number<double>("max_load_factor");
    } else if (name == "options" && !is_text) {
      object([&](std::string_view option) {
        if (option == "duplicates")
          made.duplicates = text() == "1";
        else
          skip();
      });
    } else {
      skip();
    }
  }

  const std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace gpuhash::saved
